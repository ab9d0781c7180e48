"""Compute anisotropy metrics of a point cloud, before and after post-hoc maps.

Class separation, clusters and H0 bars are possible explanations of anisotropy.
"""

import numpy as np
import numpy.typing as npt

from isoscope.base.metric import Metric
from isoscope.geometry import isotropy
from isoscope.geometry.isotropy import shares
from isoscope.geometry.moments import Floats, Ints, between_share, centre, spectrum, within_classes
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.geometry.transforms import all_but_the_top, none, whitened
from isoscope.metrics.matrix_scores import METRICS as SCORED
from isoscope.metrics.matrix_scores import scores

OWN = (
    *(
        Metric(
            f"a_{k}_clustered{noise}",
            f"Share of the {('first', 'second', 'third')[k - 1]} direction (a{'₁₂₃'[k - 1]}), "
            + ("Gaussian noise with the same spectrum" if noise else "k-means clusters' means removed"),
            low=0.0,
            high=1.0,
        )
        for k in (1, 2, 3)
        for noise in ("", "_null")
    ),
    Metric("normal_cosine", "|cos| of first direction and class means' difference", low=0.0, high=1.0),
    Metric("normal_cosine_shuffled", "The same, labels shuffled", low=0.0, high=1.0),
    Metric("bar_mean", "Mean H0 bar"),
    Metric("bar_longest", "Longest H0 bar"),
    Metric("bar_evenness", "H / ln N of all H0 bars", low=0.0, high=1.0),
    Metric("radius", "Root mean squared distance to the mean"),
    Metric("n", "Number of points"),
)
PROBES = tuple(
    Metric(
        f"{probe}_{one.name}",
        f"{one.title} of {'ridge regression' if probe == 'ridge' else 'nearest neighbours'}",
        low=one.low,
        high=one.high,
    )
    for probe in ("ridge", "neighbour")
    for one in SCORED
    if one.name != "loss"
)
MAPPED = tuple(
    Metric(
        f"{name}/{one.name}",
        f"{one.title}, "
        + {"untouched": "as they are", "all_but_the_top": "without the largest directions"}.get(name, name),
        low=one.low,
        high=one.high,
    )
    for name in ("untouched", "all_but_the_top", "whitened")
    for one in (*isotropy.METRICS, *PROBES)
)
METRICS = (*isotropy.METRICS, *OWN, *MAPPED)


def batch_metrics(points: npt.ArrayLike) -> dict[str, float]:
    """Return the shares `a_1` … `a_3` of the raw cloud, `a_1_centred` … of the centred cloud, and `n` of points.

    The shares depend on `n`. A cloud with NaN or infinity gives `n` only; the loss reports the divergence.
    """
    cloud = np.asarray(points, dtype=np.float64)
    size = {"n": float(len(cloud))}
    return _shares(cloud) | _shares(centre(cloud), "_centred") | size if np.isfinite(cloud).all() else size


def sample_metrics(points: npt.ArrayLike, labels: Ints, *, clusters: int) -> dict[str, float]:
    """Return the metrics of `batch_metrics` and more metrics of the same cloud, the first three if it has classes:

    - `a_1_within` …: shares after subtraction of the class means.
    - `between_share`: share of the variance between classes.
    - `normal_cosine`: |cos| between the first principal direction and the direction in which the class means differ
      most. For two classes this is the normal of the hyperplane halfway between the class means.
      `normal_cosine_shuffled`: its mean over 20 draws of shuffled labels.
    - `a_1_clustered` …: shares after subtraction of the means of `clusters` k-means clusters. This lowers the share of
      a cloud without clusters, too.
    - `a_1_clustered_null` …: the same for a Gaussian cloud with the same spectrum, for comparison.
    - `bar_mean`, `bar_longest`: mean and longest H0 bar within a class, averaged over classes.
    - `bar_evenness`: persistent entropy / ln(number of bars), averaged over classes.
    - `radius`: root mean squared distance to the mean.
    """
    cloud = np.asarray(points, dtype=np.float64)
    if not np.isfinite(cloud).all():
        return batch_metrics(cloud)
    random, centred = np.random.default_rng(0), centre(cloud)
    bars = [h0_bars(cloud[labels == one]) for one in np.unique(labels)]
    bars = [one[one > 0] for one in bars if (one > 0).sum() > 1]
    metrics = {
        **batch_metrics(cloud),
        **_shares(_within_clusters(cloud, clusters), "_clustered"),
        **_shares(_within_clusters(_gaussian(cloud), clusters), "_clustered_null"),
        "radius": float(np.sqrt((centred**2).sum(1).mean())),
    }
    if (labels != labels[0]).any():
        top = _top(centred)
        shuffled = [abs(top @ _normal(centred, random.permutation(labels))) for _ in range(20)]
        metrics |= {
            **_shares(within_classes(cloud, labels), "_within"),
            "between_share": between_share(cloud, labels),
            "normal_cosine": float(abs(top @ _normal(centred, labels))),
            "normal_cosine_shuffled": float(np.mean(shuffled)),
        }
    if bars:
        metrics |= {
            "bar_mean": float(np.mean([one.mean() for one in bars])),
            "bar_longest": float(np.mean([one.max() for one in bars])),
            "bar_evenness": float(np.mean([persistent_entropy(one) / np.log(len(one)) for one in bars])),
        }
    return {name: value for name, value in metrics.items() if np.isfinite(value)}


