"""Selections of bars: the published table, a direct reading of the published rules, NumPy and torch arrays."""

import math

import numpy as np
import pytest
import torch

from isoscope.geometry.bar_selection import c_ratio, relative_entropy
from isoscope.geometry.persistence import h0_bars

TABLE = [
    ([10, 9, 1, 1, 1], 2, 0),
    ([10, 9, 8] + [1] * 10, 4, 3),
    ([10, 9, 8] + [1] * 30, 4, 3),
    ([10] * 5 + [1] * 5, 2, 0),
    ([2.0**-k for k in range(10)], 2, 1),
    (list(range(10, 0, -1)), 2, 1),
    ([100] + [1] * 9, 2, 1),
    ([1] * 8, 6, 0),
]


def both(bars: list[float]) -> list[object]:
    """The bars in either library's array, with room behind them."""
    array = np.array([*bars, 0.0, 0.0], dtype=np.float64)
    return [array, torch.from_numpy(array), np.stack([array, array]), torch.from_numpy(np.stack([array, array]))]


@pytest.mark.parametrize("bars, by_c_ratio, by_relative_entropy", TABLE)
def test_the_published_table(bars: list[float], by_c_ratio: int, by_relative_entropy: int) -> None:
    for array in both(bars):
        assert np.unique(np.asarray(c_ratio(array))) == by_c_ratio
        assert np.unique(np.asarray(relative_entropy(array))) == by_relative_entropy


def plain_c_ratio(falling: list[float]) -> int:
    alpha = falling[-1] / falling[0]
    bars = falling[1:] + falling[:1]
    while True:
        n, total, kept = len(bars), sum(bars), len(bars) - 3
        most = math.ceil(alpha * n * (alpha - 1 - math.log(alpha)) / (alpha - 1) ** 2)
        for i in range(1, n - 2):
            rest = bars[i:]
            neutral = math.exp(sum(r * math.log(r) for r in rest) / sum(rest))
            after = sum(rest) + i * neutral
            if total / after < 1:
                kept = i
                break
            total = after
        if most >= kept:
            return kept + 1
        bars = [*bars[:kept], falling[-1], falling[0]]


def entropy(bars: list[float]) -> float:
    return -sum(bar / sum(bars) * math.log(bar / sum(bars)) for bar in bars)


def plain_relative_entropy(falling: list[float]) -> int:
    n, before, kept = len(falling), entropy(falling), 0
    missing = math.log(n) - before
    for i in range(1, n):
        rest = falling[i:]
        neutral = math.exp(sum(r * math.log(r) for r in rest) / sum(rest))
        now = entropy([neutral] * i + rest)
        if (now - before) / missing <= i / n:
            break
        before, kept = now, i
    return kept


def test_both_rules_as_they_are_written_on_barcodes_of_every_shape() -> None:
    random = np.random.default_rng(0)
    for _ in range(400):
        size = int(random.integers(4, 70))
        bars = np.sort(random.exponential(size=size) ** random.uniform(0.2, 3))[::-1].copy()
        wanted = plain_c_ratio(bars.tolist()), plain_relative_entropy(bars.tolist())
        for array in both(bars.tolist()):
            found = np.unique(np.asarray(c_ratio(array))), np.unique(np.asarray(relative_entropy(array)))
            assert found == wanted


@pytest.mark.parametrize("least", [1e-300, 1e-100, 1e-17, 1e-16, 1e-12, 1e-6])
def test_a_bar_next_to_nothing_does_not_upset_the_rule(least: float) -> None:
    """As of two points that all but coincide."""
    random = np.random.default_rng(0)
    cases = [[10.0] * 5 + [1.0] * 5, *(sorted(random.exponential(size=20), reverse=True) for _ in range(50))]
    for bars in cases:
        wanted = plain_c_ratio([*bars, least])
        for array in both([*bars, least]):
            assert np.unique(np.asarray(c_ratio(array))) == wanted


@pytest.mark.parametrize("size", range(4))
def test_fewer_than_four_bars_are_all_kept(size: int) -> None:
    for array in both([3.0, 2.0, 1.0][:size]):
        assert np.unique(np.asarray(c_ratio(array))) == size


def test_scale_does_not_matter_and_barcodes_of_a_stack_are_told_apart() -> None:
    random = np.random.default_rng(1)
    rows = -np.sort(-(random.exponential(size=(20, 30)) ** np.linspace(0.01, 2, 20)[:, None]))
    rows[:, 25:] *= np.arange(20)[:, None] % 2
    alone = [int(c_ratio(row)) for row in rows], [int(relative_entropy(row)) for row in rows]
    for scale in (1e-6, 1.0, 1e6):
        for array in (scale * rows, torch.from_numpy(scale * rows)):
            assert (np.asarray(c_ratio(array)).tolist(), np.asarray(relative_entropy(array)).tolist()) == alone
    assert len(set(alone[0])) > 2


def test_near_equal_bars_fall_to_five_however_many_there_are() -> None:
    """Concentration of measure reduces the rule to few bars in high dimensions."""
    random = np.random.default_rng(0)
    for n in (32, 64, 128):
        kept = [int(c_ratio(h0_bars(random.standard_normal((n, 768)))[::-1])) for _ in range(5)]
        assert sorted(kept)[2] == 5
