"""Anisotropy of a cloud as figures of a run, beside what might explain it: class separation, clusters, bars."""

import numpy as np
import numpy.typing as npt

from isoscope.geometry.isotropy import shares
from isoscope.geometry.moments import Floats, Ints, between_share, centre, spectrum, within_classes
from isoscope.geometry.persistence import h0_bars, persistent_entropy

COMPONENTS = 3
NULL = "_clustered_null"
SHUFFLES = 20
"""Draws of shuffled labels that the cosine of real ones is held against."""


def batch_figures(points: npt.ArrayLike) -> dict[str, float]:
    """`a_1` … `a_3` of the raw cloud, `a_1_centred` … of the centred one, and `n`, on which they depend.

    Of a cloud that is no number `n` alone: that a run diverges is its loss's to say.
    """
    cloud = np.asarray(points, dtype=np.float64)
    if not np.isfinite(cloud).all():
        return {"n": float(len(cloud))}
    return {
        **_named(shares(spectrum(cloud, centred=False), COMPONENTS), ""),
        **_named(shares(spectrum(cloud), COMPONENTS), "_centred"),
        "n": float(len(cloud)),
    }


def sample_figures(points: npt.ArrayLike, labels: Ints, *, clusters: int) -> dict[str, float]:
    """Those of a batch, and of the same cloud:

    `a_1_within` … with its classes' means taken off, `between_share` of the variance between them, `a_1_clustered` …
    with the means of `clusters` k-means clusters taken off, which lowers it without clusters, too: beside it
    `a_1_clustered_null` …, the same of a Gaussian cloud with the same spectrum; `normal_cosine`, |cos| of the first
    principal direction and the direction in which the class means differ most (of two classes, the normal of the
    hyperplane halfway between them), beside its mean over shuffled labels, `normal_cosine_shuffled`; of the H0 bars
    within classes their mean and longest, `bar_mean`, `bar_longest`, and persistent entropy over ln of their number,
    `bar_evenness`, means over classes; `radius`, the root mean squared distance to the mean.
    """
    cloud = np.asarray(points, dtype=np.float64)
    if not np.isfinite(cloud).all():
        return batch_figures(cloud)
    random, top = np.random.default_rng(0), _top(centre(cloud))
    shuffled = [_cosine(top, _normal(cloud, random.permutation(labels))) for _ in range(SHUFFLES)]
    bars = [_positive(h0_bars(cloud[labels == one])) for one in np.unique(labels)]
    bars = [one for one in bars if len(one) > 1]
    figures = {
        **batch_figures(cloud),
        **_named(shares(spectrum(within_classes(cloud, labels), centred=False), COMPONENTS), "_within"),
        **_named(shares(spectrum(_within_clusters(cloud, clusters), centred=False), COMPONENTS), "_clustered"),
        **_named(shares(spectrum(_within_clusters(_gaussian(cloud), clusters), centred=False), COMPONENTS), NULL),
        "between_share": between_share(cloud, labels),
        "normal_cosine": _cosine(top, _normal(cloud, labels)),
        "normal_cosine_shuffled": float(np.mean(shuffled)),
        "radius": float(np.sqrt((centre(cloud) ** 2).sum(1).mean())),
    }
    if bars:
        figures["bar_mean"] = float(np.mean([one.mean() for one in bars]))
        figures["bar_longest"] = float(np.mean([one.max() for one in bars]))
        figures["bar_evenness"] = float(np.mean([persistent_entropy(one) / np.log(len(one)) for one in bars]))
    return {name: value for name, value in figures.items() if np.isfinite(value)}


def _cosine(one: Floats | None, other: Floats | None) -> float:
    return float("nan") if one is None or other is None else float(abs(one @ other))


def _normal(cloud: Floats, labels: Ints) -> Floats | None:
    """The unit vector along which the class means, weighted by their points, differ most."""
    cloud = centre(cloud)
    _, of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), cloud.shape[1]))
    np.add.at(sums, of, cloud)
    return _top(sums / np.sqrt(counts)[:, None])


def _top(cloud: Floats) -> Floats | None:
    """The unit vector of largest variance; None of a cloud without any."""
    return np.linalg.svd(cloud, full_matrices=False)[2][0] if cloud.any() else None


def _gaussian(cloud: Floats) -> Floats:
    """As many points of a Gaussian with the spectrum of the centred cloud: the same draw at every call."""
    spread = np.sqrt(spectrum(cloud) / len(cloud))
    found: Floats = np.random.default_rng(0).standard_normal((len(cloud), len(spread))) * spread
    return found


def _within_clusters(cloud: Floats, clusters: int) -> Floats:
    from sklearn.cluster import KMeans  # a second, which runs that watch nothing need not wait

    if len(np.unique(cloud, axis=0)) <= clusters:
        return np.zeros_like(cloud)
    return within_classes(cloud, KMeans(clusters, n_init=2, random_state=0).fit_predict(cloud))


def _positive(bars: Floats) -> Floats:
    return bars[bars > 0]


def _named(values: Floats, suffix: str) -> dict[str, float]:
    """Shares by name; one beyond the spectrum's length, or of a cloud of one place, has no name."""
    return {f"a_{k}{suffix}": float(value) for k, value in enumerate(values, start=1) if np.isfinite(value)}
