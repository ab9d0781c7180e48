"""Barcodes with gradients: closed forms, other libraries, degenerate clouds, the slope of their entropy.

Selections of bars: the published table, a direct reading of the published rules.
"""

import math
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from ripser import ripser

from isoscope.geometry.barcodes import Selection, c_ratio, entropy_and_slope, relative_entropy, select
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.geometry.spanning_trees import Trees, minimum_spanning_trees, of_lengths

RULES: list[Selection] = ["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]


def barcodes(points: torch.Tensor, mask: torch.Tensor | None = None) -> Trees:
    """The trees with lengths that are a differentiable function of the points."""
    trees = minimum_spanning_trees(points, mask)
    return trees._replace(lengths=of_lengths(points, trees, trees.lengths, torch.ones_like(trees.lengths)))


def entropy_of(points: torch.Tensor, rule: Selection = "all", k: int | None = None) -> torch.Tensor:
    trees = minimum_spanning_trees(points, None)
    kept = select(trees.lengths.numpy(), rule, k=k, generator=torch.Generator().manual_seed(0))
    return of_lengths(points, trees, *map(torch.from_numpy, entropy_and_slope(trees.lengths.numpy(), kept)))


@pytest.mark.parametrize("round_to", [None, 0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bars_are_those_of_ripser_and_of_the_analyses(dtype: torch.dtype, round_to: int | None) -> None:
    random = np.random.default_rng(3)
    cloud = random.standard_normal((2, 30, 3))
    cloud = cloud if round_to is None else cloud.round(round_to)
    found = barcodes(torch.from_numpy(cloud).to(dtype))
    for one, lengths in zip(cloud, found.lengths.numpy(), strict=True):
        np.testing.assert_allclose(lengths, h0_bars(one), rtol=1e-5, atol=1e-12)
        peer = np.sort(ripser(one, maxdim=0)["dgms"][0][:-1, 1])
        np.testing.assert_allclose(lengths[lengths > 0], peer, rtol=1e-5)
        entropy, _ = entropy_and_slope(lengths[None], lengths[None] > 0)
        assert entropy.item() == pytest.approx(persistent_entropy(lengths), rel=1e-9)


@pytest.mark.parametrize("rule", RULES)
def test_gradients_are_those_of_finite_differences(rule: Selection) -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 9, 4))).requires_grad_()
    assert torch.autograd.gradcheck(lambda one: entropy_of(one, rule), (points,))


def test_the_slope_along_a_bar_has_a_closed_form() -> None:
    lengths = np.array([[5.0, 3.0, 2.0, 1.0]])
    _, slope = entropy_and_slope(lengths, lengths > 0)
    np.testing.assert_allclose(slope[0], [-0.041112, 0.005327, 0.042188, 0.105201], atol=1e-6)
    assert (slope * lengths).sum() == pytest.approx(0.0, abs=1e-15), "scale changes nothing"


def test_isometries_scale_and_order_change_no_entropy_and_a_stretch_does() -> None:
    random = np.random.default_rng(1)
    points = torch.from_numpy(random.standard_normal((1, 20, 5)))
    turn = torch.linalg.qr(torch.from_numpy(random.standard_normal((5, 5)))).Q
    entropy = entropy_of(points, "c-ratio")
    for moved in (points @ turn, points + 3.0, 1e4 * points, points[:, torch.randperm(20)]):
        torch.testing.assert_close(entropy_of(moved, "c-ratio"), entropy, rtol=1e-9, atol=0)
    stretched = points * torch.tensor([1.0, 4.0, 1.0, 0.2, 1.0])
    assert abs(entropy_of(stretched, "c-ratio") - entropy).item() > 1e-3


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "cloud",
    [
        torch.zeros(1, 0, 3),
        torch.ones(1, 1, 3),
        torch.ones(1, 2, 3),
        torch.tensor([[[0.0], [0.0], [1.0]]]),
        torch.ones(1, 64, 8),
        torch.arange(6.0).reshape(1, 3, 2),
    ],
    ids=["none", "one", "two alike", "two alike and one", "all alike", "ties"],
)
def test_degenerate_clouds_have_entropies_and_gradients(cloud: torch.Tensor, rule: Selection) -> None:
    points = cloud.clone().requires_grad_()
    entropy = entropy_of(points, rule)
    entropy.sum().backward()
    assert points.grad is not None
    assert entropy.isfinite().all()
    assert points.grad.isfinite().all()


def test_points_that_coincide_give_bars_of_no_length() -> None:
    bars = barcodes(torch.tensor([[[0.0], [0.0], [1.0]]]))
    assert bars.lengths.tolist() == [[0.0, 1.0]]
    assert select(bars.lengths.numpy(), "all").tolist() == [[False, True]]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_cloud_that_is_no_number_is_seen_and_spoils_no_other(rule: Selection, bad: float) -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((2, 9, 4)))
    points[1, 3, 2] = bad
    points.requires_grad_()
    entropy = entropy_of(points, rule)
    assert entropy.isnan().tolist() == [False, True]
    entropy.nansum().backward()
    assert points.grad is not None
    assert points.grad.isfinite().all()
    assert not points.grad[1].any()
    masked = barcodes(points, torch.arange(9).expand(2, 9) != 3)
    assert masked.lengths.isfinite().all(), "what the mask leaves out is not looked at"


