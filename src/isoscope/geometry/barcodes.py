"""H0 barcodes of clouds of tensors and their entropy, with gradients: the measures of `persistence`, for a loss."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isoscope.geometry import loops
from isoscope.geometry.bar_selection import Array, Selection, kept, library
from isoscope.geometry.spanning_trees import Trees, minimum_spanning_trees, plain


class Barcodes(NamedTuple):
    """Finite bars of B clouds: `lengths` `[B, n − 1]`, float64, rising where `real`; 0 beyond a cloud's last bar."""

    lengths: Tensor
    real: Tensor


def h0_barcodes(points: Tensor, mask: Tensor | None = None) -> Barcodes:
    """Return the H0 bars of the Vietoris–Rips filtrations of `points` `[B, n, d]`, differentiable by the points.

    `mask` `[B, n]` selects the points (None: all). A bar's length is the length of an edge of the minimum spanning
    tree, `‖x_u − x_v‖`. The choice of edges is held constant, so gradients flow through lengths only; a bar of two
    coinciding points has no gradient. A cloud with NaN, infinity or overflowing distances has bars of NaN and no
    gradient. Computed in the points' own precision; half precision in float32.
    """
    trees = minimum_spanning_trees(points, mask)
    return Barcodes(of_lengths(points, trees, trees.lengths, torch.ones_like(trees.lengths)), trees.real)


def of_lengths(points: Tensor, trees: Trees, value: Tensor, slope: Tensor) -> Tensor:
    """Return a value computed from the lengths of trees over `points`, as a differentiable function of the points.

    `value` is a number, one number per cloud `[B]`, or one per length `[B, m]`; `slope` `[B, m]` is its derivative by
    each length. Both are known, so no graph is built in between.
    """
    points = plain(points)
    found: Tensor = _OfLengths.apply(points, trees.edges, trees.lengths, value, slope)
    return found


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
        return torch.from_numpy(_by_points_compiled(*(one.numpy() for one in (points, edges, lengths, slope))))
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


def _by_points_compiled(points: Array, edges: Array, lengths: Array, slope: Array) -> Array:
    """`_by_points` for arrays."""
    along = np.divide(slope, lengths, out=np.zeros(lengths.shape), where=lengths > 0)
    found = np.zeros(points.shape, points.dtype)
    for at, cloud in enumerate(points):
        loops.spread(np.ascontiguousarray(cloud), edges[at], along[at], found[at])
    return found


def entropy_and_slope(lengths: Array, kept: Array) -> tuple[Array, Array]:
    """Return persistent entropy `−Σ p ln p` of each barcode's kept bars, p = bar / sum of kept bars, and its slopes.

    Shapes: `[B]`, in [0, ln k], and `[B, m]`. Natural log; computed as `ln S − Σ ℓ ln ℓ / S`. The slope is `−(ln p + H)
    / S`: bars longer than `S / e^H` shrink, the others grow. 0, without a slope, if no bar longer than 0 is kept.
    """
    xp = library(lengths)
    used = kept & ~(lengths <= 0)  # NaN stays visible
    bars = xp.where(used, lengths, 0.0)
    logs = xp.log(xp.where(used, lengths, 1.0))
    total = bars.sum(-1)[..., None]
    some = ~(total <= 0)
    total = xp.where(some, total, 1.0)
    entropy = xp.log(total) - (bars * logs).sum(-1)[..., None] / total
    slope = xp.where(used, (xp.log(total) - logs - entropy) / total, 0.0)
    return xp.where(some, entropy, 0.0)[..., 0], slope


def normalised(entropy: Array, kept: Array) -> Array:
    """Return `H / ln k`, in [0, 1], of entropies `[B]` over k kept bars each; 1 for a single bar, 0 for none."""
    xp = library(entropy)
    one = xp.ones_like(entropy)  # torch would turn counts into float32
    most = xp.log(xp.where(kept > 1, kept, 2) * one)
    return xp.where(kept > 1, entropy / most, (kept == 1) * one)


def numbers(values: Tensor) -> Array:
    """Return the values without graph; on the CPU as numpy, which is faster for small arrays."""
    values = values.detach()
    return values.numpy() if values.device.type == "cpu" else values


def select(lengths: Array, rule: Selection, *, k: int | None = None, generator: torch.Generator | None = None) -> Array:
    """Return which bars of each barcode `[B, m]` a rule keeps (`bar_selection.kept`); `generator` is for `random-k`."""
    lengths = lengths.detach() if isinstance(lengths, Tensor) else lengths
    draws = None
    if rule == "random-k":
        drawn = torch.rand(tuple(lengths.shape), generator=generator, dtype=torch.float64)
        draws = drawn.to(lengths.device) if isinstance(lengths, Tensor) else drawn.numpy()
    return kept(lengths, rule, k=k, draws=draws)
