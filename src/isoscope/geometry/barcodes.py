"""Separate the features of a barcode from noise by published rules and controls, and compute its entropy, for a loss.

Bars are arrays `[…, m]` in falling order, padded with zeros, in float64.
"""

import math
from typing import Literal

import numba
import numpy as np
import torch
from numpy.typing import NDArray

from isoscope.geometry.moments import Floats, Ints

EQUAL = 1e-12
"""Totals whose relative difference is smaller differ only by rounding."""
SERIES = 1e-4
"""Where |α − 1| is at most this, `(α − 1 − ln α) / (α − 1)²` is computed from its series."""

Flags = NDArray[np.bool_]
Selection = Literal["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]


def select(
    lengths: Floats, rule: Selection, *, k: int | None = None, generator: torch.Generator | None = None
) -> Flags:
    """Return which bars of `lengths` `[…, m]`, in any order, a rule keeps; only bars longer than 0 are kept.

    - `c-ratio`, `relative-entropy`: the longest bars, by the rules below.
    - `top-k`, `shortest-k`, `random-k` (drawn by `generator`): k bars, or as many as `c-ratio` would keep if k is None.

    Bars of NaN are kept, so that results computed from them are NaN.
    """
    unknown, positive = np.isnan(lengths), lengths > 0
    if rule == "all":
        return positive | unknown
    negative, count = -np.where(positive, lengths, 0.0), positive.sum(-1)
    falling = -np.sort(negative, -1)
    if rule == "relative-entropy":
        number = relative_entropy(falling)
    elif k is None or rule == "c-ratio":
        number = c_ratio(falling)
    else:
        number = np.full_like(count, k)
    number = np.minimum(number, count)[..., None]
    place = negative.argsort(-1).argsort(-1)
    if rule == "shortest-k":
        place = count[..., None] - 1 - place
    elif rule == "random-k":
        draws = torch.rand(lengths.shape, generator=generator, dtype=torch.float64).numpy()
        place = np.where(positive, draws, 2.0).argsort(-1).argsort(-1)
    return (positive & (place < number)) | unknown


def c_ratio(bars: Floats) -> Ints:
    """Return how many of the longest bars the C-ratio rule keeps, `[…]`.

    In the bars `B = (ℓ₂, …, ℓ_N, ℓ₁)` the first i are replaced by `ℓ′ = exp(Σ r ln r / Σ r)` over the rest r; this
    length maximises the entropy. i is the first for which the total grows, or N − 3 if it never grows. Let `Q = ⌈α n (α
    − 1 − ln α) / (α − 1)²⌉`, with α = ℓ_N / ℓ₁ and n = |B|. If Q < i, the rule is applied again to `(B₁, …, B_i, ℓ_N,
    ℓ₁)`. The rule keeps 1 + i bars. Equal bars have no Q. Fewer than four bars are all kept, since the rule needs four.
    Source: Atienza, Gonzalez-Diaz and Rucco 2019 (arXiv:1701.07857), as in its public implementations.
    """
    rows = bars.reshape(math.prod(bars.shape[:-1]), bars.shape[-1])
    found: Ints = _c_ratios(np.ascontiguousarray(rows))
    return found.reshape(bars.shape[:-1])


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


def relative_entropy(bars: Floats) -> Ints:
    """Return how many bars the relative-entropy rule keeps, `[…]`.

    `E_i` is the entropy with the i longest bars neutralised. Bar i is a feature while `(E_i − E_{i−1}) / (ln N − E_0) >
    i / N`. Equal bars have no feature. Source: Atienza, Gonzalez-Diaz and Rucco 2016 (arXiv:1605.02885).
    """
    place, size = np.arange(bars.shape[-1]), np.maximum((bars > 0).sum(-1), 1)[..., None]
    rest, weighed = _from(bars), _from(bars * np.log(np.where(bars > 0, bars, 1.0)))
    inside = rest > 0
    log_neutral = weighed / np.where(inside, rest, 1.0)
    entropy = np.log(np.where(inside, rest + place * np.exp(log_neutral), 1.0)) - log_neutral
    missing = np.log(size) - entropy[..., :1]
    gains = entropy[..., 1:] - entropy[..., :-1] > place[1:] / size * missing
    features = gains & inside[..., 1:] & (missing > EQUAL)
    found: Ints = np.logical_and.accumulate(features, -1).sum(-1)
    return found


def _from(values: Floats) -> Floats:
    """Return the sums from position i to the end of the last axis."""
    return values[..., ::-1].cumsum(-1)[..., ::-1]


def entropy_and_slope(lengths: Floats, kept: Flags) -> tuple[Floats, Floats]:
    """Return persistent entropy `−Σ p ln p` of each barcode's kept bars, p = bar / sum of kept bars, and its slopes.

    Shapes: `[B]`, in [0, ln k], and `[B, m]`. Natural log; computed as `ln S − Σ ℓ ln ℓ / S`. The slope is `−(ln p + H)
    / S`: bars longer than `S / e^H` shrink, the others grow. 0, without a slope, if no bar longer than 0 is kept.
    """
    used = kept & ~(lengths <= 0)  # NaN stays visible
    bars, logs = np.where(used, lengths, 0.0), np.log(np.where(used, lengths, 1.0))
    total = bars.sum(-1, keepdims=True)
    some = ~(total <= 0)
    total = np.where(some, total, 1.0)
    entropy = np.log(total) - (bars * logs).sum(-1, keepdims=True) / total
    slope = np.where(used, (np.log(total) - logs - entropy) / total, 0.0)
    return np.where(some, entropy, 0.0)[..., 0], slope


def normalised(entropy: Floats, kept: Ints) -> Floats:
    """Return `H / ln k`, in [0, 1], of entropies `[B]` over k kept bars each; 1 for a single bar, 0 for none."""
    return np.where(kept > 1, entropy / np.log(np.maximum(kept, 2)), kept == 1)
