"""The parts of a run's tables, each made from its hidden states alone by whatever process it falls to."""

from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from isoscope.config.extraction import Measures
from isoscope.data.corpus import texts
from isoscope.inside.catalogue import Asked, Tables, analysed
from isoscope.inside.measure_table import Cells
from isoscope.inside.trajectory import RANDOM, Snapshot, Trajectory

PARTS = ("baselines", "embedding", "planes", "topology", "learning", "attention", "spectrum", "fusion")
"""Analyses of `inside.catalogue` beside the probes; what takes longest stands first."""


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
    return [*(("probing", name) for name in probed if name in there), *((name, None) for name in PARTS)]


def part(looked: Looked, made: tuple[str, str | None]) -> Tables:
    """The tables of one of `parts_of`."""
    (name, snapshot), one, train = made, looked.measures, None
    if name == "baselines":  # on the same sentences and folds
        table = pq.read_table(looked.data / "train.parquet")
        train = [" ".join(text) for text in texts(table)], table["label"].to_numpy()
    asked = Asked(
        vectors=("first",),
        seed=one.seed,
        folds=one.probes.folds,
        confidence=one.confidence,
        neighbours=one.neighbours,
        diagram=one.diagram,
        alignment=one.alignment,
        probed=tuple(one.probes.vectors),
        everywhere=("label",),
        snapshots=None if snapshot is None else (snapshot,),
        train=train,
    )
    return analysed(name, Trajectory(looked.states), asked)
