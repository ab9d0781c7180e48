"""Compute minimum spanning trees of clouds of points, and gradients of functions of their lengths.

The lengths are the finite H0 bars of the Vietoris–Rips filtration. Loops over points are compiled, since with whole
arrays each iteration would cost an array operation. They are compiled at the first call in a process, which takes two
seconds in all, and not cached, since numba's cache uses pickle. Their arrays are C-contiguous; nothing is checked in
them. A GPU computes distances and gradients of its points; trees and functions of their lengths are the CPU's. All
distances come from the GPU in a copy, for which the CPU waits; all edges and slopes go back in another.
"""

import math
from collections.abc import Callable
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
_PAD = 8


class Trees(NamedTuple):
    """A tree for each of B clouds of at most n points, its edges by rising length; on the CPU.

    - `edges` `[B, n − 1, 2]`: the two points of each edge, int64.
    - `lengths` `[B, n − 1]`: float64, NaN if a cloud's distances are not finite (the tree is then arbitrary).
    - `real` `[B, n − 1]`: False beyond a cloud's last edge, where an edge joins point 0 to itself and has no length.
    - `points` `[B]`: the number of points of each cloud, int64.
    """

    edges: Tensor
    lengths: Tensor
    real: Tensor
    points: Tensor


def minimum_spanning_trees(points: Tensor, mask: Tensor | None, *, compiled: bool | None = None) -> Trees:
    """Return the trees of B clouds `points` `[B, n, d]` over the points that `mask` `[B, n]` selects (None: all).

    Points `[1, n, d]` belong to all clouds of the mask. Distances are Euclidean: sums of squared differences, so they
    stay precise in a narrow cone; half precision is computed in float32. Time O(n² d) per cloud; memory beside the
    points O(n²). `compiled`: by the CPU's compiled code (points on the CPU only), or by torch on the points' device,
    which computes all distances first and waits once; None: by the device.
    """
    points = plain(points.detach())
    clouds, n = len(points if mask is None else mask), points.shape[1]
    edges = np.zeros((clouds, max(n - 1, 0), 2), dtype=np.int64)
    lengths, real = np.zeros(edges.shape[:2]), np.zeros(edges.shape[:2], dtype=bool)
    counts = np.full(clouds, n)
    # On the CPU use arrays from here on: tensor operations would be half the cost of a small cloud.
    own = _compiled(points, compiled)
    rows, there = (points.numpy(), None if mask is None else mask.numpy()) if own else _fetched(points, mask)
    for at in range(clouds):
        one = rows[at % len(rows)]
        of = None if there is None or there[at].all() else there[at].nonzero()[0]
        if own:
            pairs = distances(np.ascontiguousarray(one if of is None else one[of]))
        else:
            pairs = one if of is None else one[np.ix_(of, of)]
        found, long = _tree(pairs)
        edges[at, : len(found)] = found if of is None else of[found]
        lengths[at, : len(found)] = long
        real[at, : len(found)] = True
        counts[at] = len(pairs)
    return Trees(*map(torch.from_numpy, (edges, lengths, real, counts)))


def plain(points: Tensor) -> Tensor:
    """Return points in a type that numpy supports; half precision becomes float32."""
    return (points.float() if points.dtype.itemsize < 4 else points).resolve_neg()


def _compiled(points: Tensor, asked: bool | None) -> bool:
    """Return whether compiled code computes distances and gradients; a GPU has its own."""
    return points.device.type == "cpu" if asked is None else asked


def _fetched(points: Tensor, mask: Tensor | None) -> tuple[Values, NDArray[np.bool_] | None]:
    """Return all distances of clouds `[C, n, d]` as `[C, n, n]`, by their device, and the mask, in one copy."""
    clouds, n, _ = points.shape
    at = torch.arange(n, device=points.device)
    upper = ((at * (2 * n - at - 1) // 2 - at)[:, None] + at).triu(1)  # 1 + the place of a pair in `pdist`; 0: none
    pairs = torch.stack([torch.nn.functional.pad(torch.pdist(one), (1, 0)) for one in points])
    both = pairs[:, upper + upper.T].flatten(0, 1)
    if mask is not None:
        both = torch.cat([both, mask.to(both.dtype)])
    host = torch.empty(both.shape, dtype=both.dtype, pin_memory=both.is_cuda).copy_(both).numpy()
    return host[: clouds * n].reshape(clouds, n, n), None if mask is None else host[clouds * n :] > 0


def _tree(pairs: Values) -> tuple[Ints, Floats | float]:
    """Return the edges `[n − 1, 2]` of the tree of a cloud with distances as `joined` takes them, and their lengths."""
    n = len(pairs)
    if n < 2:
        return np.zeros((0, 2), dtype=np.int64), 0.0
    edges, lengths, finite = joined(pairs)
    if not finite:
        return np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)], 1), np.nan
    order = lengths.argsort(kind="stable")
    return edges[order], lengths[order]


def of_lengths(points: Tensor, trees: Trees, value: Tensor, slope: Tensor, *, compiled: bool | None = None) -> Tensor:
    """Return a value computed from the lengths of trees over `points`, as a differentiable function of the points.

    `value` is a number, one number per cloud `[B]`, or one per length `[B, m]`; `slope` `[B, m]` is its derivative by
    each length. Both are known, so no graph is built in between. The choice of edges is held constant, so
    gradients flow through lengths only; a bar of two coinciding points has no gradient, nor has a cloud with NaN.
    `compiled`: as in `minimum_spanning_trees`.
    """
    points = plain(points)
    if _compiled(points, compiled):
        return _OfLengths.apply(points, _spread_by_cloud, value, trees.edges, trees.lengths, slope)
    return _OfLengths.apply(points, _by_points, *_sent(points, trees, value, slope))


