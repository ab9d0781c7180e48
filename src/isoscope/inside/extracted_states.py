"""Extract the arrays of every snapshot of a run over one probe set into a folder."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tqdm import tqdm

from isoscope.data.probe import ProbeSet
from isoscope.inside.hidden_states import Arrays
from isoscope.inside.trajectory import Snapshot, holds, write_arrays, write_probe, write_snapshots


def extract_snapshots(
    folder: Path,
    chosen: ProbeSet,
    snapshots: Sequence[Snapshot],
    arrays: Callable[[Snapshot], Arrays],
    *,
    key: str,
    facts: Mapping[str, Any],
    title: str,
    watch: Callable[[], None] = lambda: None,
) -> None:
    """Write the arrays of each snapshot, the probe set, and the list of snapshots with `facts`.

    An unchanged file made from the same `key` and weights is kept. `watch` is called before each snapshot and may raise
    to stop.
    """
    for snapshot in tqdm(snapshots, desc=title, unit="snapshot", disable=None):
        watch()
        path, made_from = folder / "states" / f"{snapshot.name}.safetensors", f"{key} {snapshot.weights}"
        if not holds(path, made_from):
            write_arrays(path, arrays(snapshot), made_from)
    write_probe(folder, chosen)
    counts = {"sha256": chosen.digest, "sentences": len(chosen.rows), "truncated": chosen.encoded.truncated}
    write_snapshots(folder, [*snapshots], {**counts, **facts})
