"""Isotropy after the fact: what maps fitted on a trained model's representations do, with nothing trained again."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from isoscope.corpora.batches import drawn_rows
from isoscope.corpora.tokens import Encoded
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.postprocessing import all_but_the_top, whiten
from isoscope.training.anisotropy import batch_figures
from isoscope.training.evaluation import Place
from isoscope.training.scoring import Scorer

FITTED_ON = 2000
"""Training sentences at most that maps and readers are fitted on."""
NEIGHBOURS = 10
PER_DIRECTION = 4
"""Sentences that a whitened direction needs at least."""


def posthoc(scorer: Scorer, train: Encoded) -> dict[str, float]:
    """`posthoc_figures` of the validation split under the model as it is, fitted on a sample of `train`.

    Only of a run that watches anisotropy; every process of a run takes part.
    """
    if scorer.watch is None:
        return {}
    place = Place(scorer.watch.layer, scorer.watch.vectors)
    known = train.take(drawn_rows(len(train.labels), FITTED_ON))
    reference, points = (scorer.evaluate(split, place).points for split in (known, scorer.validation))
    assert reference is not None
    assert points is not None
    return posthoc_figures(reference, known.labels, points, scorer.validation.labels)


def posthoc_figures(reference: npt.ArrayLike, known: Ints, points: npt.ArrayLike, labels: Ints) -> dict[str, float]:
    """Figures `map/…` of `points` `[n, d]` untouched and under each map fitted on `reference` `[m, d]`.

    Maps: `all_but_the_top` without d/100 directions, `whitened` in min(d, m/4) of them. Figures: shares `a_1` … as of
    any cloud; accuracy of two readers that are taught the `known` labels of the mapped reference: `ridge_accuracy`, a
    linear one, which all but sees through such maps, and `neighbour_accuracy`, the vote of the 10 points of largest
    cosine, which is what isotropy is said to help. Nothing of a cloud that is no number.
    """
    before, after = (np.asarray(cloud, dtype=np.float64) for cloud in (reference, points))
    if not (np.isfinite(before).all() and np.isfinite(after).all()):
        return {}
    figures: dict[str, float] = {}
    for name, (taught, asked) in _mapped(before, after).items():
        figures |= {f"{name}/{figure}": value for figure, value in batch_figures(asked).items()}
        figures |= {f"{name}/{figure}": value for figure, value in _read(taught, known, asked, labels).items()}
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


def _read(taught: Floats, known: Ints, asked: Floats, labels: Ints) -> dict[str, float]:
    # A second, which runs that watch nothing need not wait
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neighbors import KNeighborsClassifier

    scale = float(np.sqrt((taught**2).mean())) or 1.0
    ridge = RidgeClassifierCV(alphas=np.logspace(-1, 5, 7))
    near = KNeighborsClassifier(min(NEIGHBOURS, len(taught)), metric="cosine")
    return {
        "ridge_accuracy": float(ridge.fit(taught / scale, known).score(asked / scale, labels)),
        "neighbour_accuracy": float(near.fit(taught, known).score(asked, labels)),
    }
