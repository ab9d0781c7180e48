"""Measure the hidden states of a run: the table of measures, and the tables of every analysis."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq

from isoscope.base.workers import Spread, with_bar
from isoscope.data.corpus import texts
from isoscope.data.parquet import write_parquet
from isoscope.states.catalogue import Asked, Tables, analysed, check_enough
from isoscope.states.measures import Cells, frame, places
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory

PARTS = ("baselines", "embedding", "planes", "topology", "learning", "attention", "spectrum", "fusion")
"""Analyses of `states.catalogue` other than the probes, slowest first."""


class MeasureInputs(NamedTuple):
    """Hidden states with their md5 (the content of a path may change), the task's texts, and the section `measures`."""

    states: Path
    md5: str
    data: Path
    measures: Any


@lru_cache(maxsize=1)
def _cells(given: MeasureInputs) -> Cells:
    """Return the cells of a run; cached, because they share reference values."""
    return Cells(Trajectory(given.states), given.measures)


def cell(given: MeasureInputs, place: tuple[Snapshot, str, int]) -> list[dict[str, Any]]:
    """Measure a snapshot's layer in a kind of representation; return rows of `geometry`."""
    return _cells(given).measured(*place, given.measures.names)


def parts_of(run: Trajectory, measures: Any) -> list[tuple[str, str | None]]:
    """Return the other tables to make as (name, snapshot), slowest first; only `probing` is split by snapshot."""
    steps = [one.name for one in run.trained]
    closely = [run.best.name, steps[0], RANDOM]
    probed = dict.fromkeys([*closely, steps[-1], *steps[:: measures.probes.every]])
    there = {one.name for one in run.snapshots}
    return [*(("probing", name) for name in probed if name in there), *((name, None) for name in PARTS)]


def part(given: MeasureInputs, made: tuple[str, str | None]) -> Tables:
    """Make the tables of a part from `parts_of`."""
    (name, snapshot), one, train = made, given.measures, None
    table = pq.read_table(given.data / "train.parquet") if name == "baselines" else None
    if table is not None and "label" in table.column_names:  # on the same sentences and folds
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


def measure(
    folder: Path,
    given: MeasureInputs,
    *,
    title: str,
    metric: Callable[..., object],
    spread: Spread,
    watch: Callable[[], None],
) -> None:
    """Write all tables (parquet) into `folder`, and give each value of `geometry` to `metric`, see `points`.

    `watch` is called between parts of the work and may raise to stop. Raises `InputError` for too few sentences.
    """
    folder.mkdir(parents=True, exist_ok=True)
    run, rows = Trajectory(given.states), list[dict[str, Any]]()
    check_enough(run, folds=given.measures.probes.folds, neighbours=given.measures.neighbours)
    over = with_bar(spread, watch, title)
    for found in over(partial(cell, given), [*places(run, given.measures.vectors)], "measures"):
        rows += found
        for point in points(found):
            metric(**point)
    parts = parts_of(run, given.measures)
    by_part = dict(zip(parts, over(partial(part, given), parts, "analyses"), strict=True))
    probed = [by_part.get(("probing", one.name)) for one in run.snapshots]
    probing = pd.concat([found["probing"] for found in probed if found], ignore_index=True)
    tables = {"geometry": frame(rows), "probing": probing}
    for name in PARTS:
        tables |= by_part[name, None]
    for name, table in tables.items():
        write_parquet(table, folder / f"{name}.parquet")
        watch()


def stored_points(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the `points` of measured tables in a folder."""
    return points(pd.read_parquet(folder / "geometry.parquet").to_dict("records"))


def points(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows of the table `geometry` as metrics such as `geometry/layer_07/first/avg_sim` at their step.

    Rows of the twin and rows without a value are left out.
    """
    for row in rows:
        if not (pd.isna(row["step"]) or pd.isna(row["value"])):
            name = f"geometry/layer_{row['layer']:02d}/{row['vectors']}/{row['figure']}"
            epoch = None if pd.isna(row["epoch"]) else int(row["epoch"])
            yield {"name": name, "value": row["value"], "step": int(row["step"]), "epoch": epoch}
