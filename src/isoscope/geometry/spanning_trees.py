"""Compute minimum spanning trees of clouds of points, and gradients of functions of their lengths.

The lengths are the finite H0 bars of the Vietoris–Rips filtration. Loops over points are compiled, since with whole
arrays each iteration would cost an array operation. They are compiled at the first call in a process, which takes two
seconds in all, and not cached, since numba's cache uses pickle. Their arrays are C-contiguous; nothing is checked in
them. A GPU computes distances and gradients of its points; trees and functions of their lengths are the CPU's.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd.function import once_differentiable

from isoscope.geometry.moments import Floats, Ints

Values = NDArray[np.floating[Any]]
_BLOCK = 32
"""Points whose distances to another point are computed together: they fit in a core's cache."""


class Trees(NamedTuple):
    """A tree for each of B clouds of at most n points, its edges by rising length; on the CPU.

    - `edges` `[B, n − 1, 2]`: the two points of each edge, int64.
    - `lengths` `[B, n − 1]`: float64, NaN if a cloud's distances are not finite (the tree is then arbitrary).
    - `real` `[B, n − 1]`: False beyond a cloud's last edge, where an edge joins point 0 to itself and has no length.
    """

    edges: Tensor
    lengths: Tensor
    real: Tensor


def minimum_spanning_trees(points: Tensor, mask: Tensor | None) -> Trees:
    """Return the trees of `points` `[B, n, d]` over the points that `mask` `[B, n]` selects (None: all); Euclidean.

    One cloud after another, each in O(n² d). Distances are sums of squared differences, so they stay precise in a
    narrow cone; half precision is computed in float32. Memory beside the points: O(n²).
    """
    points = plain(points.detach())
    clouds, n, _ = points.shape
    edges = np.zeros((clouds, max(n - 1, 0), 2), dtype=np.int64)
    lengths, real = np.zeros(edges.shape[:2]), np.zeros(edges.shape[:2], dtype=bool)
    # On the CPU use arrays from here on: tensor operations would be half the cost of a small cloud.
    rows: Any = points.numpy() if _compiled(points) else points
    there = None if mask is None else mask.cpu().numpy()
    for at, cloud in enumerate(rows):
        of = None if there is None or there[at].all() else there[at].nonzero()[0]
        found, long = _tree(cloud if of is None else cloud[of])
        edges[at, : len(found)] = found if of is None else of[found]
        lengths[at, : len(found)] = long
        real[at, : len(found)] = True
    return Trees(torch.from_numpy(edges), torch.from_numpy(lengths), torch.from_numpy(real))


def plain(points: Tensor) -> Tensor:
    """Return points in a type that numpy supports; half precision becomes float32."""
    return (points.float() if points.dtype.itemsize < 4 else points).resolve_neg()


def _compiled(points: Tensor) -> bool:
    """Return whether compiled code computes distances and gradients; a GPU has its own."""
    return points.device.type == "cpu"


def _tree(cloud: Values | Tensor) -> tuple[Ints, Floats | float]:
    """Return the edges `[n − 1, 2]` of one cloud's tree, and their lengths; distances of a tensor by its device."""
    n = len(cloud)
    if n < 2:
        return np.zeros((0, 2), dtype=np.int64), 0.0
    if isinstance(cloud, Tensor):
        pairs = torch.pdist(cloud).cpu().double().numpy()
    else:
        pairs = distances(np.ascontiguousarray(cloud))
    if not np.isfinite(pairs.max()):  # the maximum is NaN if any distance is
        return np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)], 1), np.nan
    edges, lengths = joined(pairs, n)
    order = lengths.argsort(kind="stable")
    return edges[order], lengths[order]


def of_lengths(points: Tensor, trees: Trees, value: Tensor, slope: Tensor) -> Tensor:
    """Return a value computed from the lengths of trees over `points`, as a differentiable function of the points.

    `value` is a number, one number per cloud `[B]`, or one per length `[B, m]`; `slope` `[B, m]` is its derivative by
    each length. Both are known, so no graph is built in between. The choice of edges is held constant, so
    gradients flow through lengths only; a bar of two coinciding points has no gradient, nor has a cloud with NaN.
    """
    return _OfLengths.apply(plain(points), trees.edges, trees.lengths, value, slope)


class _OfLengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, edges: Tensor, lengths: Tensor, value: Tensor, slope: Tensor) -> Tensor:
        ctx.save_for_backward(points, *(one.to(points.device) for one in (edges, lengths, slope)))
        return value.to(points.device, copy=True)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        points, edges, lengths, slope = ctx.saved_tensors
        scale = scale if scale.dim() == 2 else scale.reshape(-1, 1)
        found = _by_points(points, edges, lengths, scale * slope)
        return found, None, None, None, None


