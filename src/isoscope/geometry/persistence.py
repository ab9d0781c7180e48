"""Persistent homology of a cloud: Vietoris–Rips barcodes H0 and H1, their entropy, and distances between diagrams."""

from bisect import bisect_left

import numpy as np
from numpy.typing import ArrayLike
from scipy.cluster.hierarchy import single
from scipy.optimize import linear_sum_assignment
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching
from scipy.spatial.distance import pdist, squareform

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.moments import Floats, as_cloud


def h0_bars(points: ArrayLike) -> Floats:
    """Return the finite H0 bars of the Vietoris–Rips filtration, rising, `[n − 1]`: edges of a minimum spanning tree.

    Euclidean. All bars are born at 0, so a bar's length is its death. Coinciding points give bars of length 0.
    """
    cloud = as_cloud(points)
    return single(pdist(cloud))[:, 2] if len(cloud) > 1 else np.zeros(0)


def persistent_entropy(bars: ArrayLike) -> float:
    """Persistent entropy `−Σ p ln p`, p = bar / sum of bars (natural log), in [0, ln m]; bars of length 0 are ignored.

    NaN without a bar of positive length. Raises `InputError` unless lengths are `[m]` finite, non-negative numbers.
    Source: Chintakunta et al. 2015.
    """
    lengths = np.asarray(on_host(bars), dtype=np.float64)
    if lengths.ndim != 1 or not np.isfinite(lengths).all() or (lengths < 0).any():
        raise InputError(
            f"bars: expected finite lengths [m], none below 0, got an array of shape {list(lengths.shape)}"
        )
    lengths = lengths[lengths > 0]
    if not len(lengths):
        return float("nan")
    share = lengths / lengths.sum()
    return float(-(share * np.log(share)).sum())


def diagrams(points: ArrayLike, *, degree: int = 1) -> list[Floats]:
    """Return persistence diagrams H0 … H_degree as `[bars, 2]` of (birth, death), by ripser, without H0's infinite bar.

    In single precision, and without bars of length 0. Costs grow as n³: pass a few hundred points. Raises `InputError`
    for fewer than 3 points.
    """
    from ripser import ripser  # compiled, imports in 1 s: only H1 needs it

    # Distances by differences: ripser's own lose precision in a narrow cone.
    found = ripser(squareform(pdist(as_cloud(points, least=3))), distance_matrix=True, maxdim=degree)["dgms"]
    return [np.asarray(one[np.isfinite(one[:, 1])], dtype=np.float64) for one in found]


def bottleneck(one: ArrayLike, other: ArrayLike) -> float:
    """Return the bottleneck distance of two diagrams `[bars, 2]`: the longest move of the best matching.

    A move's length is the larger change of birth and death. An unmatched bar moves to the diagonal, half its length.
    """
    moves = _moves(one, other)
    lengths = np.unique(moves)

    def suffices(length: float) -> bool:
        return bool((maximum_bipartite_matching(csr_array(moves <= length)) >= 0).all())

    return float(lengths[bisect_left(lengths, True, key=suffices)]) if len(lengths) else 0.0


def wasserstein(one: ArrayLike, other: ArrayLike) -> float:
    """Return the 1-Wasserstein distance of two diagrams `[bars, 2]`: the sum of all moves of the best matching."""
    moves = _moves(one, other)
    return float(moves[linear_sum_assignment(moves)].sum())


def _moves(one: ArrayLike, other: ArrayLike) -> Floats:
    """Return the length of the move from each bar or diagonal place to each, `[m + n, n + m]`."""
    given = (np.asarray(on_host(diagram), dtype=np.float64) for diagram in (one, other))
    a, b = (diagram if diagram.size else np.zeros((0, 2)) for diagram in given)
    for diagram in (a, b):
        if diagram.ndim != 2 or diagram.shape[1] != 2 or not np.isfinite(diagram).all():
            raise InputError(
                f"diagrams: expected [bars, 2] of finite numbers (leave infinite bars out), got {list(diagram.shape)}"
            )
    moves = np.zeros((len(a) + len(b), len(b) + len(a)))
    moves[: len(a), : len(b)] = np.abs(a[:, None] - b).max(-1, initial=0)
    moves[: len(a), len(b) :] = np.diff(a) / 2
    moves[len(a) :, : len(b)] = np.diff(b)[:, 0] / 2
    return moves
