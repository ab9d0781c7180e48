"""Compute anisotropy metrics of a point cloud, before and after post-hoc maps.

Class separation, clusters and H0 bars are possible explanations of anisotropy.
"""

import numpy as np
import numpy.typing as npt

from isoscope.geometry.isotropy import all_but_the_top, shares, whiten
from isoscope.geometry.moments import Floats, Ints, between_share, centre, spectrum, within_classes
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.metrics.matrix_scores import scores

COMPONENTS = 3
NULL = "_clustered_null"
SHUFFLES = 20
"""Draws of shuffled labels for the null of `normal_cosine`."""
NEIGHBOURS = 10
PER_DIRECTION = 4
"""Minimum number of points per whitened direction."""


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
    bars = [h0_bars(cloud[labels == one]) for one in np.unique(labels)]
    bars = [one[one > 0] for one in bars if (one > 0).sum() > 1]
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
    ways = [_mapped_figures(cloud[a], labels[a], cloud[~a], labels[~a]) for a in (half, ~half)]
    shared = [name for name in ways[0] if name in ways[1]]
    return {name: float(np.mean([way[name] for way in ways])) for name in shared} | {
        "chance": float(counts.max() / len(cloud))
    }


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


def _named(values: Floats, suffix: str) -> dict[str, float]:
    """Name the shares; drop shares that are not finite, such as those of a cloud without variance."""
    return {f"a_{k}{suffix}": float(value) for k, value in enumerate(values, start=1) if np.isfinite(value)}


def _mapped_figures(reference: Floats, known: Ints, points: Floats, labels: Ints) -> dict[str, float]:
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
        found["all_but_the_top"] = (all_but_the_top(reference, reference, top), all_but_the_top(points, reference, top))
    if most:
        found["whitened"] = (whiten(reference, reference, most), whiten(points, reference, most))
    return found


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
