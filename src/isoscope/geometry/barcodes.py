"""Barcodes H0 of clouds of tensors, and their entropy, with gradients: what `persistence` measures, for a loss."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor

from isoscope.geometry import bar_selection
from isoscope.geometry.spanning_trees import minimum_spanning_trees

Selection = Literal["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]


class Barcodes(NamedTuple):
    """Finite bars of B clouds: `lengths` `[B, n − 1]`, float64, rising where `real`; 0 beyond a cloud's last bar."""

    lengths: Tensor
    real: Tensor


def h0_barcodes(points: Tensor, mask: Tensor | None = None) -> Barcodes:
    """H0 bars of the Vietoris–Rips filtrations of `points` `[B, n, d]`, as functions of the points that `mask`
    `[B, n]` names.

    A bar's length is that of an edge of the minimum spanning tree, `‖x_u − x_v‖`. Which points an edge joins is taken
    as given, so gradients flow through lengths alone; a bar of two points that coincide has none. A cloud with NaN or
    infinity has bars of NaN, and no gradient. In the points' own precision, from half precision in float32.
    """
    points = points.float() if points.dtype in (torch.float16, torch.bfloat16) else points
    if mask is None:
        mask = torch.ones(points.shape[:2], dtype=torch.bool, device=points.device)
    finite = (points.isfinite().all(2) | ~mask).all(1)
    used = mask & finite[:, None]
    points = torch.where(used[..., None], points, 0.0)
    edges, real = minimum_spanning_trees(points, used)
    ends = edges.flatten(1)[..., None].expand(-1, -1, points.shape[2])
    pairs = points.gather(1, ends).unflatten(1, (edges.shape[1], 2))
    squared = (pairs[:, :, 0] - pairs[:, :, 1]).square().sum(2).double()
    apart = squared > 0
    lengths = torch.where(apart, torch.where(apart, squared, 1.0).sqrt(), 0.0)
    sizes = torch.arange(edges.shape[1], device=points.device) < (mask.sum(1, keepdim=True) - 1)
    real = torch.where(finite[:, None], real, sizes)
    return Barcodes(torch.where(finite[:, None] | ~sizes, lengths, torch.nan), real)


def entropies(lengths: Tensor, kept: Tensor) -> Tensor:
    """Persistent entropy `−Σ p ln p` of the kept bars of each barcode, p = bar / sum of kept bars, `[B]`, in [0, ln k].

    Natural log; from `ln S − Σ ℓ ln ℓ / S`, whose gradient is `−(ln p + H) / S`: bars longer than `S / e^H` shrink,
    the others grow. 0, without a gradient, where nothing longer than 0 is kept.
    """
    used = kept & ~(lengths <= 0)
    bars = torch.where(used, lengths, 1.0)
    total = torch.where(used, lengths, 0.0).sum(-1)
    some = used.any(-1)
    total = torch.where(some, total, 1.0)
    return torch.where(some, total.log() - (bars * bars.log()).sum(-1) / total, 0.0)


def normalised(entropy: Tensor, kept: Tensor) -> Tensor:
    """`H / ln k`, in [0, 1], of entropies `[B]` and how many bars each is of; 1 for a single bar, 0 for none."""
    most = kept.clamp(min=2).double().log()
    return torch.where(kept > 1, entropy / most, (kept == 1).double())


def select(
    lengths: Tensor, rule: Selection, *, k: int | None = None, generator: torch.Generator | None = None
) -> Tensor:
    """Which bars a rule keeps, `[B, n − 1]`: of those longer than 0.

    `c-ratio`, `relative-entropy`: the longest, by the rules of `bar_selection`. `top-k`, `shortest-k`, `random-k`
    (drawn by `generator`): k of them, or as many as `c-ratio` would keep where k is None. Bars of NaN are kept: what
    is made of them must not look like a number.
    """
    unknown = lengths.isnan()
    lengths = torch.where(unknown, 0.0, lengths.detach())
    positive = lengths > 0
    if rule == "all":
        return positive | unknown
    falling, order = torch.where(positive, lengths, 0.0).sort(dim=-1, descending=True, stable=True)
    count = positive.sum(-1, keepdim=True)
    if rule == "relative-entropy":
        number = _number(bar_selection.relative_entropy, falling)
    elif k is None or rule == "c-ratio":
        number = _number(bar_selection.c_ratio, falling)
    else:
        number = torch.full_like(count[:, 0], k)
    number = torch.minimum(number[:, None], count)
    place = torch.arange(lengths.shape[-1], device=lengths.device).expand_as(lengths)
    if rule == "shortest-k":
        chosen = (place < count) & (place >= count - number)
    elif rule == "random-k":
        drawn = torch.rand(lengths.shape, generator=generator, dtype=torch.float64).to(lengths.device)
        chosen = torch.where(place < count, drawn, 2.0).argsort(dim=-1).argsort(dim=-1) < number
    else:
        chosen = place < number
    return torch.zeros_like(positive).scatter(-1, order, chosen) | unknown


def _number(rule: bar_selection.Rule, falling: Tensor) -> Tensor:
    """What `rule` answers, by numpy where the bars are in the host's memory: small arrays cost it less."""
    if falling.device.type == "cpu":
        return torch.from_numpy(rule(falling.numpy()))
    return rule(falling)
