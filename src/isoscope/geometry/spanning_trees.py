"""Minimum spanning trees of clouds of points: compiled on the CPU, in batches without a word to the host elsewhere."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from scipy.cluster.hierarchy import cophenet, single
from scipy.sparse import csr_array
from scipy.sparse.csgraph import minimum_spanning_tree
from torch import Tensor
from torch.nn import functional as F

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_MANY = 192
"""Points from which it pays to look for likely edges by products first."""
_OFF = 4
"""By how many `(d + 5) ε max ‖x‖²` a squared distance from products may be off."""
_FEW, _BLOCK = 8, 64
"""Likely edges per point above which nothing is gained, and rows whose products are taken at a time."""


class Trees(NamedTuple):
    """A tree of each of B clouds of at most n points, its edges by rising length.

    `edges` `[B, n − 1, 2]`: the two points of each, int64; `lengths` `[B, n − 1]`, float64, NaN where a cloud's
    distances are no numbers (then any tree); `real` `[B, n − 1]`: False beyond a cloud's last edge, where an edge
    joins the point 0 to itself and has no length.
    """

    edges: Tensor
    lengths: Tensor
    real: Tensor


def minimum_spanning_trees(points: Tensor, mask: Tensor | None) -> Trees:
    """The trees of `points` `[B, n, d]` over those that `mask` `[B, n]` names (None: all); Euclidean.

    Distances are sums of squared differences, so they keep their digits in a narrow cone; a difference of products
    only says which pairs of a large cloud need not be measured. Those of half precision are taken in float32. Memory
    O(B n²) off the CPU, O(n²) on it, beside the points.
    """
    points = points.detach()
    points = points.float() if points.dtype.itemsize < 4 else points
    if points.device.type == "cpu":
        return compiled(points, mask)
    mask = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device) if mask is None else mask
    return batched(torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist"), mask)


def compiled(points: Tensor, mask: Tensor | None) -> Trees:
    """One cloud after the other, each by compiled code in O(n² d)."""
    clouds, n, _ = points.shape
    edges = np.zeros((clouds, max(n - 1, 0), 2), dtype=np.int64)
    lengths, real = np.zeros(edges.shape[:2]), np.zeros(edges.shape[:2], dtype=bool)
    for at, cloud in enumerate(points):
        of = None if mask is None or bool(mask[at].all()) else mask[at].nonzero()[:, 0]
        found, long = _tree(cloud if of is None else cloud[of])
        edges[at, : len(found)] = found if of is None else of.numpy()[found]
        lengths[at, : len(found)] = long
        real[at, : len(found)] = True
    return Trees(torch.from_numpy(edges), torch.from_numpy(lengths), torch.from_numpy(real))


def _tree(cloud: Tensor) -> tuple[Places, Floats | float]:
    """Edges `[n − 1, 2]` of one cloud's tree, and their lengths."""
    n = len(cloud)
    if n < 2:
        return np.zeros((0, 2), dtype=np.int64), 0.0
    likely = _likely(cloud) if n >= _MANY else None
    if likely is not None:
        first, second = torch.from_numpy(_pairs(n)[:, likely])
        apart = cloud.index_select(0, first).sub_(cloud.index_select(0, second)).norm(dim=1)
        return _spanning(n, likely, apart.numpy().astype(np.float64))
    distances = F.pdist(cloud).numpy().astype(np.float64)
    if not np.isfinite(distances.max()):  # the largest is NaN if any is
        return _pairs(n)[:, : n - 1].T, np.nan
    heights = single(distances)[:, 2]
    short = np.flatnonzero(distances <= heights[-1])
    # The edges of a tree are as long as the joins of single linkage; other pairs may be so too.
    joining = short[heights[np.searchsorted(heights, distances[short])] == distances[short]]
    return _spanning(n, joining, distances[joining])


def _spanning(n: int, pairs: Places, lengths: Floats) -> tuple[Places, Floats]:
    """The tree among such pairs as hold one, by rising length."""
    order = np.argsort(lengths, kind="stable")
    if len(pairs) >= n:
        ranks = np.arange(1.0, len(pairs) + 1)  # not lengths: one of 0 would be no edge
        forest = csr_array((ranks, tuple(_pairs(n)[:, pairs[order]])), shape=(n, n))
        order = order[np.sort(minimum_spanning_tree(forest).data).astype(np.int64) - 1]
    return _pairs(n)[:, pairs[order]].T, lengths[order]


