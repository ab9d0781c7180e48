"""Apply post-hoc whitening and all-but-the-top to the trained model's points of the test split."""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from isoscope.config.training import Watch as Settings
from isoscope.geometry.isotropy import all_but_the_top, whiten
from isoscope.geometry.moments import Floats, Ints
from isoscope.metrics.matrix_scores import scores
from isoscope.objectives import Place, Scored
from isoscope.training.anisotropy import batch_figures
from isoscope.training.observers import Context, Observer

NEIGHBOURS = 10
PER_DIRECTION = 4
"""Minimum number of points per whitened direction."""


class Posthoc(Observer):
    """Log the metrics `posthoc/…` of the test split, for an objective with classes."""

    name = "posthoc"

    def __init__(self, place: Place) -> None:
        self.place = place

    def begin(self, context: Context) -> None:
        self.objective = context.objective

    def places(self, step: int | None) -> Collection[Place]:
        return [self.place] if step is None else []

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        if scored.split != "test":
            return {}
        labels = self.objective.owners("test", np.arange(self.objective.size("test")), self.place)[1]
        found = {} if labels is None else posthoc_figures(scored.points[self.place], labels)
        return {f"posthoc/{name}": value for name, value in found.items()}


def observer(settings: Settings) -> Posthoc:
    """Return the observer for the section `training.watch`."""
    return Posthoc(Place(settings.layer, settings.vectors))


def posthoc_figures(points: npt.ArrayLike, labels: Ints) -> dict[str, float]:
    """Return metrics `map/…` of a cloud `[n, d]`: untouched, and mapped by maps fitted on its other half.

    Maps: `all_but_the_top` removes d/100 directions. `whitened` keeps the directions with variance, at most one per 4
    points.

    Metrics: the shares `a_1` … of the mapped half, and accuracy, F1 and Matthews correlation of two probes. The probes
    are fitted on the first half and evaluated on the second: `ridge_…`, a linear probe, which such maps hardly change,
    and `neighbour_…`, the vote of the 10 points of largest cosine, which isotropy should help. Each metric is the mean
    over both directions. `n` is the number of points of a half, `directions` the number of dimensions after the map,
    `chance` the share of the largest class. Halves are stratified by class.

    A cloud with NaN or infinity, or with a class of one point, gives no metrics.
    """
    cloud = np.asarray(points, dtype=np.float64)
    counts = np.bincount(labels)
    if not np.isfinite(cloud).all() or (counts == 1).any():
        return {}
    half = np.zeros(len(cloud), bool)
    random = np.random.default_rng(0)
    for one in np.flatnonzero(counts):
        rows = random.permutation(np.flatnonzero(labels == one))
        half[rows[: len(rows) // 2]] = True
    ways = [_figures(cloud[a], labels[a], cloud[~a], labels[~a]) for a in (half, ~half)]
    shared = [name for name in ways[0] if name in ways[1]]
    return {name: float(np.mean([way[name] for way in ways])) for name in shared} | {
        "chance": float(counts.max() / len(cloud))
    }


def _figures(reference: Floats, known: Ints, points: Floats, labels: Ints) -> dict[str, float]:
    figures: dict[str, float] = {}
    for name, (train, test) in _mapped(reference, points).items():
        found = batch_figures(test) | {"directions": float(test.shape[1])} | _probed(train, known, test, labels)
        figures |= {f"{name}/{figure}": value for figure, value in found.items()}
    return figures


def _mapped(reference: Floats, points: Floats) -> dict[str, tuple[Floats, Floats]]:
    found = {"untouched": (reference, points)}
    values = np.linalg.svd(reference - reference.mean(0), compute_uv=False)
    varying = int((values**2 > 1e-12 * values[0] ** 2).sum()) if values[0] > 0 else 0
    top, most = max(1, round(reference.shape[1] / 100)), min(varying, len(reference) // PER_DIRECTION)
    if top < varying:
        found["all_but_the_top"] = _both(all_but_the_top, reference, points, top)
    if most:
        found["whitened"] = _both(whiten, reference, points, most)
    return found


def _both(
    mapping: Callable[[Floats, Floats, int], Floats], reference: Floats, points: Floats, components: int
) -> tuple[Floats, Floats]:
    return mapping(reference, reference, components), mapping(points, reference, components)


def _probed(train: Floats, known: Ints, test: Floats, labels: Ints) -> dict[str, float]:
    # Slow import (about 1 s); a run that stops before its end does not need it.
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neighbors import KNeighborsClassifier

    scale = float(np.sqrt((train**2).mean())) or 1.0
    found: dict[str, float] = {}
    for name, probe in (
        ("ridge", RidgeClassifierCV(alphas=np.logspace(-1, 5, 7))),
        ("neighbour", KNeighborsClassifier(min(NEIGHBOURS, len(train)), metric="cosine")),
    ):
        predicted = probe.fit(train / scale, known).predict(test / scale)
        classes = int(max(known.max(), labels.max())) + 1
        found |= {f"{name}_{metric}": value for metric, value in scores(labels, predicted, classes).items()}
    return found
