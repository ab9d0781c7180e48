"""The tables of `isoscope geometry`: each analysis of each checkpoint, worked out once and kept by content."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from isoscope import plugins
from isoscope.code import code_version
from isoscope.data.parquet import write_parquet
from isoscope.errors import InputError
from isoscope.inside.catalogue import Asked, Tables, analysed, usual_vectors
from isoscope.inside.choices import Settings
from isoscope.inside.kept import kept
from isoscope.inside.measure_table import measured
from isoscope.inside.planes_table import aligned
from isoscope.inside.trajectory import Snapshot, Trajectory
from isoscope.sealing import write_text

NOTE = "note.json"
NEIGHBOURS, DIAGRAM = 5, 120
"""Near tokens looked at, and points of a persistence diagram, as in params.yaml, which a page has none of."""
PARTS = {"probing": ("probing", "learning", "baselines")}
"""Analyses that are several in `inside.catalogue`."""
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


def _measures(run: Trajectory, settings: Settings, cache: Path, title: str) -> Analysed:
    """The table `geometry` as `inside.measure_table` gives it; the rows of each measure are kept by themselves."""
    vectors = asked_vectors(run, settings)
    sampled = {name: getattr(settings, name) for name in ("subsample", "draws", "confidence", "seed")}
    parts: list[pd.DataFrame] = []
    for name in settings.measures:
        make = partial(_measured, run, name, vectors, f"{title}: {name}", sampled)
        about = {"states": run.folder.name, "measure": name, "code": code_of(name), "vectors": vectors, **sampled}
        parts += _kept(cache, about, make).tables.values()
    if not parts:
        raise InputError(
            f"--measure {', '.join(settings.measures)}: nothing to measure in {', '.join(vectors)}; "
            "classes need --labels, and classes and shape are of sentences, not of words"
        )
    return Analysed({"geometry": pd.concat(parts, ignore_index=True)}, None)


def _measured(run: Trajectory, name: str, vectors: Sequence[str], title: str, sampled: Mapping[str, Any]) -> Tables:
    return {"geometry": measured(run, [name], vectors, title=title, **sampled)}


def analysis(name: str, run: Trajectory, settings: Settings, cache: Path, title: str) -> Analysed:
    """The tables of `measures` or of an analysis of `inside.catalogue`, or why there are none."""
    if name == "measures":
        return _measures(run, settings, cache, title)
    given = (settings.seed, settings.folds, settings.confidence, NEIGHBOURS, DIAGRAM)
    asked = Asked(sentence_vectors(run, settings), *given, alignment="sign")
    about = {"states": run.folder.name, "analysis": name, "code": code_version("geometry"), "settings": asked}
    parts = PARTS.get(name, (name,))
    found = _kept(cache, about, lambda: {k: one for part in parts for k, one in analysed(part, run, asked).items()})
    lacking = None if found.tables else found.note or run.facts.get("lacking") or LACKING[name]
    return Analysed(found.tables, lacking)


def planes(runs: Mapping[str, Trajectory], settings: Settings, cache: Path) -> Tables:
    """Principal planes: of checkpoints of the same width and depth turned to the first of them, others by themselves.

    `planes` and `frames` as `inside.planes_table.aligned` gives them, and `vectors`, `checkpoint`, `group` (from 0:
    which were aligned together) and, of points, `label`.
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


def asked_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Kinds of representation that are looked at: those asked for, of a causal model without `first`, or the usual."""
    asked = tuple(kind for kind in settings.vectors if kind != "first" or not run.facts["causal"])
    return asked or usual_vectors(causal=run.facts["causal"], cls=run.facts["cls"])


def sentence_vectors(run: Trajectory, settings: Settings) -> tuple[str, ...]:
    """Those of them that are of whole sentences, else the usual ones."""
    for asked in (asked_vectors(run, settings), asked_vectors(run, settings._replace(vectors=()))):
        if kinds := tuple(kind for kind in asked if kind != "words"):
            break
    return kinds


def code_of(name: str) -> str:
    """What a measure's figures depend on in the code; a plugin's also on its file."""
    one = plugins.MEASURES.get(name)
    return code_version("geometry") + (plugins.digest(one.file) if one else "")


def _kept(cache: Path, about: Mapping[str, Any], make: Callable[[], Tables]) -> Analysed:
    """What `make` gives, kept under what it depends on; bad input is kept as a note."""

    def fill(folder: Path) -> None:
        tables, note = {}, None
        try:
            tables = make()
        except InputError as error:
            note = str(error)
        write_text(folder / NOTE, json.dumps(note), "table")
        for name, table in tables.items():
            write_parquet(table, folder / f"{name}.parquet")

    folder = kept(cache / "tables", about, fill, "table")
    return Analysed(
        {path.stem: _read(path) for path in sorted(folder.glob("*.parquet"))}, json.loads((folder / NOTE).read_text())
    )


def _read(path: Path) -> pd.DataFrame:
    """A table; parquet alone does not tell whole numbers with gaps from others."""
    table = pd.read_parquet(path)
    return table.astype({name: "Int64" for name in ("step", "epoch") if name in table})
