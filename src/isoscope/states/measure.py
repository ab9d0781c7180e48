"""Measure the hidden states of a run: the table of measures, and the tables of every analysis."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow.parquet as pq
from tqdm import tqdm

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.base.workers import Spread, with_bar
from isoscope.data.corpus import texts
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import as_cloud
from isoscope.states.catalogue import ANALYSES, AnalysisOptions, Tables, analysed, check_enough
from isoscope.states.cloud import Cell, OfAll
from isoscope.states.measures import measure as measure_of
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory, stacked

SAMPLED = ("subsample", "draws", "confidence", "seed")
"""Settings of the subsamples of a `Cell`."""
NONE = Estimate(np.nan, np.nan, np.nan)


class Cells:
    """The cells of a run and their measurement; `settings` has the attributes `SAMPLED`."""

    def __init__(self, run: Trajectory, settings: Any) -> None:
        self.run = run
        self.settings: dict[str, Any] = {name: getattr(settings, name) for name in SAMPLED}
        self._baselines: dict[tuple[str, str, int], dict[str, float]] = {}

    def cell(self, points: npt.ArrayLike, vectors: str) -> Cell:
        """Return a cloud of the run's sentences, or of its sampled words, with the attributes of each point."""
        probe, words = self.run.probe, self.run.words
        known = {"first_token": "token_1", "second_token": "token_2", "length": "tokens"}
        if vectors == "words":
            about: dict[str, Any] = {"labels": None, "names": words["text"].tolist(), "attributes": {}}
            about |= {"groups": words["sentence"].to_numpy()}
        else:
            about = {"labels": probe["label"].to_numpy() if probe["label"].nunique() > 1 else None, "names": None}
            about |= {"attributes": {name: probe[column].to_numpy() for name, column in known.items()}}
            about |= {"groups": np.arange(len(probe))}
        return Cell(as_cloud(points), **about, **self.settings)

    def measured(self, snapshot: Snapshot, vectors: str, layer: int, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the table's rows for one cell."""
        cell = self.cell(self.run.arrays(snapshot).layer(vectors, layer), vectors)
        rows = []
        for name in names:
            baseline = self._baseline(name, vectors, cell)
            found, note = _figures(name, cell)
            if cell.fault:  # mark the cell and give no values
                found = dict.fromkeys(baseline, OfAll(*NONE))
            rows += [
                {
                    **snapshot.dated,
                    "layer": layer,
                    "vectors": vectors,
                    "measure": name,
                    "figure": figure,
                    **estimate._asdict(),
                    "baseline": baseline.get(figure, np.nan),
                    "n": cell.n if isinstance(estimate, OfAll) else min(cell.subsample, cell.n),
                    "d": cell.d,
                    "degenerate": cell.fault is not None,
                    "note": note,
                }
                for figure, estimate in found.items()
            ]
        return rows

    def _baseline(self, name: str, vectors: str, cell: Cell) -> dict[str, float]:
        """Measure isotropic noise with as many points, dimensions, classes and words."""
        key = (name, vectors, cell.d)
        if key not in self._baselines:
            found, _ = _figures(name, cell.twin())
            self._baselines[key] = {figure: estimate.value for figure, estimate in found.items()}
        return self._baselines[key]


def measured(
    run: Trajectory, names: Sequence[str], vectors: Sequence[str], settings: Any, *, title: str
) -> pd.DataFrame:
    """Build the table of the measures `names` on the kinds `vectors` that the run has; `settings` as for `Cells`."""
    cells = Cells(run, settings)
    shown = tqdm(list(run.places(vectors)), desc=title, unit="cell", disable=None)
    return frame([row for snapshot, kind, layer in shown for row in cells.measured(snapshot, kind, layer, names)])


def _figures(name: str, cell: Cell) -> tuple[dict[str, Estimate], str | None]:
    """Return a measure's values; if the cell has none, NaN under the measure's name, and the reason."""
    function = measure_of(name)  # raises for an unknown name
    if cell.fault:
        return {}, cell.fault
    from sklearn import config_context

    # scikit-learn's checks of arrays and parameters would take most of the time of small cells, and `as_cloud` checks.
    with config_context(assume_finite=True, skip_parameter_validation=True):
        try:
            found = function(cell).items()
        except InputError as error:
            return {name: OfAll(*NONE)}, str(error)
    values = {one: of if isinstance(of, Estimate) else OfAll(float(of), np.nan, np.nan) for one, of in found}
    return values, None


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a table with fixed types."""
    if not rows:
        raise InputError("measures: nothing was measured; check that the model has the kinds in measures.vectors")
    return pd.DataFrame(rows).astype({"step": "Int64", "epoch": "Int64", "layer": "int64", "n": "int64", "d": "int64"})


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
    """Return the other tables to make as (name, snapshot); only `probing` is split by snapshot."""
    steps = [one.name for one in run.trained]
    probed = {run.best.name, RANDOM, steps[-1], *steps[:: measures.probes.every]}
    return [
        *(("probing", one.name) for one in run.snapshots if one.name in probed),
        *((name, None) for name in ANALYSES if name != "probing"),
    ]


def part(given: MeasureInputs, made: tuple[str, str | None]) -> Tables:
    """Make the tables of a part from `parts_of`."""
    (name, snapshot), one, train = made, given.measures, None
    table = pq.read_table(given.data / "train.parquet") if name == "baselines" else None
    if table is not None and "label" in table.column_names:  # on the same sentences and folds
        train = [" ".join(text) for text in texts(table)], table["label"].to_numpy()
    asked = AnalysisOptions(
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
    for found in over(partial(cell, given), [*run.places(given.measures.vectors)], "measures"):
        rows += found
        for point in points(found):
            metric(**point)
    tables = {"geometry": frame(rows), **stacked(over(partial(part, given), parts_of(run, given.measures), "analyses"))}
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
