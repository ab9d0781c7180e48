"""Measure how a cloud falls into classes and clusters."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.linalg import eigh
from sklearn.cluster import KMeans
from sklearn.linear_model import RidgeClassifierCV
from sklearn.metrics import adjusted_mutual_info_score, mutual_info_score, pairwise_distances, silhouette_score
from sklearn.metrics.cluster import expected_mutual_information
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from isoscope.base.errors import InputError
from isoscope.geometry.dimension import Estimate
from isoscope.geometry.moments import Floats, Ints, as_cloud, centre, indices, rows_of_each, within_classes

LEADING = 20
"""Number of principal components that shape measures use: enough for two, few enough to draw a null from."""


SQUARE = 4000
"""Up to this number of points, all distances are kept while the number of clusters is chosen."""
PARTS = 20
"""Number of parts of a jackknife: each part holds a few points, and the t interval needs no more parts."""


class Clusters(NamedTuple):
    """k-means at the k of largest mean silhouette: k, silhouette, each point's cluster."""

    k: int
    silhouette: float
    of: Ints


class Arch(NamedTuple):
    """Out-of-sample R² of PC2 on PC1 and PC1², its p (share of null draws at least as large), and the null's mean."""

    r2: float
    p: float
    null: float


def _classes(points: ArrayLike, labels: ArrayLike) -> tuple[Floats, Ints]:
    cloud = as_cloud(points, least=3)
    of = indices(labels, len(cloud))
    if not 2 <= (count := int(of.max()) + 1) < len(cloud):
        raise InputError(f"labels: {count} classes among {len(cloud)} points; expected 2 to {len(cloud) - 1}")
    return centre(cloud), of


def principal_scores(points: ArrayLike, k: int = LEADING) -> Floats:
    """Return the centred cloud in the coordinates of its k leading principal components, `[n, min(k, n, d)]`."""
    cloud = centre(as_cloud(points))
    wide, (n, d) = len(cloud) < cloud.shape[1], cloud.shape
    leading = (max(min(n, d) - k, 0), min(n, d) - 1)
    energy, vectors = eigh(cloud @ cloud.T if wide else cloud.T @ cloud, subset_by_index=leading)
    along = vectors * np.sqrt(np.maximum(energy, 0.0)) if wide else cloud @ vectors
    return np.asarray(along[:, ::-1])


def silhouette(points: ArrayLike, labels: ArrayLike) -> float:
    """Mean silhouette of the classes (Euclidean), in [−1, 1]; Rousseeuw 1987."""
    cloud, of = _classes(points, labels)
    return float(silhouette_score(cloud, of))


def fisher_ratio(points: ArrayLike, labels: ArrayLike) -> float:
    """Fisher ratio tr S_B / tr S_W: variance between class means over variance within classes; NaN if none within."""
    cloud, of = _classes(points, labels)
    within, total = float((within_classes(cloud, of) ** 2).sum()), float((cloud**2).sum())
    return (total - within) / within if within > 1e-12 * total else float("nan")


def centroid_distance(points: ArrayLike, labels: ArrayLike) -> float:
    """Mean Euclidean distance between class means, over the root mean squared distance of points to their class mean.

    NaN if there is no variance within classes.
    """
    cloud, of = _classes(points, labels)
    means = np.stack([cloud[rows].mean(0) for rows in rows_of_each(of)])
    pairs = np.linalg.norm(means[:, None] - means[None], axis=-1)[np.triu_indices(len(means), 1)]
    spread = float(np.sqrt((within_classes(cloud, of) ** 2).sum(1).mean()))
    return float(pairs.mean()) / spread if spread > 0 else float("nan")


