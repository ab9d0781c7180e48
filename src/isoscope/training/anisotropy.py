"""Compute anisotropy metrics of a point cloud, with class separation, clusters and H0 bars as possible explanations."""

import numpy as np
import numpy.typing as npt

from isoscope.geometry.isotropy import shares
from isoscope.geometry.moments import Floats, Ints, between_share, centre, spectrum, within_classes
from isoscope.geometry.persistence import h0_bars, persistent_entropy

COMPONENTS = 3
NULL = "_clustered_null"
SHUFFLES = 20
"""Draws of shuffled labels for the null of `normal_cosine`."""


def batch_figures(points: npt.ArrayLike) -> dict[str, float]:
    """Return the shares `a_1` … `a_3` of the raw cloud, `a_1_centred` … of the centred cloud, and `n` of points.

    The shares depend on `n`. A cloud with NaN or infinity gives `n` only; the loss reports the divergence.
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
    """Return the metrics of `batch_figures` and more metrics of the same cloud:

    - `a_1_within` …: shares after subtraction of the class means.
    - `between_share`: share of the variance between classes.
    - `a_1_clustered` …: shares after subtraction of the means of `clusters` k-means clusters. This lowers the share of
      a cloud without clusters, too.
    - `a_1_clustered_null` …: the same for a Gaussian cloud with the same spectrum, for comparison.
    - `normal_cosine`: |cos| between the first principal direction and the direction in which the class means differ
      most. For two classes this is the normal of the hyperplane halfway between the class means.
    - `normal_cosine_shuffled`: mean of `normal_cosine` over shuffled labels.
    - `bar_mean`, `bar_longest`: mean and longest H0 bar within a class, averaged over classes.
    - `bar_evenness`: persistent entropy / ln(number of bars), averaged over classes.
    - `radius`: root mean squared distance to the mean.
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
    """Return the unit vector along which the class means, weighted by class size, differ most."""
    cloud = centre(cloud)
    _, of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), cloud.shape[1]))
    np.add.at(sums, of, cloud)
    return _top(sums / np.sqrt(counts)[:, None])


def _top(cloud: Floats) -> Floats | None:
    """Return the unit vector of largest variance; None if the cloud has no variance."""
    return np.linalg.svd(cloud, full_matrices=False)[2][0] if cloud.any() else None


def _gaussian(cloud: Floats) -> Floats:
    """Draw a Gaussian cloud with as many points and the centred cloud's spectrum; every call gives the same draw."""
    spread = np.sqrt(spectrum(cloud) / len(cloud))
    found: Floats = np.random.default_rng(0).standard_normal((len(cloud), len(spread))) * spread
    return found


def _within_clusters(cloud: Floats, clusters: int) -> Floats:
    from sklearn.cluster import KMeans  # slow import (about 1 s), needed only if `training.watch` is on

    if len(np.unique(cloud, axis=0)) <= clusters:
        return np.zeros_like(cloud)
    return within_classes(cloud, KMeans(clusters, n_init=2, random_state=0).fit_predict(cloud))


def _positive(bars: Floats) -> Floats:
    return bars[bars > 0]


def _named(values: Floats, suffix: str) -> dict[str, float]:
    """Name the shares; drop shares that are not finite, such as those of a cloud without variance."""
    return {f"a_{k}{suffix}": float(value) for k, value in enumerate(values, start=1) if np.isfinite(value)}
