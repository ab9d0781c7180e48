"""Measure the hidden states of a run: the tables of measures, and the tables of every analysis.

`transformed` has measures after each of several transforms, and `none` beside them on the same points. A transform is
fitted on other sentences: on half of the probe set, whose other half is measured; for pairs on sentences in no pair.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, lru_cache, partial
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
from isoscope.data.scored_pairs import ScoredPairs
from isoscope.geometry import transforms as transforms_of
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import as_cloud
from isoscope.states.catalogue import ANALYSES, AnalysisOptions, Tables, analysed, check_enough, kind_of
from isoscope.states.cloud import Cell, OfAll
from isoscope.states.measures import measure as measure_of
from isoscope.states.pairs import PAIRED, read_pairs
from isoscope.states.pairs import layer as layer_of
from isoscope.states.pairs import places as places_of_pairs
from isoscope.states.probing_tables import KINDS
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory, stacked

SAMPLED = ("subsample", "draws", "confidence", "seed")  # settings of the subsamples of a `Cell`
UNTRANSFORMED = ("none",)
NONE = Estimate(np.nan, np.nan, np.nan)


class Cells:
    """The cells of a run and their measurement; `settings` has the attributes `SAMPLED`, and the `device`."""

    def __init__(self, run: Trajectory, settings: Any) -> None:
        self.run = run
        self.settings: dict[str, Any] = {name: getattr(settings, name) for name in (*SAMPLED, "device")}
        self._baselines: dict[tuple[str, str, int, int], dict[str, float]] = {}

    @cached_property
    def pairs(self) -> ScoredPairs | None:
        """Pairs of sentences that people scored."""
        return read_pairs(self.run.folder)

    def places(self, vectors: Sequence[str], names: Sequence[str]) -> list[tuple[Snapshot, str, int]]:
        """Return every place of these kinds of vectors, and of pairs, that a measure of `names` is of."""
        found, of = [*self.run.places(vectors)], {kind_of(name): name for name in names}
        if "pairs" in of and self.pairs is None:
            raise InputError(f"measures.names: {of['pairs']} needs scored pairs of sentences; set extraction.pairs")
        return found * ("points" in of) + [*places_of_pairs(self.run)] * ("pairs" in of)

    def cell(self, points: npt.ArrayLike, vectors: str) -> Cell:
        """Return a cloud of the run's sentences, of pairs, or of sampled words, with the attributes of each point."""
        cloud = as_cloud(points)
        known = {"first_token": "token_1", "second_token": "token_2", "length": "tokens"}
        about: dict[str, Any] = {"labels": None, "names": None, "groups": np.arange(len(cloud)), "attributes": {}}
        if vectors.startswith(PAIRED):
            assert self.pairs is not None
            cloud = cloud[: len(self.pairs.sentences)]
            about |= {"pairs": self.pairs, "groups": np.arange(len(cloud))}
        elif vectors == "words":
            words = self.run.words
            about |= {"names": words["text"].tolist(), "groups": words["sentence"].to_numpy()}
        else:
            probe = self.run.probe
            about["labels"] = probe["label"].to_numpy() if probe["label"].nunique() > 1 else None
            about["attributes"] = {name: probe[column].to_numpy() for name, column in known.items() if column in probe}
            about["groups"] = self.run.groups
        return Cell(cloud, **about, **self.settings)

    def at(
        self, place: tuple[Snapshot, str, int], names: Sequence[str], transforms: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the rows of a place, and those with a transform if any is asked for."""
        found = self._rows(self._at(*place), *place, names)
        return found + (self.transformed(*place, names, transforms) if {*transforms} - {*UNTRANSFORMED} else [])

    def transformed(
        self, snapshot: Snapshot, vectors: str, layer: int, names: Sequence[str], transforms: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the rows of `transformed` for one cell; NaN with a note where too few points fit a transform."""
        cell = self._at(snapshot, vectors, layer)
        if cell.pairs is None:
            fitted, cell = cell.halves()
        else:
            every = as_cloud(layer_of(self.run.arrays(snapshot), vectors, layer))
            fitted = replace(cell, points=every[len(cell.pairs.sentences) :])
        found, n = [], len(fitted.points)
        few = f"{n} points to fit them on, apart from those that are measured; give other texts" if n < 2 else ""
        for name in transforms:
            # A transform enlarges the differences of equal points, which are rounding.
            points = cell.points if cell.fault or few else getattr(transforms_of, name)(fitted.points)(cell.points)
            moved, lacking = replace(cell, points=points), few if name != "none" else ""
            rows = self._rows(moved, snapshot, vectors, layer, names, lacking)
            found += [row | {"transform": name, "fitted_on": n} for row in rows]
        return found

    def _at(self, snapshot: Snapshot, vectors: str, layer: int) -> Cell:
        return self.cell(layer_of(self.run.arrays(snapshot), vectors, layer), vectors)

    def _rows(
        self, cell: Cell, snapshot: Snapshot, vectors: str, layer: int, names: Sequence[str], lacking: str = ""
    ) -> list[dict[str, Any]]:
        rows, owners = [], dict[str, str]()
        for name in (one for one in names if (kind_of(one) == "pairs") == (cell.pairs is not None)):
            baseline = self._baseline(name, vectors, cell)
            found, note = ({}, lacking) if lacking else _metrics(name, cell)
            for metric in found:
                if (other := owners.setdefault(metric, name)) != name:
                    raise InputError(f"measures {other!r} and {name!r} both return {metric!r}; rename it in the plugin")
            if cell.fault or lacking:  # mark the cell and give no values
                found = dict.fromkeys(baseline, OfAll(*NONE))
            rows += [
                {
                    **snapshot.dated,
                    "layer": layer,
                    "vectors": vectors,
                    "measure": name,
                    "metric": metric,
                    **estimate._asdict(),
                    "baseline": baseline.get(metric, np.nan),
                    "n": cell.items if isinstance(estimate, OfAll) else min(cell.subsample, cell.n),
                    "d": cell.d,
                    "degenerate": cell.fault is not None,
                    "note": note,
                }
                for metric, estimate in found.items()
            ]
        return rows

    def _baseline(self, name: str, vectors: str, cell: Cell) -> dict[str, float]:
        """Measure isotropic noise with as many points, dimensions, classes and words."""
        key = (name, vectors, cell.n, cell.d)
        if key not in self._baselines:
            found, _ = _metrics(name, cell.twin())
            self._baselines[key] = {metric: estimate.value for metric, estimate in found.items()}
        return self._baselines[key]


def measured(
    run: Trajectory,
    names: Sequence[str],
    vectors: Sequence[str],
    settings: Any,
    *,
    title: str,
    transforms: Sequence[str] = UNTRANSFORMED,
) -> Tables:
    """Return the tables `geometry` and, with any of `transforms`, `transformed` of the measures `names`.

    `vectors`: kinds of representation, as far as the run has them. `settings` as for `Cells`.
    """
    cells = Cells(run, settings)
    shown = tqdm(cells.places(vectors, names), desc=title, unit="cell", disable=None)
    return tabulated([row for place in shown for row in cells.at(place, names, transforms)])


def _metrics(name: str, cell: Cell) -> tuple[dict[str, Estimate], str | None]:
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


def tabulated(rows: Sequence[Mapping[str, Any]]) -> Tables:
    """Return the rows of `Cells.at` as tables."""
    whole, transformed = ([row for row in rows if ("transform" in row) == of] for of in (False, True))
    return {"geometry": frame(whole)} | ({"transformed": frame(transformed)} if transformed else {})


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
    """Measure a snapshot's layer in a kind of representation; return rows of `geometry`, and of `transformed`."""
    return _cells(given).at(place, given.measures.names, given.measures.transforms)


def parts_of(run: Trajectory, measures: Any) -> list[tuple[str, str | None, str | None]]:
    """Return the other tables to make as (name, snapshot, kind); only `probing` is split, by snapshot and `KINDS`.

    Without classes only the snapshots that have every task are probed: the first, the best and the random weights.
    """
    steps = [one.name for one in run.trained]
    many = run.probe["label"].nunique() > 1
    probed = {steps[0], run.best.name, RANDOM, *([steps[-1], *steps[:: measures.probes.every]] if many else ())}
    return [
        *(("probing", one.name, kind) for one in run.snapshots if one.name in probed for kind in KINDS),
        *((name, None, None) for name in ANALYSES if name != "probing"),
    ]


def part(given: MeasureInputs, made: tuple[str, str | None, str | None]) -> Tables:
    """Make the tables of a part from `parts_of`."""
    (name, snapshot, kind), one, train = made, given.measures, None
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
        kinds=KINDS if kind is None else (kind,),
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
    places = Cells(run, given.measures).places(given.measures.vectors, given.measures.names)
    for found in over(partial(cell, given), places, "measures"):
        rows += found
        for point in points(found):
            metric(**point)
    tables = tabulated(rows) | stacked(over(partial(part, given), parts_of(run, given.measures), "analyses"))
    for name, table in tables.items():
        write_parquet(table, folder / f"{name}.parquet")
        watch()


def stored_points(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the `points` of measured tables in a folder."""
    return points(pd.read_parquet(folder / "geometry.parquet").to_dict("records"))


def points(rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield rows of the table `geometry` as metrics such as `geometry/layer_07/first/avg_sim` at their step.

    Rows of the twin, rows with a transform and rows without a value are left out.
    """
    for row in rows:
        if "transform" not in row and not (pd.isna(row["step"]) or pd.isna(row["value"])):
            name = f"geometry/layer_{row['layer']:02d}/{row['vectors']}/{row['metric']}"
            epoch = None if pd.isna(row["epoch"]) else int(row["epoch"])
            yield {"name": name, "value": row["value"], "step": int(row["step"]), "epoch": epoch}