def linear_separability(
    points: ArrayLike, labels: ArrayLike, *, groups: ArrayLike | None = None, seed: int = 0
) -> float:
    """Held-out accuracy of a ridge classifier, mean over two halves stratified by class, in [0, 1].

    With `groups` of several points, the halves are of whole groups instead; NaN if they cannot have two classes each.
    Generalised cross-validation inside the training half chooses the penalty. Chance is the largest class's share; with
    `groups` it can lie below, as a class that is large in one half is small in the other.
    """
    cloud, of = _classes(points, labels)
    half = np.zeros(len(cloud), bool)
    random = np.random.default_rng(seed)
    group = indices(groups, len(cloud), "groups")
    if (count := int(group.max()) + 1) < len(cloud):
        for _ in range(PARTS):  # until both halves have two classes: few groups may hold a class each
            half = random.permutation(count)[group] < count // 2
            if all(len(np.unique(of[train])) > 1 for train in (half, ~half)):
                break
    else:
        for rows in rows_of_each(of):
            half[random.permutation(rows)[: len(rows) // 2]] = True
    if any(len(np.unique(of[train])) < 2 for train in (half, ~half)):
        if count < len(cloud):
            return float("nan")
        raise InputError("labels: a class with only one point cannot be split into halves")
    model = make_pipeline(StandardScaler(), RidgeClassifierCV(alphas=np.logspace(-1, 5, 7)))
    scores = [model.fit(cloud[train], of[train]).score(cloud[~train], of[~train]) for train in (half, ~half)]
    return float(np.mean(scores))


def clusters(points: ArrayLike, *, most: int = 6, seed: int = 0, scores: Floats | None = None) -> Clusters:
    """Run k-means for k = 2 … `most` in the leading components.

    A cluster is no finding until its agreement with the label (`ami_interval`) beats that with nuisances: first tokens,
    lengths and positions. `scores` are the cloud's `principal_scores`, if already computed.
    """
    cloud = as_cloud(points, least=most + 1)
    scores = principal_scores(cloud) if scores is None else scores
    scores = scores[:, scores.std(0) > 1e-9 * scores.std()]
    places = len(np.unique(cloud, axis=0))
    if places < 2:
        raise InputError("points: all are equal")
    few = len(scores) <= SQUARE
    known_distances = {"X": pairwise_distances(scores), "metric": "precomputed"} if few else {"X": scores}
    found = []
    for k in range(2, min(most, places) + 1):
        of = KMeans(k, n_init=2, random_state=seed).fit_predict(scores)
        found.append(Clusters(k, float(silhouette_score(labels=of, **known_distances)), of))
    return max(found, key=lambda one: one.silhouette)


def ami_interval(
    of: ArrayLike, attribute: ArrayLike, groups: ArrayLike | None = None, *, confidence: float, seed: int = 0
) -> Estimate:
    """Return the AMI of clusters `of` with `attribute`, and its jackknife interval over `PARTS` random parts.

    AMI, adjusted mutual information (Vinh et al. 2010), is 0 for chance and 1 for the same partition.
    Pseudo-values PARTS·AMI − (PARTS − 1)·AMI(all but a part), t distribution (Tukey 1958). The clusters stay fixed: the
    interval is for their agreement, not for k-means. A bootstrap fails here: a point drawn twice agrees with itself
    (with 60 values its 95 % interval held the truth in 0 to 15 % of samples). Parts hold whole `groups`
    of points. NaN below 2·PARTS points or groups.
    """
    cluster, value = indices(of, len(np.asarray(of))), indices(attribute, len(np.asarray(of)), "attribute")
    whole = float(adjusted_mutual_info_score(value, cluster))
    group = indices(groups, len(cluster), "groups")
    if (count := int(group.max()) + 1) < 2 * PARTS:
        return Estimate(whole, float("nan"), float("nan"))
    part = (np.random.default_rng(seed).permutation(count) % PARTS)[group]
    counts = np.zeros((PARTS, value.max() + 1, cluster.max() + 1), int)
    np.add.at(counts, (part, value, cluster), 1)
    pseudo = PARTS * whole - (PARTS - 1) * np.array([_ami(counts.sum(0) - one) for one in counts])
    half = float(stats.t.ppf((1 + confidence) / 2, PARTS - 1) * pseudo.std(ddof=1) / np.sqrt(PARTS))
    return Estimate(whole, whole - half, whole + half)


def _ami(counts: Ints) -> float:
    """`adjusted_mutual_info_score` of a contingency table, without its label checks, which take most of its time."""
    table = counts[counts.any(1)][:, counts.any(0)]
    if 1 in table.shape:
        return float(table.shape == (1, 1))
    chance = expected_mutual_information(table, int(table.sum()))
    entropy = (stats.entropy(table.sum(0)) + stats.entropy(table.sum(1))) / 2
    parts = np.array([mutual_info_score(None, None, contingency=table), entropy]) - chance
    above, most = np.copysign(np.maximum(abs(parts), np.finfo(float).eps), parts)  # as in scikit-learn: keeps the signs
    return float(above / most)


def arch_score(
    points: ArrayLike,
    *,
    along: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    draws: int = 39,
    seed: int = 0,
    scores: Floats | None = None,
) -> Arch:
    """Test whether PC2 is a parabola of PC1, as in a semicircle: R² on held-out fifths of the points,
    or of the `groups` of points.

    The null keeps three things: the spectrum, how far out each point lies along each component, and the curve of the
    cloud `along` a nuisance `[n]` (a sentence's length). It splits the components' scores into the nuisance's parabola
    and a rest, and flips the signs of the rest's own component scores at random. p = (1 + #{null ≥ r2})/(1 + draws).

    A Gaussian null of the same spectrum is not enough: long tails pass it (12 % of clouds of t with 3 degrees), and so
    does any cloud that bends with length. With skewed components p is too small: below .05 in 15 % of clouds of
    independent exponential components (normal: 6 %, t with 3 degrees: 4 %). R² can be negative: worse than the mean.
    NaN for a cloud along one line.
    `scores` as for `clusters`. Raises `InputError` for fewer than 25 points.
    """
    cloud = as_cloud(points, least=25)
    scores = principal_scores(cloud) if scores is None else scores
    random = np.random.default_rng(seed)
    group = indices(groups, len(scores), "groups")
    fold = (random.permutation(int(group.max()) + 1) % 5)[group]
    found = _held_out_r2(scores[:, :2], fold)
    if np.isnan(found):
        return Arch(found, found, found)
    curve = _parabola(scores, along)
    left, values, right = np.linalg.svd(scores - curve, full_matrices=False)
    null = []
    for _ in range(draws):
        cloud = curve + (left * values * random.choice([-1.0, 1.0], left.shape)) @ right
        cloud -= cloud.mean(0)
        null.append(_held_out_r2(cloud @ np.linalg.eigh(cloud.T @ cloud)[1][:, :-3:-1], fold))
    return Arch(found, (1 + sum(value >= found for value in null)) / (1 + draws), float(np.mean(null)))


def _parabola(scores: Floats, along: ArrayLike | None) -> Floats:
    """Return each column's part that is a parabola of `along`, by least squares; 0 if `along` is None or constant."""
    if along is None:
        return np.zeros_like(scores)
    at = np.asarray(along, dtype=np.float64)
    if at.shape != (len(scores),):
        raise InputError(f"along: {at.size} for {len(scores)} points")
    at = (at - at.mean()) / (at.std() or 1.0)
    design = np.stack([np.ones_like(at), at, at**2], 1)
    found: Floats = design @ (np.linalg.pinv(design) @ scores)
    return found - found.mean(0)


def _held_out_r2(plane: Floats, fold: NDArray[np.int64]) -> float:
    if plane.shape[1] < 2 or plane[:, 1].std() <= 1e-9 * plane[:, 0].std():
        return float("nan")
    x, y = plane[:, 0] / plane[:, 0].std(), plane[:, 1]
    design = np.stack([np.ones_like(x), x, x**2], 1)
    inside = np.zeros((5, len(x)))
    inside[fold, np.arange(len(x))] = 1.0  # sums over a fold; the sums over the other four are the total minus these
    moments = np.einsum("kn,ni,nj->kij", inside, design, design, optimize=True)
    products = inside @ (design * y[:, None])
    left = np.linalg.pinv(moments.sum(0) - moments, 1e-12, hermitian=True)  # PC1 may have only two values
    weights = np.einsum("kij,kj->ki", left, products.sum(0) - products)
    means = (products.sum(0)[0] - products[:, 0]) / (moments.sum(0)[0, 0] - moments[:, 0, 0])
    error = ((y - (design * weights[fold]).sum(1)) ** 2).sum()
    return 1.0 - float(error / ((y - means[fold]) ** 2).sum())
