"""Separate the features of a barcode from noise by published rules and controls, and compute its entropy, for a loss.

Bars are arrays `[…, m]` in falling order, padded with zeros; numpy arrays or torch tensors, in float64. Both use the
same formulas. Only C-ratio's recursion differs: a compiled loop for arrays, a table of all levels for tensors.
"""

import math
from types import ModuleType
from typing import Any, Literal

import numba
import numpy as np
import torch
from torch import Tensor

from isoscope.geometry.moments import Floats, Ints

EQUAL = 1e-12
"""Totals whose relative difference is smaller differ only by rounding."""
SERIES = 1e-4
"""Where |α − 1| is at most this, `(α − 1 − ln α) / (α − 1)²` is computed from its series."""

Array = Any
"""A numpy array or a tensor; the functions here treat both alike."""
Selection = Literal["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]


def select(lengths: Array, rule: Selection, *, k: int | None = None, generator: torch.Generator | None = None) -> Array:
    """Return which bars of `lengths` `[…, m]`, in any order, a rule keeps; only bars longer than 0 are kept.

    - `c-ratio`, `relative-entropy`: the longest bars, by the rules below.
    - `top-k`, `shortest-k`, `random-k` (drawn by `generator`): k bars, or as many as `c-ratio` would keep if k is None.

    Bars of NaN are kept, so that results computed from them are NaN.
    """
    xp = library(lengths)
    unknown = lengths != lengths
    positive = lengths > 0
    if rule == "all":
        return positive | unknown
    negative = -xp.where(positive, lengths, 0.0)
    falling = -(negative.sort(-1).values if isinstance(negative, Tensor) else np.sort(negative, -1))
    count = positive.sum(-1)
    if rule == "relative-entropy":
        number = relative_entropy(falling)
    elif k is None or rule == "c-ratio":
        number = c_ratio(falling)
    else:
        number = xp.zeros_like(count) + k
    number = xp.where(number < count, number, count)[..., None]
    place = negative.argsort(-1).argsort(-1)
    if rule == "shortest-k":
        place = count[..., None] - 1 - place
    elif rule == "random-k":
        drawn = torch.rand(tuple(lengths.shape), generator=generator, dtype=torch.float64)
        draws = drawn.to(lengths.device) if isinstance(lengths, Tensor) else drawn.numpy()
        place = xp.where(positive, draws, 2.0).argsort(-1).argsort(-1)
    return (positive & (place < number)) | unknown


def c_ratio(bars: Array) -> Array:
    """Return how many of the longest bars the C-ratio rule keeps, `[…]`.

    In the bars `B = (ℓ₂, …, ℓ_N, ℓ₁)` the first i are replaced by `ℓ′ = exp(Σ r ln r / Σ r)` over the rest r; this
    length maximises the entropy. i is the first for which the total grows, or N − 3 if it never grows. Let `Q = ⌈α n (α
    − 1 − ln α) / (α − 1)²⌉`, with α = ℓ_N / ℓ₁ and n = |B|. If Q < i, the rule is applied again to `(B₁, …, B_i, ℓ_N,
    ℓ₁)`. The rule keeps 1 + i bars. Equal bars have no Q. Fewer than four bars are all kept, since the rule needs four.
    Source: Atienza, Gonzalez-Diaz and Rucco 2019 (arXiv:1701.07857), as in its public implementations.
    """
    if not isinstance(bars, torch.Tensor):
        rows = bars.reshape(math.prod(bars.shape[:-1]), bars.shape[-1])
        return _c_ratios(np.ascontiguousarray(rows)).reshape(bars.shape[:-1])
    all_of_them = (bars > 0).sum(-1)
    if bars.shape[-1] < 4:
        return all_of_them
    enough = all_of_them >= 4
    bars = torch.where(enough[..., None], bars, 1.0)  # placeholder bars; their results are not used
    longer = bars > 0
    last = torch.where(longer, bars, torch.inf).amin(-1, keepdim=True)
    inner = longer.sum(-1) - 2  # bars of B with the same position at every level
    # Compute all levels at once, then follow their chain by doubling: no step waits for the previous step.
    stops = _stops(bars, last)
    again = (_most(bars, last) < stops) & (last < bars[..., :1])
    after = torch.where(again, stops, _places(bars))
    for _ in range(after.shape[-1].bit_length()):
        after = after.gather(-1, after)
    return torch.where(enough, 1 + stops.gather(-1, after.gather(-1, inner[..., None]))[..., 0], all_of_them)


@numba.njit
def _c_ratios(bars: Floats) -> Ints:
    """`c_ratio` for barcodes `[b, m]`, each falling: level by level, each until its total grows."""
    found = np.empty(len(bars), np.int64)
    lengths, products = np.zeros(bars.shape[1]), np.zeros(bars.shape[1])  # cumulative sums of the bars, and of ℓ ln ℓ
    for barcode in range(len(bars)):
        row = bars[barcode]
        count = 0
        while count < len(row) and row[count] > 0:
            count += 1
        if count < 4:
            found[barcode] = count
            continue
        for bar in range(1, count):
            lengths[bar] = lengths[bar - 1] + row[bar]
            products[bar] = products[bar - 1] + row[bar] * math.log(row[bar])
        first, last = row[0], row[count - 1]
        both, weighed = first + last, first * math.log(first) + last * math.log(last)
        alpha = last / first
        x = alpha - 1
        log_alpha = math.log1p(x) if alpha > 0.5 else math.log(last) - math.log(first)  # precise for small alpha, too
        slope = (x - log_alpha) / x**2 if abs(x) > SERIES else 0.5 - x / 3 + x**2 / 4
        inner = count - 2
        while True:
            stop, before = max(inner - 1, 0), lengths[inner] + both
            for tried in range(1, inner):
                rest = lengths[inner] - lengths[tried] + both
                total = rest + tried * math.exp((products[inner] - products[tried] + weighed) / rest)
                if before < total * (1 - EQUAL):
                    stop = tried
                    break
                before = total
            if inner == 0 or last == first or np.ceil(alpha * slope * (inner + 2)) >= stop:
                break
            inner = stop
        found[barcode] = 1 + stop
    return found


def _most(bars: Tensor, last: Tensor) -> Tensor:
    """Return Q for each number of inner bars 0, 1, …, from the bars and the shortest bar."""
    alpha = last / bars[..., :1]
    x = alpha - 1
    apart = x.abs() > SERIES
    safe = torch.where(apart, x, 1.0)
    # Precise for small alpha, too.
    log_alpha = torch.where(alpha > 0.5, torch.log1p(safe), last.log() - bars[..., :1].log())
    slope = torch.where(apart, (safe - log_alpha) / safe**2, 0.5 - x / 3 + x**2 / 4)
    return torch.ceil(alpha * slope * (_places(bars) + 2))


def _stops(bars: Tensor, last: Tensor) -> Tensor:
    """Return, for each number m of inner bars, the first i at which neutralising i bars adds length, else m − 1."""
    first = bars[..., :1]
    products = _x_log_x(bars)
    lengths = bars.cumsum(-1) - first
    products, ends = products.cumsum(-1) - products[..., :1], products[..., :1] + _x_log_x(last)
    asked, tried = _places(bars)[:, None], _places(bars)
    # Values beyond a level's own bars are arbitrary and not used.
    rest = (lengths + first + last)[..., None] - lengths[..., None, :]
    weighed = (products + ends)[..., None] - products[..., None, :]
    total = rest + tried * torch.exp(weighed / rest)
    grows = (total[..., :-1] < total[..., 1:] * (1 - EQUAL)) & (tried[1:] < asked)
    return torch.where(grows.any(-1), grows.int().argmax(-1) + 1, (asked[:, 0] - 1).clip(0))


def relative_entropy(bars: Array) -> Array:
    """Return how many bars the relative-entropy rule keeps, `[…]`.

    `E_i` is the entropy with the i longest bars neutralised. Bar i is a feature while `(E_i − E_{i−1}) / (ln N − E_0) >
    i / N`. Equal bars have no feature. Source: Atienza, Gonzalez-Diaz and Rucco 2016 (arXiv:1605.02885).
    """
    xp = library(bars)
    count = (bars > 0).sum(-1)[..., None]
    rest, weighed = _from(bars), _from(_x_log_x(bars))
    inside = rest > 0
    place = _places(bars)
    log_neutral = weighed / xp.where(inside, rest, 1.0)
    total = rest + place * xp.exp(log_neutral)
    entropy = xp.log(xp.where(inside, total, 1.0)) - log_neutral
    size = xp.where(count > 0, count, 1) * xp.ones_like(rest[..., :1])  # torch would turn counts into float32
    missing = xp.log(size) - entropy[..., :1]
    gains = entropy[..., 1:] - entropy[..., :-1] > place[..., 1:] / size * missing
    features = gains & inside[..., 1:] & (missing > EQUAL)
    return xp.where(features, 1, 0).cumprod(-1).sum(-1)


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
    return values.detach().numpy() if values.device.type == "cpu" else values.detach()


def library(bars: Array) -> ModuleType:
    """Return torch for a tensor, numpy for an array."""
    return torch if isinstance(bars, torch.Tensor) else np


def _places(bars: Array) -> Array:
    """Return 0, 1, … along the last axis."""
    return library(bars).arange(bars.shape[-1], device=bars.device)


def _x_log_x(values: Array) -> Array:
    xp = library(values)
    return values * xp.log(xp.where(values > 0, values, 1.0))


def _from(values: Array) -> Array:
    """Return the sums from position i to the end of the last axis."""
    xp = library(values)
    return xp.flip(xp.flip(values, (-1,)).cumsum(-1), (-1,))