def posthoc_metrics(points: npt.ArrayLike, labels: Ints) -> dict[str, float]:
    """Return metrics `map/…` of a cloud `[n, d]`: untouched, and mapped by maps fitted on its other half.

    Maps: `all_but_the_top` removes d/100 directions. `whitened` keeps the directions with variance, at most one per 4
    points.

    Metrics: the shares `a_1` … of the mapped half, and accuracy, F1 and Matthews correlation of two probes. The probes
    are fitted on the first half and evaluated on the second: `ridge_…`, a linear probe, which such maps hardly change,
    and `neighbour_…`, the vote of the 10 points of largest cosine, which isotropy should help. Each metric is the mean
    over both directions. `n` is the number of points of a half, `directions` the number of dimensions after the map,
    `chance` the share of the largest class. Halves are stratified by class.

    A cloud with NaN or infinity, with a class of one point, or with a half of one point, gives no metrics.
    """
    cloud = np.asarray(points, dtype=np.float64)
    counts = np.bincount(labels)
    if not np.isfinite(cloud).all() or (counts == 1).any():
        return {}
    half, random = np.zeros(len(cloud), bool), np.random.default_rng(0)
    for one in np.flatnonzero(counts):
        rows = random.permutation(np.flatnonzero(labels == one))
        half[rows[: len(rows) // 2]] = True
    if min(half.sum(), len(half) - half.sum()) < 2:
        return {}
    ways = [_mapped_metrics(cloud[a], labels[a], cloud[~a], labels[~a]) for a in (half, ~half)]
    means = {name: float(np.mean([way[name] for way in ways])) for name in ways[0] if name in ways[1]}
    return means | {"chance": float(counts.max() / len(cloud))}


def _normal(centred: Floats, labels: Ints) -> Floats:
    """Return the unit vector along which the class means, weighted by class size, differ most."""
    _, of, counts = np.unique(labels, return_inverse=True, return_counts=True)
    sums = np.zeros((len(counts), centred.shape[1]))
    np.add.at(sums, of, centred)
    return _top(sums / np.sqrt(counts)[:, None])


def _top(cloud: Floats) -> Floats:
    """Return the unit vector of largest variance; NaN if the cloud has no variance."""
    return np.linalg.svd(cloud, full_matrices=False)[2][0] if cloud.any() else np.full(cloud.shape[1], np.nan)


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


def _shares(cloud: Floats, suffix: str = "") -> dict[str, float]:
    """Name the shares; drop shares that are not finite, such as those of a cloud without variance."""
    found = shares(spectrum(cloud, centred=False))
    return {f"a_{k}{suffix}": float(value) for k, value in enumerate(found, start=1) if np.isfinite(value)}


def _mapped_metrics(reference: Floats, known: Ints, points: Floats, labels: Ints) -> dict[str, float]:
    values = np.linalg.svd(reference - reference.mean(0), compute_uv=False)
    varying = int((values**2 > 1e-12 * values[0] ** 2).sum())
    top, most = max(1, reference.shape[1] // 100), min(varying, len(reference) // 4)
    maps = {"untouched": none(reference)}
    if top < varying:
        maps["all_but_the_top"] = all_but_the_top(reference, top)
    if most:
        maps["whitened"] = whitened(reference, most, ridge=0.0)
    metrics: dict[str, float] = {}
    for name, mapped in maps.items():
        train, test = mapped(reference), mapped(points)
        found = batch_metrics(test) | {"directions": float(test.shape[1])} | _probed(train, known, test, labels)
        metrics |= {f"{name}/{metric}": value for metric, value in found.items()}
    return metrics


def _probed(train: Floats, known: Ints, test: Floats, labels: Ints) -> dict[str, float]:
    # Slow import (about 1 s); a run that stops before its end does not need it.
    from sklearn.linear_model import RidgeClassifierCV
    from sklearn.neighbors import KNeighborsClassifier

    scale = float(np.sqrt((train**2).mean())) or 1.0
    classes = int(max(known.max(), labels.max())) + 1
    probes = {
        "ridge": RidgeClassifierCV(alphas=np.logspace(-1, 5, 7)),
        "neighbour": KNeighborsClassifier(min(10, len(train)), metric="cosine"),
    }
    return {
        f"{name}_{metric}": value
        for name, probe in probes.items()
        for metric, value in scores(labels, probe.fit(train / scale, known).predict(test / scale), classes).items()
    }
