"""Barcodes H0 of clouds of tensors, and their entropy, with gradients: what `persistence` measures, for a loss."""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from isoscope.geometry.bar_selection import Selection, kept
from isoscope.geometry.spanning_trees import minimum_spanning_trees


class Barcodes(NamedTuple):
    """Finite bars of B clouds: `lengths` `[B, n − 1]`, float64, rising where `real`; 0 beyond a cloud's last bar."""

    lengths: Tensor
    real: Tensor


def h0_barcodes(points: Tensor, mask: Tensor | None = None) -> Barcodes:
    """H0 bars of the Vietoris–Rips filtrations of `points` `[B, n, d]`, as functions of the points that `mask`
    `[B, n]` names (None: all).

    A bar's length is that of an edge of the minimum spanning tree, `‖x_u − x_v‖`. Which points an edge joins is taken
    as given, so gradients flow through lengths alone; a bar of two points that coincide has none. A cloud with NaN,
    infinity or distances that overflow has bars of NaN, and no gradient. In the points' own precision, of half
    precision in float32.
    """
    points = points.float() if points.dtype.itemsize < 4 else points
    edges, lengths, real = minimum_spanning_trees(points, mask)
    return Barcodes(_Lengths.apply(points, edges, lengths), real)


class _Lengths(torch.autograd.Function):
    """The known lengths of pairs of points, with their slope `± (x_u − x_v) / ‖x_u − x_v‖`, 0 where it is no number."""

    @staticmethod
    def forward(ctx: Any, points: Tensor, edges: Tensor, lengths: Tensor) -> Tensor:
        ctx.save_for_backward(points, edges, lengths)
        return lengths.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor | None, ...]:
        points, edges, lengths = ctx.saved_tensors
        clouds, n, d = points.shape
        first, second = (edges + n * torch.arange(clouds, device=points.device)[:, None, None]).flatten(0, 1).unbind(1)
        rows = points.reshape(clouds * n, d)
        apart = rows.index_select(0, first) - rows.index_select(0, second)
        moves = (lengths > 0).flatten()
        along = (slope / torch.where(lengths > 0, lengths, 1.0)).flatten().to(points.dtype)
        each = torch.where(moves[:, None], along[:, None] * apart, 0.0)
        found = torch.zeros_like(rows).index_add_(0, first, each).index_add_(0, second, each, alpha=-1)
        return found.reshape(points.shape), None, None


def entropies(lengths: Tensor, kept: Tensor) -> Tensor:
    """Persistent entropy `−Σ p ln p` of the kept bars of each barcode, p = bar / sum of kept bars, `[B]`, in [0, ln k].

    Natural log; from `ln S − Σ ℓ ln ℓ / S`. Its slope is `−(ln p + H) / S`: bars longer than `S / e^H` shrink, the
    others grow. 0, without a slope, where nothing longer than 0 is kept.
    """
    found: Tensor = _Entropies.apply(lengths, kept)
    return found


class _Entropies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lengths: Tensor, kept: Tensor) -> Tensor:
        used = kept & ~(lengths <= 0)  # NaN is not hidden
        logs = torch.where(used, lengths, 1.0).log()
        some = used.any(-1, keepdim=True)
        total = torch.where(some, torch.where(used, lengths, 0.0).sum(-1, keepdim=True), 1.0)
        entropy = total.log() - (torch.where(used, lengths, 0.0) * logs).sum(-1, keepdim=True) / total
        ctx.save_for_backward(logs, total, entropy, used)
        return torch.where(some, entropy, 0.0)[..., 0]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, slope: Tensor) -> tuple[Tensor, None]:
        logs, total, entropy, used = ctx.saved_tensors
        return torch.where(used, slope[..., None] * (total.log() - logs - entropy) / total, 0.0), None


def normalised(entropy: Tensor, kept: Tensor) -> Tensor:
    """`H / ln k`, in [0, 1], of entropies `[B]` and how many bars each is of; 1 for a single bar, 0 for none."""
    most = kept.clamp(min=2).double().log()
    return torch.where(kept > 1, entropy / most, (kept == 1).double())


def select(
    lengths: Tensor, rule: Selection, *, k: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Which bars of each barcode `[B, m]` a rule keeps; `random-k` draws by `generator`. See `bar_selection.kept`."""
    lengths = lengths.detach()
    draws = torch.rand(lengths.shape, generator=generator, dtype=torch.float64) if rule == "random-k" else None
    if lengths.device.type == "cpu":  # small arrays cost numpy less
        return torch.from_numpy(kept(lengths.numpy(), rule, k=k, draws=None if draws is None else draws.numpy()))
    return kept(lengths, rule, k=k, draws=None if draws is None else draws.to(lengths.device))
