"""Summarise attention maps: a few numbers per head."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.moments import Floats


class AttentionSummary(NamedTuple):
    """Means over the queries of one sentence, `[..., heads]` each.

    - `entropy`: −Σ a ln a / ln T, in [0, 1], 1 for uniform attention.
    - `distance`: Σ a |i − j| in tokens.
    - Shares of the weight on the first token ([CLS]), on the last token ([SEP]) and on the query itself.

    Queries are all real tokens.
    """

    entropy: Floats
    distance: Floats
    first: Floats
    last: Floats
    itself: Floats


def summarise(attention: ArrayLike) -> AttentionSummary:
    """Summarise attention `[..., heads, T, T]` (query by key, rows sum to 1) of one sentence without padding.

    Raises `InputError` for rows that are negative or do not sum to 1, and for fewer than two tokens.
    """
    weights = _maps(attention)
    if weights.ndim < 3 or weights.shape[-1] < 2:
        raise InputError(f"attention: expected [..., heads, T, T] with at least two tokens, got {list(weights.shape)}")
    index, logs = np.arange(weights.shape[-1]), np.log(np.clip(weights, 1e-300, None))
    return AttentionSummary(
        entropy=(-(weights * logs).sum(-1) / np.log(len(index))).mean(-1),
        distance=(weights * np.abs(index[:, None] - index)).sum(-1).mean(-1),
        first=weights[..., 0].mean(-1),
        last=weights[..., -1].mean(-1),
        itself=np.diagonal(weights, axis1=-2, axis2=-1).mean(-1),
    )


def head_agreement(one: ArrayLike, other: ArrayLike) -> Floats:
    """Return 1 − Jensen–Shannon divergence (base 2) of two heads' attention, mean over queries, in [0, 1]; 1 if equal.

    Both are `[..., T, T]` over the same tokens; leading axes broadcast. Raises `InputError` for rows that are negative
    or do not sum to 1, and for different numbers of tokens.
    """
    a, b = (np.clip(_maps(maps), 1e-300, None) for maps in (one, other))
    if a.shape[-1] != b.shape[-1]:
        raise InputError(f"attention: maps over {a.shape[-1]} and {b.shape[-1]} tokens cannot be compared")
    middle = (a + b) / 2
    divergence = ((a * np.log2(a / middle)).sum(-1) + (b * np.log2(b / middle)).sum(-1)) / 2
    return 1.0 - divergence.mean(-1)


def _maps(attention: ArrayLike) -> Floats:
    weights = np.asarray(on_host(attention), dtype=np.float64)
    if weights.ndim < 2 or weights.shape[-1] != weights.shape[-2]:
        raise InputError(f"attention: expected [..., T, T], got {list(weights.shape)}")
    if not np.allclose(weights.sum(-1), 1.0, atol=1e-3) or (weights < 0).any():
        raise InputError("attention: each row must be non-negative and sum to 1")
    return weights
