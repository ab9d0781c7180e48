"""Build the table of every measure at every snapshot, layer and kind of representation of one run."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from sklearn import config_context
from tqdm import tqdm

from isoscope.errors import InputError
from isoscope.geometry.dimension import Estimate
from isoscope.inside.cloud import Cell, OfAll
from isoscope.inside.measures import measure
from isoscope.inside.trajectory import Snapshot, Trajectory

COLUMNS = (
    *("snapshot", "step", "epoch", "best", "layer", "vectors"),
    *("measure", "figure", "value", "low", "high", "baseline", "n", "d", "degenerate", "note"),
)


class Cells:
    """The cells of a run and their measurement; `settings` are arguments of `Cell`."""

    def __init__(self, run: Trajectory, *, subsample: int, draws: int, confidence: float, seed: int) -> None:
        self.run = run
        self.settings = {"subsample": subsample, "draws": draws, "confidence": confidence, "seed": seed}
        self._baselines: dict[tuple[str, str, int], dict[str, float]] = {}

    def cell(self, points: npt.ArrayLike, vectors: str) -> Cell:
        """Return a cloud of the run's sentences, or of its sampled words, with the attributes of each point."""
        probe, words = self.run.probe, self.run.words
        if vectors == "words":
            return Cell(
                points,
                labels=None,
                groups=words["sentence"].to_numpy(),
                names=words["text"].tolist(),
                attributes={},
                **self.settings,  # type: ignore[arg-type]
            )
        labels = probe["label"].to_numpy()
        known = {"first_token": "token_1", "second_token": "token_2", "length": "tokens"}
        return Cell(
            points,
            labels=labels if len(np.unique(labels)) > 1 else None,
            groups=np.arange(len(probe)),
            names=None,
            attributes={name: probe[column].to_numpy() for name, column in known.items()},
            **self.settings,  # type: ignore[arg-type]
        )

    def measured(self, snapshot: Snapshot, vectors: str, layer: int, names: Sequence[str]) -> list[dict[str, Any]]:
        """Return the table's rows for one cell."""
        cell = self.cell(self.run.arrays(snapshot).layer(vectors, layer), vectors)
        rows = []
        for name in names:
            baseline = self._baseline(name, vectors, cell)
            found, note = _figures(name, cell)
            if cell.fault:  # mark the cell and give no values
                found, note = dict.fromkeys(baseline, float("nan")), cell.fault
            for figure, value in found.items():
                subsampled = isinstance(value, Estimate) and not isinstance(value, OfAll)
                estimate = value if isinstance(value, Estimate) else Estimate(float(value), np.nan, np.nan)
                n = min(cell.subsample, cell.n) if subsampled else cell.n
                rows.append(
                    dict(
                        zip(
                            COLUMNS,
                            (
                                *(snapshot.name, snapshot.step, snapshot.epoch, snapshot.best, layer, vectors),
                                *(name, figure, *estimate, baseline.get(figure, np.nan)),
                                *(n, cell.d, cell.fault is not None, note),
                            ),
                            strict=True,
                        )
                    )
                )
        return rows

    def _baseline(self, name: str, vectors: str, cell: Cell) -> dict[str, float]:
        """Measure isotropic noise with as many points, dimensions, classes and words."""
        key = (name, vectors, cell.d)
        if key not in self._baselines:
            found, _ = _figures(name, cell.twin())
            self._baselines[key] = {
                figure: value.value if isinstance(value, Estimate) else float(value) for figure, value in found.items()
            }
        return self._baselines[key]


def measured(
    run: Trajectory, names: Sequence[str], vectors: Sequence[str], *, title: str, **settings: Any
) -> pd.DataFrame:
    """Build the table of the measures `names` on the kinds `vectors` that the run has; `settings` as for `Cells`."""
    cells = Cells(run, **settings)
    shown = tqdm(list(places(run, vectors)), desc=title, unit="cell", disable=None)
    return frame([row for snapshot, kind, layer in shown for row in cells.measured(snapshot, kind, layer, names)])


def _figures(name: str, cell: Cell) -> tuple[Mapping[str, float | Estimate], str | None]:
    """Return a measure's values; if the cell has none, NaN under the measure's name, and the reason."""
    function = measure(name)  # raises for an unknown name
    if cell.fault:
        return {}, None
    with quick():
        try:
            return function(cell), None
        except InputError as error:
            return {name: float("nan")}, str(error)


def quick() -> AbstractContextManager[None]:
    """Turn off scikit-learn's checks of arrays and parameters: `as_cloud` checks, and they dominate small cells."""
    return config_context(assume_finite=True, skip_parameter_validation=True)


def places(run: Trajectory, vectors: Sequence[str]) -> Iterator[tuple[Snapshot, str, int]]:
    """Yield every (snapshot, kind of representation, layer) of the kinds `vectors` that the model has."""
    for snapshot in run.snapshots:
        arrays = run.arrays(snapshot)
        for kind in arrays.vectors:
            if kind in vectors:
                yield from ((snapshot, kind, layer) for layer in range(arrays.shape(kind)[0]))


def frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return the rows as a table with fixed types."""
    if not rows:
        raise InputError("measures: nothing was measured; check that the model has the kinds in measures.vectors")
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    return found.astype({"step": "Int64", "epoch": "Int64", "layer": "int64", "n": "int64", "d": "int64"})