class _OfLengths(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, points: Tensor, gradient: Callable[..., Tensor], value: Tensor, *known: Tensor) -> Tensor:
        ctx.save_for_backward(points, *known)
        ctx.gradient = gradient
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        points, *known = ctx.saved_tensors
        return ctx.gradient(points, scale, *known), *[None] * (2 + len(known))


def _sent(points: Tensor, trees: Trees, value: Tensor, slope: Tensor) -> tuple[Tensor, ...]:
    """Send in a copy what `_by_points` needs; return the value, the edges that have a slope, lengths, and slopes.

    `edges` `[3, E]`: both ends among all points, and the place in the value.
    """
    some = (trees.lengths > 0) & (slope != 0)
    shape = value.shape if value.dim() == 2 else (-1, 1)
    places = torch.arange(value.numel()).view(shape).expand(some.shape)[some]
    first, second = (trees.edges[some] + (points.shape[1] * (some.nonzero()[:, :1] % len(points)))).T
    floats = torch.cat([one.double().flatten() for one in (trees.lengths[some], slope[some], value)])
    both = torch.cat([first, second, places, floats.view(torch.int64)])
    both = (both.pin_memory() if points.is_cuda else both).to(points.device, non_blocking=True)
    edges, numbers = both.split([3 * len(places), len(floats)])
    lengths, slopes, found = numbers.view(torch.float64).split([len(places), len(places), value.numel()])
    return found.view(value.shape).to(value.dtype), edges.view(3, -1), lengths, slopes


def _by_points(points: Tensor, scale: Tensor, edges: Tensor, lengths: Tensor, slopes: Tensor) -> Tensor:
    """Convert a slope by lengths to a slope by points: a length's derivative is `± (x_u − x_v) / ‖x_u − x_v‖`."""
    rows, (first, second, places) = points.flatten(0, 1), edges
    each = rows.index_select(0, first).sub_(rows.index_select(0, second))
    # Multiply in two steps: a slope over a short bar may overflow the points' precision.
    each *= lengths.to(each.dtype).reciprocal()[:, None]
    each *= scale.flatten().index_select(0, places).mul(slopes).to(each.dtype)[:, None]
    return torch.zeros_like(rows).index_add_(0, first, each).index_add_(0, second, each, alpha=-1).view_as(points)


def _spread_by_cloud(points: Tensor, scale: Tensor, edges: Tensor, lengths: Tensor, slope: Tensor) -> Tensor:
    """`_by_points` in compiled code, from all edges `[B, m]`."""
    slopes, long = ((scale if scale.dim() == 2 else scale.reshape(-1, 1)) * slope).numpy(), lengths.numpy()
    along = np.divide(slopes, long, out=np.zeros(long.shape), where=long > 0)
    rows, found = np.ascontiguousarray(points.numpy()), np.zeros(points.shape, points.numpy().dtype)
    for at, own in enumerate(edges.numpy()):
        spread(rows[at % len(rows)], own, along[at], found[at % len(rows)])
    return torch.from_numpy(found)


@numba.njit(fastmath={"reassoc", "contract"})  # the order of summation is free, which allows SIMD
def distances(points: Values) -> Values:
    """Return Euclidean distances of all pairs of `points` `[n, d]` as `[n, n + 8]`; the last columns are 0.

    Sums of squared differences, in the points' own precision. Without these columns, a column of 2,048 points would
    fall on one set of a cache.
    """
    n, d = points.shape
    found = np.zeros((n, n + _PAD), points.dtype)
    for begin in range(0, n, _BLOCK):
        for second in range(begin + 1, n):
            other = points[second]
            for first in range(begin, min(begin + _BLOCK, second)):
                one = points[first]
                total = points.dtype.type(0)
                for axis in range(d):
                    difference = one[axis] - other[axis]
                    total += difference * difference
                found[first, second] = found[second, first] = math.sqrt(total)
    return found


@numba.njit
def joined(distances: Values) -> tuple[Ints, Floats, bool]:
    """Run Prim's algorithm from point 0: return edges `[n − 1, 2]`, their lengths, and if all `distances` are finite.

    Each edge goes from a point of the tree to the point that joins it. `distances` `[n, ≥ n]`; O(n²). The points that
    are left stand next to each other, with the nearest point of the tree and how far it is.
    """
    n = len(distances)
    edges, lengths, finite = np.empty((n - 1, 2), np.int64), np.empty(n - 1), True
    nearest, by, left = np.full(n - 1, np.inf, distances.dtype), np.zeros(n - 1, np.int64), np.arange(1, n)
    at = 0
    for last in range(n - 2, -1, -1):
        row, best = distances[at], 0
        for place in range(last + 1):
            distance = row[left[place]]
            finite &= distance < np.inf
            if distance < nearest[place]:
                nearest[place], by[place] = distance, at
            if nearest[place] < nearest[best]:
                best = place
        at = left[best]
        edges[n - 2 - last, 0], edges[n - 2 - last, 1], lengths[n - 2 - last] = by[best], at, nearest[best]
        left[best], nearest[best], by[best] = left[last], nearest[last], by[last]
    return edges, lengths, finite


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
