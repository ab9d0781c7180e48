"""Compute minimum spanning trees of clouds of points, and gradients of functions of their lengths.

The lengths are the finite H0 bars of the Vietoris–Rips filtration. Batched without synchronisation on a GPU. On the
CPU, loops over points are compiled, since with whole arrays each iteration would cost an array operation. They are
compiled at the first call in a process, which takes two seconds in all, and not cached, since numba's cache uses
pickle. Their arrays are C-contiguous; nothing is checked in them.
"""

import math
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isoscope.geometry.moments import Floats, Ints

Values = npt.NDArray[np.floating[Any]]
_BLOCK = 32
"""Points whose distances to another point are computed together: they fit in a core's cache."""


class Trees(NamedTuple):
    """A tree for each of B clouds of at most n points, its edges by rising length.

    - `edges` `[B, n − 1, 2]`: the two points of each edge, int64.
    - `lengths` `[B, n − 1]`: float64, NaN if a cloud's distances are not finite (the tree is then arbitrary).
    - `real` `[B, n − 1]`: False beyond a cloud's last edge, where an edge joins point 0 to itself and has no length.
    """

    edges: Tensor
    lengths: Tensor
    real: Tensor


def minimum_spanning_trees(points: Tensor, mask: Tensor | None) -> Trees:
    """Return the trees of `points` `[B, n, d]` over the points that `mask` `[B, n]` selects (None: all); Euclidean.

    Distances are sums of squared differences, so they stay precise in a narrow cone; half precision is computed in
    float32. Memory beside the points: O(n²) on the CPU, O(B n²) on other devices.
    """
    points = plain(points.detach())
    if points.device.type == "cpu":
        return compiled(points, mask)
    mask = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device) if mask is None else mask
    return batched(torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist"), mask)


def plain(points: Tensor) -> Tensor:
    """Return points in a type that numpy supports; half precision becomes float32."""
    return (points.float() if points.dtype.itemsize < 4 else points).resolve_neg()


def compiled(points: Tensor, mask: Tensor | None) -> Trees:
    """Compute one cloud after another by compiled code, each in O(n² d)."""
    clouds, n, _ = points.shape
    edges = np.zeros((clouds, max(n - 1, 0), 2), dtype=np.int64)
    lengths, real = np.zeros(edges.shape[:2]), np.zeros(edges.shape[:2], dtype=bool)
    # Use arrays from here on: tensor operations would be half the cost of a small cloud.
    there = None if mask is None else mask.numpy()
    for at, cloud in enumerate(points.numpy()):
        of = None if there is None or there[at].all() else there[at].nonzero()[0]
        found, long = _tree(np.ascontiguousarray(cloud) if of is None else cloud[of])
        edges[at, : len(found)] = found if of is None else of[found]
        lengths[at, : len(found)] = long
        real[at, : len(found)] = True
    return Trees(torch.from_numpy(edges), torch.from_numpy(lengths), torch.from_numpy(real))


def _tree(cloud: Values) -> tuple[Ints, Floats | float]:
    """Return the edges `[n − 1, 2]` of one cloud's tree, and their lengths."""
    n = len(cloud)
    if n < 2:
        return np.zeros((0, 2), dtype=np.int64), 0.0
    pairs = distances(cloud)
    if not np.isfinite(pairs.max()):  # the maximum is NaN if any distance is
        return np.stack([np.zeros(n - 1, dtype=np.int64), np.arange(1, n)], 1), np.nan
    edges, lengths = joined(pairs, n)
    order = lengths.argsort(kind="stable")
    return edges[order], lengths[order]


def batched(distances: Tensor, mask: Tensor) -> Trees:
    """Run Borůvka's algorithm over all clouds at once, from `distances` `[B, n, n]`.

    Its ⌈log₂ n⌉ rounds are tensor operations of fixed shapes: no step waits for a result or loops over points. Pairs
    are compared by their rank in their cloud, so ties have one order and no round closes a cycle.
    """
    clouds, n, _ = distances.shape
    device = distances.device
    if n < 2:
        edges, lengths = (torch.zeros((clouds, 0, *more), dtype=torch.int64, device=device) for more in ((2,), ()))
        return Trees(edges, lengths.double(), mask[:, :0])
    rows, columns = torch.triu_indices(n, n, 1, device=device)
    there = mask[:, rows] & mask[:, columns]
    pairs = distances[:, rows, columns].masked_fill(~there, torch.inf)
    finite = (pairs.isfinite() | ~there).all(1)
    order = torch.where(finite[:, None], pairs, torch.where(there, 0.0, torch.inf)).argsort(dim=1, stable=True)
    first, second = rows[order], columns[order]  # the two points of the pair at each rank
    count = order.shape[1]
    none = torch.full((clouds, n, n), count, device=device)
    ranks = none.clone()
    rank = torch.arange(count, device=device).where(there.gather(1, order), count)
    of = torch.arange(clouds, device=device)[:, None]
    ranks[of, first, second] = rank
    ranks[of, second, first] = rank
    component = torch.arange(n, device=device).repeat(clouds, 1)
    chosen = torch.zeros((clouds, count + 1), dtype=torch.bool, device=device)  # the last column means: no edge
    own = torch.arange(n, device=device).expand(clouds, n)
    for _ in range((n - 1).bit_length()):
        outside = component[:, :, None] != component[:, None, :]
        nearest = torch.where(outside, ranks, none).amin(2)
        least = torch.full_like(component, count).scatter_reduce(1, component, nearest, "amin")
        chosen.scatter_(1, least, True)
        at = least.clamp(max=count - 1)
        ends = component.gather(1, first.gather(1, at)) + component.gather(1, second.gather(1, at))
        parent = torch.where(least < count, ends - own, own)
        mutual = (parent.gather(1, parent) == own) & (own < parent)
        parent = torch.where(mutual, own, parent)
        for _ in range((n - 1).bit_length()):
            parent = parent.gather(1, parent)
        component = parent.gather(1, component)
    chosen = chosen[:, :count]
    place = torch.where(chosen, chosen.cumsum(1) - 1, n - 1)  # the last place is discarded
    edges = torch.zeros((clouds, n, 2), dtype=torch.int64, device=device)
    edges.scatter_(1, place[..., None].expand(-1, -1, 2), torch.stack([first, second], dim=2))
    lengths = torch.zeros((clouds, n), dtype=torch.float64, device=device)
    lengths.scatter_(1, place, pairs.gather(1, order).double())
    real = torch.arange(n - 1, device=device) < chosen.sum(1, keepdim=True)
    lengths = torch.where(real, torch.where(finite[:, None], lengths[:, :-1], torch.nan), 0.0)
    return Trees(edges[:, :-1] * real[..., None], lengths, real)


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
        ctx.save_for_backward(points, edges, lengths, slope)
        return value.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, scale: Tensor) -> tuple[Tensor | None, ...]:
        points, edges, lengths, slope = ctx.saved_tensors
        scale = scale if scale.dim() == 2 else scale.reshape(-1, 1)
        return _by_points(points, edges, lengths, scale * slope), None, None, None, None


def _by_points(points: Tensor, edges: Tensor, lengths: Tensor, slope: Tensor) -> Tensor:
    """Convert a slope by lengths to a slope by points: a length's derivative is `± (x_u − x_v) / ‖x_u − x_v‖`.

    The derivative is 0 where it is not a number.
    """
    if points.device.type == "cpu":
        return torch.from_numpy(_compiled_by_points(*(one.numpy() for one in (points, edges, lengths, slope))))
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


def _compiled_by_points(points: Values, edges: Ints, lengths: Floats, slope: Floats) -> Values:
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
