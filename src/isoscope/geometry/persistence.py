"""Persistent homology of a cloud: the Vietoris–Rips barcodes H0 and H1, their entropy, and distances between them."""

import warnings

import numpy as np
import numpy.typing as npt
from scipy.cluster.hierarchy import single
from scipy.spatial.distance import pdist

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats, as_cloud


def h0_bars(points: npt.ArrayLike) -> Floats:
    """Finite H0 bars of the Vietoris–Rips filtration, rising, `[n − 1]`: the edges of a minimum spanning tree.

    Euclidean; all are born at 0, so a bar's length is its death. Points that coincide give bars of length 0.
    """
    cloud = as_cloud(points)
    if len(cloud) < 2:
        return np.zeros(0)
    bars: Floats = single(pdist(cloud))[:, 2]
    return bars


def persistent_entropy(bars: npt.ArrayLike) -> float:
    """`−Σ p ln p`, p = bar / sum of bars (natural log), in [0, ln m]; bars of length 0 count for nothing.

    NaN without a bar of positive length. Source: Chintakunta et al. 2015.
    """
    lengths = np.asarray(bars, dtype=np.float64)
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return float("nan")
    share = lengths / lengths.sum()
    return float(-(share * np.log(share)).sum())


def diagrams(points: npt.ArrayLike, *, degree: int = 1) -> list[Floats]:
    """Persistence diagrams H0 … H_degree as `[bars, 2]` of (birth, death), by ripser; the infinite bar of H0 left out.

    Costs grow as n³: hand in a few hundred points. Raises `InputError` for fewer than 3 points.
    """
    from ripser import ripser  # compiled, 1 s: only who asks for H1 waits

    cloud = as_cloud(points, least=3)
    with warnings.catch_warnings():  # it thinks that more dimensions than points are a transposed cloud
        warnings.simplefilter("ignore", UserWarning)
        found = ripser(cloud, maxdim=degree)["dgms"]
    return [np.asarray(one[np.isfinite(one[:, 1])], dtype=np.float64) for one in found]


def bottleneck(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """The bottleneck distance of two diagrams `[bars, 2]`: the longest move of the best matching, in units of distance."""
    return _distance("bottleneck", one, other)


def wasserstein(one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    """The 1-Wasserstein distance of two diagrams `[bars, 2]`: all moves of the best matching together."""
    return _distance("wasserstein", one, other)


def _distance(kind: str, one: npt.ArrayLike, other: npt.ArrayLike) -> float:
    import persim

    pair = [np.asarray(diagram, dtype=np.float64).reshape(-1, 2) for diagram in (one, other)]
    if not all(np.isfinite(diagram).all() for diagram in pair):
        raise InputError("diagrams: an infinite bar has no distance; leave it out")
    pair = [diagram if len(diagram) else np.zeros((1, 2)) for diagram in pair]  # an empty one is all diagonal
    return float(getattr(persim, kind)(*pair))
