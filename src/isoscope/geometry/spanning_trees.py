"""Minimum spanning trees of clouds of points: compiled on the CPU, in batches without a word to the host elsewhere."""

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


class Trees(NamedTuple):
    """A tree of each of B clouds of at most n points, its edges by rising length.

    `edges` `[B, n − 1, 2]`: the two points of each, int64; `real` `[B, n − 1]`: False beyond a cloud's last edge, where
    an edge joins the point 0 to itself.
    """

    edges: Tensor
    real: Tensor


def minimum_spanning_trees(points: Tensor, mask: Tensor) -> Trees:
    """The trees of `points` `[B, n, d]`, finite, over those that `mask` `[B, n]` names; Euclidean.

    Distances are sums of squared differences, never a difference of products, so they keep their digits in a narrow
    cone. Memory O(B n²) off the CPU, O(n²) on it, beside the points.
    """
    points = points.detach()
    if points.device.type == "cpu":
        return compiled(points, mask)
    return batched(torch.cdist(points, points, compute_mode="donot_use_mm_for_euclid_dist"), mask)


def compiled(points: Tensor, mask: Tensor) -> Trees:
    """One cloud after the other, each by compiled code in O(n² d)."""
    n = points.shape[1]
    edges = torch.zeros((len(points), max(n - 1, 0), 2), dtype=torch.int64)
    real = torch.zeros(edges.shape[:2], dtype=torch.bool)
    for cloud, there, into, filled in zip(points, mask, edges, real, strict=True):
        whole = bool(there.all())
        of = None if whole else there.nonzero()[:, 0]
        found = _tree(cloud if of is None else cloud[of])
        into[: len(found)] = found if of is None else of[found]
        filled[: len(found)] = True
    return Trees(edges, real)


def _tree(cloud: Tensor) -> Tensor:
    """Edges `[n − 1, 2]` of one cloud's tree.

    A pair is an edge of some minimum spanning tree where its distance is the height at which single linkage joins it.
    """
    if len(cloud) < 2:
        return torch.zeros((0, 2), dtype=torch.int64)
    distances = F.pdist(cloud).numpy().astype(np.float64)
    heights = cophenet(single(distances))
    joining = np.flatnonzero(distances <= heights)
    joining = joining[np.argsort(distances[joining], kind="stable")]
    ends = _pairs(len(cloud))[:, joining]
    if len(joining) >= len(cloud):  # ties: more pairs than a tree has edges
        ranks = np.arange(1.0, len(joining) + 1)  # not lengths: one of 0 would be no edge
        forest = csr_array((ranks, (ends[0], ends[1])), shape=(len(cloud), len(cloud)))
        ends = ends[:, np.sort(minimum_spanning_tree(forest).data).astype(np.int64) - 1]
    return torch.from_numpy(np.ascontiguousarray(ends.T))


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
        return Trees(*(torch.zeros((clouds, 0, *more), dtype=kind, device=device) for more, kind in _EMPTY))
    rows, columns = torch.triu_indices(n, n, 1, device=device)
    there = mask[:, rows] & mask[:, columns]
    order = distances[:, rows, columns].masked_fill(~there, torch.inf).argsort(dim=1, stable=True)
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
    real = torch.arange(n - 1, device=device) < chosen.sum(1, keepdim=True)
    return Trees(edges[:, :-1] * real[..., None], real)


_EMPTY = (((2,), torch.int64), ((), torch.bool))
