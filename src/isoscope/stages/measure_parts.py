"""The parts of a run's tables, each made from its hidden states alone by whatever process it falls to."""

from collections.abc import Callable
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.analysis.catalogue import Asked, Tables, analysed
from isoscope.analysis.dynamics import feature_dynamics
from isoscope.analysis.geometry import Cells
from isoscope.analysis.learning import learning_table
from isoscope.analysis.probing import baselines_table, probing_table
from isoscope.analysis.trajectory import RANDOM, Snapshot, Trajectory
from isoscope.config.inspection import Measures
from isoscope.corpora.corpus import texts


class Looked(NamedTuple):
    """Hidden states with their md5 (a path may hold others later), the task's texts, and what is measured."""

    states: Path
    md5: str
    data: Path
    measures: Measures


@lru_cache(maxsize=1)
def _cells(looked: Looked) -> Cells:
    """Keeps what the cells of a run are held against."""
    one = looked.measures
    return Cells(
        Trajectory(looked.states), subsample=one.subsample, draws=one.draws, confidence=one.confidence, seed=one.seed
    )


def cell(looked: Looked, place: tuple[Snapshot, str, int]) -> list[dict[str, Any]]:
    """The measures of one snapshot, kind of representation and layer: rows of `geometry`."""
    return _cells(looked).measured(*place, looked.measures.names)


def parts_of(run: Trajectory, measures: Measures) -> list[tuple[str, str | None]]:
    """The other tables to make: by name, and of `probing` by snapshot; what takes longest stands first."""
    steps = [one.name for one in run.trained]
    closely = [run.best.name, steps[0], RANDOM]
    probed = dict.fromkeys([*closely, steps[-1], *steps[:: measures.probes.every]])
    there = {one.name for one in run.snapshots}
    return [*(("probing", name) for name in probed if name in there), *((name, None) for name in _PARTS)]


def part(looked: Looked, asked: tuple[str, str | None]) -> Tables:
    """The tables of one of `parts_of`."""
    name, snapshot = asked
    run = Trajectory(looked.states)
    return _PARTS[name](run, looked) if snapshot is None else {name: _probing(run, looked, snapshot)}


def _probing(run: Trajectory, looked: Looked, snapshot: str) -> Any:
    probes, seed = looked.measures.probes, looked.measures.seed
    return probing_table(
        run, vectors=probes.vectors, everywhere=("label",), snapshots=[snapshot], seed=seed, folds=probes.folds
    )


def _planes(run: Trajectory, looked: Looked) -> Tables:
    if "first" not in run.arrays(run.best).vectors:
        return {}
    points, frames = feature_dynamics(run, looked.measures.alignment)
    return {"planes": points, "frames": frames}


def _topology(run: Trajectory, looked: Looked) -> Tables:
    return _of_catalogue("topology", run, looked) if "first" in run.arrays(run.best).vectors else {}


def _learning(run: Trajectory, looked: Looked) -> Tables:
    probes = looked.measures.probes
    table = learning_table(run, vectors=probes.vectors, seed=looked.measures.seed, folds=probes.folds)
    return {"learning": table} if len(table) else {}


def _baselines(run: Trajectory, looked: Looked) -> Tables:
    """What needs no encoder, on the same sentences and folds."""
    train = pq.read_table(looked.data / "train.parquet")
    joined, labels = [" ".join(text) for text in texts(train)], train["label"].to_numpy()
    folds = looked.measures.probes.folds
    return {"baselines": baselines_table(run, joined, labels, seed=looked.measures.seed, folds=folds)}


def _of_catalogue(name: str, run: Trajectory, looked: Looked) -> Tables:
    one = looked.measures
    asked = Asked(
        vectors=("first",),
        seed=one.seed,
        folds=one.probes.folds,
        confidence=one.confidence,
        neighbours=one.neighbours,
        diagram=one.diagram,
    )
    return analysed(name, run, asked)


_PARTS: dict[str, Callable[[Trajectory, Looked], Tables]] = {
    "baselines": _baselines,
    "embedding": partial(_of_catalogue, "embedding"),
    "planes": _planes,
    "topology": _topology,
    "learning": _learning,
    **{name: partial(_of_catalogue, name) for name in ("attention", "spectrum", "fusion")},
}