def test_controls_keep_as_many_as_the_rule_does_or_as_told() -> None:
    lengths = np.array([[10.0, 9.0, 8.0] + [1.0 + 0.01 * k for k in range(10)], [5.0] * 4 + [0.0] * 9])[:, ::-1]
    kept = {rule: select(lengths, rule, generator=torch.Generator().manual_seed(0)) for rule in RULES}
    wanted = kept["c-ratio"].sum(-1).tolist()
    assert wanted == [4, 2]
    for rule in ("top-k", "random-k", "shortest-k"):
        assert kept[rule].sum(-1).tolist() == wanted
        assert not (kept[rule] & (lengths == 0)).any()
    assert lengths[0][kept["top-k"][0]].tolist() == [1.09, 8.0, 9.0, 10.0]
    assert lengths[0][kept["shortest-k"][0]].max() <= 1.03
    assert select(lengths, "top-k", k=7).sum(-1).tolist() == [7, 4]
    draws = [select(lengths, "random-k", k=5, generator=torch.Generator().manual_seed(s))[0] for s in range(300)]
    assert np.abs(np.mean(draws, 0) - 5 / 13).max() < 0.1, "each as likely as another"


@pytest.mark.parametrize("scale", [1e-20, 1e-10, 1e10])
def test_a_gradient_is_a_number_at_any_scale(scale: float) -> None:
    """Slopes of a small cloud's bars are more than single precision holds, their products with its points are not."""
    cloud = np.random.default_rng(0).standard_normal((1, 9, 4))
    found = []
    for factor, dtype in ((scale, torch.float32), (1.0, torch.float64)):
        points = torch.from_numpy(factor * cloud).to(dtype).requires_grad_()
        entropy_of(points, "all").sum().backward()
        assert points.grad is not None
        found.append(factor * points.grad.double().numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-4, atol=1e-6)


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


def both(bars: Sequence[float]) -> tuple[set[int], set[int]]:
    """How many bars each rule keeps, with room behind the bars, alone and in a stack."""
    array = np.array([*bars, 0.0, 0.0], dtype=np.float64)
    stacked = np.stack([array, array])
    return (
        {int(c_ratio(array)), *c_ratio(stacked).tolist()},
        {int(relative_entropy(array)), *relative_entropy(stacked).tolist()},
    )


@pytest.mark.parametrize("bars, by_c_ratio, by_relative_entropy", TABLE)
def test_the_published_table(bars: list[float], by_c_ratio: int, by_relative_entropy: int) -> None:
    assert both(bars) == ({by_c_ratio}, {by_relative_entropy})


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


def plain_entropy(bars: list[float]) -> float:
    return -sum(bar / sum(bars) * math.log(bar / sum(bars)) for bar in bars)


def plain_relative_entropy(falling: list[float]) -> int:
    n, before, kept = len(falling), plain_entropy(falling), 0
    missing = math.log(n) - before
    for i in range(1, n):
        rest = falling[i:]
        neutral = math.exp(sum(r * math.log(r) for r in rest) / sum(rest))
        now = plain_entropy([neutral] * i + rest)
        if (now - before) / missing <= i / n:
            break
        before, kept = now, i
    return kept


def test_both_rules_as_they_are_written_on_barcodes_of_every_shape(random: np.random.Generator) -> None:
    for _ in range(400):
        size = int(random.integers(4, 70))
        bars = np.sort(random.exponential(size=size) ** random.uniform(0.2, 3))[::-1].copy()
        assert both(bars) == ({plain_c_ratio(bars.tolist())}, {plain_relative_entropy(bars.tolist())})


@pytest.mark.parametrize("least", [1e-300, 1e-100, 1e-17, 1e-16, 1e-12, 1e-6])
def test_a_bar_next_to_nothing_does_not_upset_the_rule(least: float, random: np.random.Generator) -> None:
    """As of two points that all but coincide."""
    cases = [[10.0] * 5 + [1.0] * 5, *(sorted(random.exponential(size=20), reverse=True) for _ in range(50))]
    for bars in cases:
        assert both([*bars, least])[0] == {plain_c_ratio([*bars, least])}


@pytest.mark.parametrize("size", range(4))
def test_fewer_than_four_bars_are_all_kept(size: int) -> None:
    assert both([3.0, 2.0, 1.0][:size])[0] == {size}


def test_scale_does_not_matter_and_barcodes_of_a_stack_are_told_apart() -> None:
    random = np.random.default_rng(1)
    rows = -np.sort(-(random.exponential(size=(20, 30)) ** np.linspace(0.01, 2, 20)[:, None]))
    rows[:, 25:] *= np.arange(20)[:, None] % 2
    alone = [int(c_ratio(row)) for row in rows], [int(relative_entropy(row)) for row in rows]
    for scale in (1e-6, 1.0, 1e6):
        assert (c_ratio(scale * rows).tolist(), relative_entropy(scale * rows).tolist()) == alone
    assert len(set(alone[0])) > 2


@pytest.mark.parametrize("n", [32, 64, 128])
def test_near_equal_bars_fall_to_five_however_many_there_are(random: np.random.Generator, n: int) -> None:
    """Concentration of measure reduces the rule to few bars in high dimensions."""
    kept = [int(c_ratio(h0_bars(random.standard_normal((n, 768)))[::-1])) for _ in range(5)]
    assert sorted(kept)[2] == 5