def _likely(cloud: Tensor) -> Places | None:
    """The pairs, few, among which every minimum spanning tree of a cloud is; None where products cannot tell.

    Squared distances from products of the centred points are off by no more than `e = 4 (d + 5) ε max ‖x‖²`. An edge
    of a tree is no longer than the longest edge of any other way between its ends, so by such distances it is longer
    than their join in single linkage by 2 e at most. What is left is measured by differences.
    """
    n, d = cloud.shape
    limits = torch.finfo(cloud.dtype)
    points = cloud - cloud.mean(0)
    norms = points.square().sum(1)
    far = float(norms.max())
    if not limits.tiny / limits.eps**2 < far < limits.max / 8:  # NaN, too: what underflows or overflows has no bound
        return None
    with torch.autocast("cpu", enabled=False):  # which would take products in half precision
        rows = [
            torch.addmm(norms[begin:], points[begin:end], points[begin:].T, alpha=-2).add_(norms[begin:end, None])
            for begin, end in _rows(n)
        ]
    above = torch.cat([row.flatten() for row in rows]).numpy().take(_above(n))
    squares = np.maximum(above, 0, dtype=np.float64)
    likely = np.flatnonzero(squares <= cophenet(single(squares)) + 2 * _OFF * (d + 5) * limits.eps * far)
    return likely if len(likely) <= _FEW * n else None


def _rows(n: int) -> Iterator[tuple[int, int]]:
    """Blocks of rows: products are taken from each block's first column on, not of all pairs twice."""
    return ((begin, min(begin + _BLOCK, n)) for begin in range(0, n, _BLOCK))


@lru_cache(maxsize=8)
def _above(n: int) -> Places:
    """Where each pair of `pdist`'s order stands among those blocks, one after the other."""
    places = np.zeros((n, n), dtype=np.int64)
    count = 0
    for begin, end in _rows(n):
        block = places[begin:end, begin:]
        block[:] = count + np.arange(block.size).reshape(block.shape)
        count += block.size
    return places[tuple(_pairs(n))]


@lru_cache(maxsize=64)
def _pairs(n: int) -> npt.NDArray[np.int64]:
    """The points of each pair in the order of `pdist`, `[2, n (n − 1) / 2]`."""
    return np.stack(np.triu_indices(n, 1))


def batched(distances: Tensor, mask: Tensor) -> Trees:
    """Borůvka's algorithm over all clouds at once, from `distances` `[B, n, n]`.

    Its ⌈log₂ n⌉ rounds are tensor operations of fixed shapes: nothing waits for a result, nothing loops over points.
    Pairs are compared by their rank among a cloud's, so ties have one order and no round closes a circle.
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
    first, second = rows[order], columns[order]  # points of the pair of each rank
    count = order.shape[1]
    none = torch.full((clouds, n, n), count, device=device)
    ranks = none.clone()
    rank = torch.arange(count, device=device).where(there.gather(1, order), count)
    of = torch.arange(clouds, device=device)[:, None]
    ranks[of, first, second] = rank
    ranks[of, second, first] = rank
    component = torch.arange(n, device=device).repeat(clouds, 1)
    chosen = torch.zeros((clouds, count + 1), dtype=torch.bool, device=device)  # the last column: no edge
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
    place = torch.where(chosen, chosen.cumsum(1) - 1, n - 1)  # the last place: thrown away
    edges = torch.zeros((clouds, n, 2), dtype=torch.int64, device=device)
    edges.scatter_(1, place[..., None].expand(-1, -1, 2), torch.stack([first, second], dim=2))
    lengths = torch.zeros((clouds, n), dtype=torch.float64, device=device)
    lengths.scatter_(1, place, pairs.gather(1, order).double())
    real = torch.arange(n - 1, device=device) < chosen.sum(1, keepdim=True)
    lengths = torch.where(real, torch.where(finite[:, None], lengths[:, :-1], torch.nan), 0.0)
    return Trees(edges[:, :-1] * real[..., None], lengths, real)
