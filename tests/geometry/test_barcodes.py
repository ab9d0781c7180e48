"""Barcodes with gradients: closed forms, other libraries, degenerate clouds, the slope of their entropy."""

import math

import numpy as np
import pytest
import torch
from ripser import ripser

from isoscope.geometry.bar_selection import Selection
from isoscope.geometry.barcodes import entropy_and_slope, h0_barcodes, normalised, of_lengths, select
from isoscope.geometry.persistence import h0_bars, persistent_entropy
from isoscope.geometry.spanning_trees import minimum_spanning_trees

RULES: list[Selection] = ["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]


def entropy_of(points: torch.Tensor, rule: Selection = "all", k: int | None = None) -> torch.Tensor:
    trees = minimum_spanning_trees(points, None)
    kept = select(trees.lengths, rule, k=k, generator=torch.Generator().manual_seed(0))
    return of_lengths(points, trees, *entropy_and_slope(trees.lengths, kept))


def test_a_line_has_the_bars_and_the_entropy_it_is_known_for() -> None:
    line = torch.tensor([[[7.0], [0.0], [15.0], [1.0], [3.0]]], dtype=torch.float64)
    assert h0_barcodes(line).lengths.tolist() == [[1.0, 2.0, 4.0, 8.0]]
    assert entropy_of(line).item() == pytest.approx(1.1369165918, abs=1e-10)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_a_simplex_has_equal_bars_and_the_most_entropy(n: int) -> None:
    corners = torch.eye(n, dtype=torch.float64)[None]
    bars = h0_barcodes(corners)
    torch.testing.assert_close(bars.lengths, torch.full((1, n - 1), math.sqrt(2), dtype=torch.float64))
    entropy = entropy_of(corners)
    assert entropy.item() == pytest.approx(math.log(n - 1))
    assert normalised(entropy, torch.tensor([n - 1])).item() == pytest.approx(1.0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bars_are_those_of_ripser_and_of_the_analyses(dtype: torch.dtype) -> None:
    random = np.random.default_rng(3)
    for round_to in (None, 0):
        cloud = random.standard_normal((2, 30, 3))
        cloud = cloud if round_to is None else cloud.round(round_to)
        found = h0_barcodes(torch.from_numpy(cloud).to(dtype))
        for one, lengths in zip(cloud, found.lengths.numpy(), strict=True):
            np.testing.assert_allclose(lengths, h0_bars(one), rtol=1e-5, atol=1e-12)
            peer = np.sort(ripser(one, maxdim=0)["dgms"][0][:-1, 1])
            np.testing.assert_allclose(lengths[lengths > 0], peer, rtol=1e-5)
            for array in (lengths[None], torch.from_numpy(lengths)[None]):
                entropy, _ = entropy_and_slope(array, array > 0)
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
    bars = h0_barcodes(torch.tensor([[[0.0], [0.0], [1.0]]]))
    assert bars.lengths.tolist() == [[0.0, 1.0]]
    assert select(bars.lengths, "all").tolist() == [[False, True]]


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
    masked = h0_barcodes(points, torch.arange(9).expand(2, 9) != 3)
    assert masked.lengths.isfinite().all(), "what the mask leaves out is not looked at"


def test_a_narrow_cone_keeps_its_bars() -> None:
    cloud = (10 + 1e-3 * np.random.default_rng(0).standard_normal((64, 768))).astype(np.float32)
    found = h0_barcodes(torch.from_numpy(cloud)[None]).lengths[0]
    np.testing.assert_allclose(found, h0_bars(cloud.astype(np.float64)), rtol=1e-5)


def test_a_mask_is_the_cloud_without_the_rest() -> None:
    random = np.random.default_rng(2)
    points, mask = torch.from_numpy(random.standard_normal((4, 12, 3))), torch.from_numpy(random.random((4, 12)) < 0.6)
    found = h0_barcodes(points, mask)
    for one, there, lengths, real in zip(points, mask, found.lengths, found.real, strict=True):
        np.testing.assert_allclose(lengths[real], h0_bars(one[there]), rtol=1e-12)
        assert not lengths[~real].any()


def test_controls_keep_as_many_as_the_rule_does_or_as_told() -> None:
    lengths = torch.tensor(
        [[10.0, 9.0, 8.0] + [1.0 + 0.01 * k for k in range(10)], [5.0] * 4 + [0.0] * 9], dtype=torch.float64
    )
    lengths = lengths.flip(-1)
    kept = {rule: select(lengths, rule, generator=torch.Generator().manual_seed(0)) for rule in RULES}
    wanted = kept["c-ratio"].sum(-1).tolist()
    assert wanted == [4, 2]
    for rule in ("top-k", "random-k", "shortest-k"):
        assert kept[rule].sum(-1).tolist() == wanted
        assert not (kept[rule] & (lengths == 0)).any()
    assert lengths[0][kept["top-k"][0]].tolist() == [1.09, 8.0, 9.0, 10.0]
    assert lengths[0][kept["shortest-k"][0]].max() <= 1.03
    assert select(lengths, "top-k", k=7).sum(-1).tolist() == [7, 4]
    draws = torch.stack(
        [select(lengths, "random-k", k=5, generator=torch.Generator().manual_seed(s)) for s in range(300)]
    )
    assert draws[:, 0].double().mean(0).sub(5 / 13).abs().max() < 0.1, "each as likely as another"


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


def test_half_precision_is_read_in_single() -> None:
    points = torch.from_numpy(np.random.default_rng(0).standard_normal((1, 8, 4))).to(torch.bfloat16)
    torch.testing.assert_close(h0_barcodes(points).lengths, h0_barcodes(points.float()).lengths)