def _by_points(points: Tensor, edges: Tensor, lengths: Tensor, slope: Tensor) -> Tensor:
    """Convert a slope by lengths to a slope by points: a length's derivative is `± (x_u − x_v) / ‖x_u − x_v‖`.

    The derivative is 0 where it is not a number.
    """
    if _compiled(points):
        return torch.from_numpy(_spread_by_cloud(*(one.numpy() for one in (points, edges, lengths, slope))))
    clouds, n, d = points.shape
    first, second = (edges + n * torch.arange(clouds, device=points.device)[:, None, None]).flatten(0, 1).unbind(1)
    rows = points.reshape(clouds * n, d)
    each = rows.index_select(0, first).sub_(rows.index_select(0, second))
    moves = lengths > 0
    # Divide in two steps: a slope over a short bar may overflow the points' precision.
    each *= torch.where(moves, lengths, 1.0).to(points.dtype).flatten()[:, None].reciprocal()
    each = torch.where(moves.flatten()[:, None], slope.to(points.dtype).flatten()[:, None] * each, 0.0)
    found = torch.zeros_like(rows).index_add_(0, first, each).index_add_(0, second, each, alpha=-1)
    return found.reshape(points.shape)


def _spread_by_cloud(points: Values, edges: Ints, lengths: Floats, slope: Floats) -> Values:
    """`_by_points` for arrays."""
    along = np.divide(slope, lengths, out=np.zeros(lengths.shape), where=lengths > 0)
    found = np.zeros(points.shape, points.dtype)
    for at, cloud in enumerate(points):
        spread(np.ascontiguousarray(cloud), edges[at], along[at], found[at])
    return found


@numba.njit(fastmath={"reassoc", "contract"})  # the order of summation is free, which allows SIMD
def distances(points: Values) -> Floats:
    """Return Euclidean distances of all pairs of `points` `[n, d]` in the order of `pdist`.

    Sums of squared differences, in the points' own precision.
    """
    n, d = points.shape
    found = np.empty(n * (n - 1) // 2)
    for begin in range(0, n, _BLOCK):
        for second in range(begin + 1, n):
            other = points[second]
            for first in range(begin, min(begin + _BLOCK, second)):
                one = points[first]
                total = points.dtype.type(0)
                for axis in range(d):
                    difference = one[axis] - other[axis]
                    total += difference * difference
                found[first * (2 * n - first - 1) // 2 + second - first - 1] = math.sqrt(total)
    return found


@numba.njit
def joined(distances: Floats, n: int) -> tuple[Ints, Floats]:
    """Run Prim's algorithm from point 0: return edges `[n − 1, 2]` and their lengths.

    Each edge goes from a point of the tree to the point that joins it. `distances` in the order of `pdist`; O(n²).
    """
    edges, lengths = np.empty((n - 1, 2), np.int64), np.empty(n - 1)
    nearest, by = np.full(n, np.inf), np.zeros(n, np.int64)
    left = np.arange(1, n)
    at = 0
    for joining in range(n - 1):
        best = 0
        for place in range(n - 1 - joining):
            point = left[place]
            low, high = min(at, point), max(at, point)
            distance = distances[low * (2 * n - low - 1) // 2 + high - low - 1]
            if distance < nearest[point]:
                nearest[point], by[point] = distance, at
            if nearest[point] < nearest[left[best]]:
                best = place
        at = left[best]
        left[best] = left[n - 2 - joining]
        edges[joining, 0], edges[joining, 1], lengths[joining] = by[at], at, nearest[at]
    return edges, lengths


@numba.njit
def spread(points: Values, edges: Ints, slopes: Floats, found: Values) -> None:
    """Add `± slope · (x_u − x_v)` of each edge (u, v) with a non-zero slope to `found` `[n, d]`: + at u, − at v.

    A slope is float64: over a short bar it may overflow a lower precision, while the product does not.
    """
    for edge in range(len(edges)):
        if slopes[edge] == 0:  # its points may be NaN
            continue
        one, other = points[edges[edge, 0]], points[edges[edge, 1]]
        to_one, to_other = found[edges[edge, 0]], found[edges[edge, 1]]
        for axis in range(points.shape[1]):
            along = slopes[edge] * (one[axis] - other[axis])
            to_one[axis] += along
            to_other[axis] -= along
