"""Measure how evenly a cloud fills its space.

Each metric depends on n and d: report them, and the floor, beside it.
"""

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric
from isoscope.geometry.moments import Floats, as_cloud, as_spectrum, covariance_traces, spectrum

MEANS = ("", "_centred", "_within")
"""Suffix of a share's name: of the cloud as it is, without its mean, without the means of its classes."""
METRICS = (
    *(
        Metric(
            f"a_{k}{means}",
            f"Share of the {('first', 'second', 'third')[k - 1]} direction (a{'₁₂₃'[k - 1]}"
            + {"": ")", "_centred": ", mean removed)", "_within": ", class means removed)"}[means],
            low=0.0,
            high=1.0,
        )
        for k in (1, 2, 3)
        for means in MEANS
    ),
    Metric("between_share", "Share of variance between classes", low=0.0, high=1.0),
)


def shares(spectrum: ArrayLike, k: int = 3) -> Floats:
    """Anisotropy scores a_1 … a_k: the shares σ_i² / Σ σ_j² of a spectrum's largest values, `[k]`.

    NaN beyond the spectrum's length. For a raw spectrum this is the score of Razzhigaev et al. 2024 (arXiv:2311.05928),
    for a centred spectrum the explained variance. Raises `InputError` for a cloud.
    """
    values, found = as_spectrum(spectrum), np.full(k, np.nan)
    total = values.sum()
    if total > 0:
        found[: len(values)] = values[:k] / total
    return found


def isotropic_floor(n: int, d: int) -> float:
    """a_1 of n points of isotropic Gaussian noise in d dimensions: Marchenko and Pastur's edge `(1 + √(n/d))² / n`."""
    return float((1.0 + np.sqrt(n / d)) ** 2 / n)


def participation_ratio(spectrum: ArrayLike) -> float:
    """Participation ratio `(Σ λ)² / Σ λ²` of a spectrum of squared singular values: the effective number of directions.

    The plug-in estimate. 1 for a line; d for equal variances and n → ∞. NaN for a single point. Biased downwards for
    few points. Raises `InputError` for a cloud.
    """
    values = as_spectrum(spectrum)
    square = float((values**2).sum())
    return float(values.sum()) ** 2 / square if square > 0 else float("nan")


def unbiased_participation_ratio(points: ArrayLike) -> float:
    """Return `(tr Σ)² / tr Σ²` from unbiased estimates of both traces: d for isotropic noise at any n.

    The ratio itself is slightly too large if a few directions hold much of the variance: by a tenth at 40 points with
    one of 32 variances 16 times the others, where the plug-in is a seventh too small. Copies of points are not
    independent: a tenth of near-copies among 200 points gives .80 d instead of d (256 dimensions). `dimension.places`
    says how many there are. NaN if the estimate of tr Σ² is not positive. Raises `InputError` for fewer than 4 points.
    """
    first, second = covariance_traces(points)
    return first**2 / second if second > 0 else float("nan")


def isoscore(participation_ratio: float, d: int) -> float:
    """IsoScore of Rudman et al. 2022, which equals `(PR − 1) / (d − 1)`: 0 for a line, 1 for equal variances.

    For k equal variances of d it is `(k − 1) / (d − 1)`. The plug-in ratio gives the published score. NaN for d = 1.
    Raises `InputError` for anything but a number.
    """
    if np.ndim(participation_ratio):
        raise InputError("participation_ratio: expected a number; of a cloud: participation_ratio(spectrum(points))")
    return (participation_ratio - 1.0) / (d - 1) if d > 1 else float("nan")


def effective_rank(spectrum: ArrayLike) -> float:
    """Effective rank `exp H(p)`, p_i = σ_i / Σ σ_j (singular values, natural log); Roy and Vetterli 2007.

    NaN for a single point. Raises `InputError` for a cloud.
    """
    values = np.sqrt(as_spectrum(spectrum))
    total = values.sum()
    if total == 0:
        return float("nan")
    share = values[values > 0] / total
    return float(np.exp(-(share * np.log(share)).sum()))


def partition_isotropy(points: ArrayLike) -> float:
    """Natural log of `min_c Z(c) / max_c Z(c)`, Z(c) = Σ_x exp(cᵀx), c over ± the d eigenvectors of XᵀX; 0: isotropic.

    Mu and Viswanath 2018, with both signs of each eigenvector, since a library chooses the sign arbitrarily, and in
    logs, since Z overflows. Depends on the scale of the points. Invariant to rotation.
    """
    cloud = as_cloud(points)
    wide = len(cloud) < cloud.shape[1]
    energy, vectors = np.linalg.eigh(cloud @ cloud.T if wide else cloud.T @ cloud)
    along = vectors * np.sqrt(np.maximum(energy, 0.0)) if wide else cloud @ vectors
    partition = np.concatenate([logsumexp(along, axis=0), logsumexp(-along, axis=0)])
    least = min(partition.min(), np.log(len(cloud))) if wide else partition.min()
    return float(least - partition.max())  # with fewer points than dimensions, some directions have cᵀx = 0, so Z = n


def anisotropy(points: ArrayLike, k: int = 3) -> Floats:
    """a_1 … a_k of the raw cloud, see `shares`."""
    return shares(spectrum(points, centred=False), k)
