"""The tables of `isoscope geometry`: each analysis of each checkpoint, worked out once and kept by content."""

import hashlib
import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
from tqdm import tqdm

from isoscope import plugins
from isoscope.analysis.catalogue import Asked, Tables, analysed, usual_vectors
from isoscope.analysis.dynamics import aligned
from isoscope.analysis.geometry import Cells, frame, places
from isoscope.analysis.parquet import write_parquet
from isoscope.analysis.trajectory import Snapshot, Trajectory
from isoscope.code import code_version
from isoscope.errors import InputError
from isoscope.sealing import fault, write_text, write_whole
from isoscope.stages.geometry_states import Settings

NOTE = "note.json"
NEIGHBOURS, DIAGRAM = 5, 120
"""Near tokens looked at, and points of a persistence diagram, as in params.yaml, which a page has none of."""
LACKING = {
    "attention": "the model gives none",
    "embedding": "the model has no table of words by one of the usual names",
    "spectrum": "the model has no table of words by one of the usual names",
    "topology": "its vectors are all one",
}
"""Why an analysis that was tried has no table."""


class Analysed(NamedTuple):
    """Tables by name, and why there are none (or None)."""

    tables: Tables
    note: str | None


def measured(run: Trajectory, settings: Settings, cache: Path, title: str) -> Analysed:
    """Every measure's rows, as `analysis.geometry.frame` gives them; each measure's are kept by themselves."""
    cells = Cells(
        run, subsample=settings.subsample, draws=settings.draws, confidence=settings.confidence, seed=settings.seed
    )
    vectors = asked_vectors(run, settings)
    sampled = [settings.subsample, settings.draws, settings.confidence, settings.seed, vectors]

    def make(name: str) -> Tables:
        shown = tqdm(list(places(run, vectors)), desc=f"{title}: {name}", unit="cell", disable=None)
        rows = [row for snapshot, kind, layer in shown for row in cells.measured(snapshot, kind, layer, [name])]
        return {"geometry": frame(rows)} if rows else {}

    found = [
        _kept(
            cache,
            {"states": run.folder.name, "measure": name, "code": code_of(name), "settings": sampled},
            partial(make, name),
        )
        for name in settings.measures
    ]
    parts = [one.tables["geometry"] for one in found if one.tables]
    if not parts:
        raise InputError(
            f"--measure {', '.join(settings.measures)}: nothing to measure in {', '.join(vectors)}; "
            "classes need --labels, and classes and shape are of sentences, not of words"
        )
    return Analysed({"geometry": pd.concat(parts, ignore_index=True)}, None)


def analysis(name: str, run: Trajectory, settings: Settings, cache: Path) -> Analysed:
    """The tables of an analysis of `analysis.catalogue`."""
    asked = Asked(
        sentence_vectors(run, settings), settings.seed, settings.folds, settings.confidence, NEIGHBOURS, DIAGRAM
    )
    about = {"states": run.folder.name, "analysis": name, "code": code_version("geometry"), "settings": asked}
    found = _kept(cache, about, lambda: analysed(name, run, asked))
    if found.tables or found.note:
        return found
    return found._replace(note=run.facts.get("lacking") or LACKING[name])


def planes(runs: Mapping[str, Trajectory], settings: Settings, cache: Path) -> Tables:
    """Principal planes: of checkpoints of the same width and depth turned to the first of them, others by themselves.

    `planes` and `frames` as `analysis.dynamics.aligned` gives them, and `vectors`, `checkpoint`, `group` (from 0: which
    were aligned together) and, of points, `label`.
    """
    groups: dict[Any, dict[str, Trajectory]] = {}
    for name, run in runs.items():
        for kind in sentence_vectors(run, settings):
            groups.setdefault((kind, run.arrays(run.best).shape(kind)), {})[name] = run
    found: dict[str, list[pd.DataFrame]] = {"planes": [], "frames": []}
    for number, ((kind, _), group) in enumerate(groups.items()):
        about = {
            "planes": [[name, run.folder.name] for name, run in group.items()],
            "code": code_version("geometry"),
            "settings": [settings.alignment, kind],
        }
        for name, table in _kept(cache, about, partial(_planes, group, kind, settings.alignment)).tables.items():
            found[name].append(table.assign(vectors=kind, group=number))
    return {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}


def _planes(runs: Mapping[str, Trajectory], kind: str, alignment: Any) -> Tables:
    frames = {Snapshot(name, None, None, False, ""): run.arrays(run.best) for name, run in runs.items()}
    labels = next(iter(runs.values())).probe["label"].to_numpy()
    points, shown = aligned(frames, alignment, reference=next(iter(frames)), vectors=kind)
    found = {"planes": points.assign(label=labels[points["sentence"]]), "frames": shown}
    return {name: table.rename(columns={"snapshot": "checkpoint"}) for name, table in found.items()}


def causal(run: Trajectory) -> bool:
    """Whether a token sees none of those behind it."""
    return bool(run.facts["causal"])


def asked_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Kinds of representation that are looked at: those asked for, of a causal model without `first`, or the usual."""
    asked = tuple(kind for kind in settings.vectors if kind != "first" or not causal(run))
    return asked or usual_vectors(causal=causal(run), cls=run.facts["cls"])


def sentence_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Those of them that are of whole sentences, else the usual ones."""
    kinds = (*asked_vectors(run, settings), *usual_vectors(causal=causal(run), cls=run.facts["cls"]))
    asked = [kind for kind in asked_vectors(run, settings) if kind != "words"]
    return tuple(asked or [kind for kind in kinds if kind != "words"])


def code_of(name: str) -> str:
    """What a measure's figures depend on in the code; a plugin's also on its file."""
    one = plugins.MEASURES.get(name)
    return code_version("geometry") + (plugins.digest(one.file) if one else "")


def _kept(cache: Path, about: Mapping[str, Any], make: Callable[[], Tables]) -> Analysed:
    """What `make` gives, kept in a sealed folder under what it depends on; bad input is kept as a note."""
    folder = cache / "tables" / hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    if fault(folder) is not None:
        try:
            made = Analysed(make(), None)
        except InputError as error:
            made = Analysed({}, str(error))
        write_whole(folder, partial(_write, made), "table")
    note = json.loads((folder / NOTE).read_text("utf-8"))
    return Analysed({path.stem: _read(path) for path in sorted(folder.glob("*.parquet"))}, note)


def _write(made: Analysed, folder: Path) -> None:
    write_text(folder / NOTE, json.dumps(made.note), "table")
    for name, table in made.tables.items():
        write_parquet(table, folder / f"{name}.parquet")


def _read(path: Path) -> pd.DataFrame:
    """A table; parquet alone does not tell whole numbers with gaps from others."""
    table = pq.read_table(path).to_pandas()
    return table.astype({name: "Int64" for name in ("step", "epoch") if name in table})
