"""Post-hoc whitening and all-but-the-top: what such maps do to the trained model's points of the test split."""

from collections.abc import Callable, Collection

import numpy as np
import numpy.typing as npt

from isoscope.config.training import Watch as Settings
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.postprocessing import all_but_the_top, whiten
from isoscope.metrics.matrix_scores import scores
from isoscope.objectives import Place, Scored
from isoscope.training.anisotropy import batch_figures
from isoscope.training.observers import Context, Observer

NEIGHBOURS = 10
PER_DIRECTION = 4
"""Points that a whitened direction needs at least."""


class Posthoc(Observer):
    """Metrics `posthoc/…` of the test split, of an objective with classes."""

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
    """The observer that the section `training.watch` asks for."""
    return Posthoc(Place(settings.layer, settings.vectors))


def posthoc_figures(points: npt.ArrayLike, labels: Ints) -> dict[str, float]:
    """Figures `map/…` of a cloud `[n, d]` untouched and under maps fitted on one half of it and laid on the other.

    Maps: `all_but_the_top` without d/100 directions, `whitened` in as many as vary and have 4 points each. Figures:
    shares `a_1` … as of any cloud, and accuracy, F1 and Matthews of two probes that learn the classes on the one half
    and are asked on the other: `ridge_…`, a linear one, which such maps hardly change, and `neighbour_…`, the
    vote of the 10 points of largest cosine, which is what isotropy is said to help. Means of both ways round, with `n`
    points of a half, whitened `directions`, and `chance`, the largest class's share. Halves are drawn within classes.
    Nothing of a cloud that is no number, or in which a class has one point.
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
    for name, (taught, asked) in _mapped(reference, points).items():
        found = batch_figures(asked) | {"directions": float(asked.shape[1])} | _probed(taught, known, asked, labels)
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
    laid: Callable[[Floats, Floats, int], Floats], reference: Floats, points: Floats, components: int
) -> tuple[Floats, Floats]:
    return laid(reference, reference, components), laid(points, reference, components)


def _probed(taught: Floats, known: Ints, asked: Floats, labels: Ints) -> dict[str, float]:
    # A second, which runs that are stopped before their end need not wait
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neighbors import KNeighborsClassifier

    scale = float(np.sqrt((taught**2).mean())) or 1.0
    found: dict[str, float] = {}
    for name, probe in (
        ("ridge", RidgeClassifierCV(alphas=np.logspace(-1, 5, 7))),
        ("neighbour", KNeighborsClassifier(min(NEIGHBOURS, len(taught)), metric="cosine")),
    ):
        said = probe.fit(taught / scale, known).predict(asked / scale)
        classes = int(max(known.max(), labels.max())) + 1
        found |= {f"{name}_{metric}": value for metric, value in scores(labels, said, classes).items()}
    return found
