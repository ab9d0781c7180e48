"""Make the parts of a run's tables; any process can make a part from the hidden states."""

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
"""Analyses of `inside.catalogue` other than the probes, slowest first."""


class MeasureInputs(NamedTuple):
    """Hidden states with their md5 (the content of a path may change), the task's texts, and the measures."""

    states: Path
    md5: str
    data: Path
    measures: Measures


@lru_cache(maxsize=1)
def _cells(given: MeasureInputs) -> Cells:
    """Return the cells of a run; cached, because they share reference values."""
    one = given.measures
    return Cells(
        Trajectory(given.states), subsample=one.subsample, draws=one.draws, confidence=one.confidence, seed=one.seed
    )


def cell(given: MeasureInputs, place: tuple[Snapshot, str, int]) -> list[dict[str, Any]]:
    """Measure a snapshot's layer in a kind of representation; return rows of `geometry`."""
    return _cells(given).measured(*place, given.measures.names)


def parts_of(run: Trajectory, measures: Measures) -> list[tuple[str, str | None]]:
    """Return the other tables to make as (name, snapshot), slowest first; only `probing` is split by snapshot."""
    steps = [one.name for one in run.trained]
    closely = [run.best.name, steps[0], RANDOM]
    probed = dict.fromkeys([*closely, steps[-1], *steps[:: measures.probes.every]])
    there = {one.name for one in run.snapshots}
    return [*(("probing", name) for name in probed if name in there), *((name, None) for name in PARTS)]


def part(given: MeasureInputs, made: tuple[str, str | None]) -> Tables:
    """Make the tables of a part from `parts_of`."""
    (name, snapshot), one, train = made, given.measures, None
    if name == "baselines":  # on the same sentences and folds
        table = pq.read_table(given.data / "train.parquet")
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
    return analysed(name, Trajectory(given.states), asked)
