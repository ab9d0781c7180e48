"""Permutation MANOVA: analysis of variance in one dimension, examples by hand, invariances, planted effects."""

from itertools import product

import numpy as np
import pytest
from scipy import stats

from isoscope.platform.statistics.permutation_manova import (
    INTERACTION,
    WITHIN,
    Source,
    cosine,
    hellinger,
    jackknife,
    sources,
)


def euclidean(points: np.ndarray) -> np.ndarray:
    return np.linalg.norm(points[:, None] - points[None, :], axis=2)


def by_name(distances: np.ndarray, permutations: int = 0, **factors: list) -> dict[str, Source]:
    return {one.name: one for one in sources(distances, factors, permutations=permutations)}


def test_in_one_dimension_it_is_the_analysis_of_variance() -> None:
    draw = np.random.default_rng(0)
    groups = [draw.normal(mean, 1, size=n) for mean, n in ((0, 5), (1, 7), (0.5, 4))]
    values = np.concatenate(groups)
    labels = np.repeat(list("abc"), [5, 7, 4]).tolist()
    found = by_name(euclidean(values[:, None]), 999, of=labels)
    test = stats.f_oneway(*groups)
    between = sum(len(own) * (own.mean() - values.mean()) ** 2 for own in groups)
    assert found["of"].f == pytest.approx(test.statistic)
    assert found["of"].share == pytest.approx(between / ((values - values.mean()) ** 2).sum())
    assert found["of"].p == pytest.approx(test.pvalue, abs=0.05)
    assert (found["of"].df, found[WITHIN].df) == (2, 13)
    assert found["of"].share + found[WITHIN].share == pytest.approx(1)


@pytest.mark.parametrize(
    "above, total, within",
    [((1, 1, 4, 3, 2, 3), 10, 5), ((1, 5, 4, 3, 2, 3), 16, 5)],
)
def test_dissimilarities_by_hand(above: tuple[int, ...], total: float, within: float) -> None:
    """Two groups of two: Σd²/4 over all pairs, Σd²/2 over pairs of a group (no Euclidean space has these distances)."""
    distances = np.zeros((4, 4))
    distances[np.triu_indices(4, 1)] = above
    found = by_name(distances + distances.T, of=[0, 0, 1, 1])
    assert found[WITHIN].squares == pytest.approx(within)
    assert found["of"].squares == pytest.approx(total - within)
    assert found["of"].f == pytest.approx((total - within) / (within / 2))


def test_rotation_and_scale_change_nothing_and_another_order_of_labels_does() -> None:
    draw = np.random.default_rng(1)
    points = draw.normal(size=(12, 4))
    labels = list("aaabbbcccddd")
    turned = points @ np.linalg.qr(draw.normal(size=(4, 4)))[0] * 7
    one, other = (by_name(euclidean(of), 99, of=labels)["of"] for of in (points, turned))
    assert (one.share, one.f, one.p) == pytest.approx((other.share, other.f, other.p))
    assert by_name(euclidean(points), of=list("abcd" * 3))["of"].share != pytest.approx(one.share)


def design(objectives: int, data: int, seeds: int) -> tuple[list, list, list]:
    cells = list(product(range(objectives), range(data), range(seeds)))
    return tuple(list(column) for column in zip(*cells, strict=True))  # type: ignore[return-value]


def test_balanced_shares_sum_to_one_and_are_the_planted_variances() -> None:
    objective, data, _ = design(3, 4, 3)
    draw = np.random.default_rng(2)
    effects = draw.normal(size=(3, 5)), draw.normal(size=(4, 5))
    points = 2 * effects[0][objective] + 0.5 * effects[1][data]
    found = by_name(euclidean(points), objective=objective, data=data)
    spread = [(one - one.mean(axis=0)) for one in (2 * effects[0], 0.5 * effects[1])]
    expected = [float((one**2).sum(axis=1).mean()) for one in spread]
    shares = [found[name].share for name in ("objective", "data")]
    assert shares == pytest.approx([one / sum(expected) for one in expected])
    assert found[INTERACTION].share == pytest.approx(0, abs=1e-9)
    assert found[WITHIN].share == pytest.approx(0, abs=1e-9)
    assert sum(one.share for one in found.values()) == pytest.approx(1)


def test_a_factor_that_coincides_with_another_is_compared_where_the_other_is_equal() -> None:
    """Data x at sizes 1 and 2, data y at size 2 alone: what differs between the sizes of x is not put down to data."""
    data, size = list("xxxxxxyyy"), [1, 1, 1, 2, 2, 2, 2, 2, 2]
    points = np.array([[5.0 * (one == 1)] for one in size]) + np.tile([[0.1], [0.0], [-0.1]], (3, 1))
    found = by_name(euclidean(points), 199, data=data, size=size)
    assert found["data"].share == pytest.approx(0, abs=1e-9)
    assert found["size"].squares == pytest.approx(3 * 3 / 6 * 5**2), "within x alone"
    assert found["size"].p <= 0.2, "20 orders of two times three runs"
    alone = by_name(euclidean(points), data=data)
    assert alone["data"].share > 0.2, "on its own it would be"


def test_a_planted_effect_is_found_and_the_same_effect_is_not_put_down_to_the_other_factor() -> None:
    objective, data, _ = design(3, 3, 3)
    points = np.random.default_rng(3).normal(size=(27, 3)) + 2.5 * np.eye(3)[objective]
    found = by_name(euclidean(points), 999, objective=objective, data=data)
    assert found["objective"].p <= 0.002
    assert found["data"].p > 0.05


def test_without_an_effect_p_is_uniform_even_if_the_other_factor_has_one() -> None:
    objective, data, _ = design(2, 3, 3)
    found = []
    for trial in range(120):
        points = np.random.default_rng(trial).standard_t(3, size=(18, 2)) + 9 * np.eye(3)[data][:, :2]
        found.append(by_name(euclidean(points), 59, objective=objective, data=data)["objective"].p)
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert np.mean(np.array(found) <= 0.05) <= 0.1


def test_distances_of_profiles() -> None:
    profiles = np.array([[3.0, -1.0], [-6.0, 2.0], [0.0, 5.0]])
    magnitudes, signed = hellinger(profiles), cosine(profiles)
    assert magnitudes[0, 1] == pytest.approx(0, abs=1e-12), "the same magnitudes"
    assert magnitudes[0, 2] == pytest.approx((1 - 0.25**0.5) ** 0.5)
    assert signed[0, 1] == pytest.approx(2), "opposite"
    assert signed[0, 2] ** 2 == pytest.approx(2 + 2 / 10**0.5)
    with pytest.raises(ValueError, match="profile 1 is zero"):
        hellinger(np.array([[1.0], [0.0]]))
    with pytest.raises(ValueError, match="no variation"):
        by_name(np.zeros((4, 4)), of=[0, 0, 1, 1])


def test_the_interval_needs_three_seeds_and_narrows_to_nothing_without_noise() -> None:
    objective, data, seeds = design(3, 2, 3)
    points = 2 * np.eye(3)[objective] + np.eye(3)[data]
    factors = {"objective": objective, "data": data}
    found = jackknife(euclidean(points), factors, seeds, confidence=0.95)
    assert found["objective"] == pytest.approx((found["objective"].low,) * 2)  # type: ignore[union-attr]
    noisy = points + np.random.default_rng(4).normal(0, 0.5, size=points.shape)
    wide = jackknife(euclidean(noisy), factors, seeds, confidence=0.95)["objective"]
    assert wide is not None
    assert wide.low < wide.high
    two = [seed < 2 for seed in seeds]
    kept = {name: [one for one, keep in zip(values, two, strict=True) if keep] for name, values in factors.items()}
    of_two = jackknife(euclidean(noisy[two]), kept, [one for one in seeds if one < 2], confidence=0.95)
    assert set(of_two.values()) == {None}


@pytest.mark.exhaustive
def test_the_interval_of_three_seeds_covers_the_expected_share() -> None:
    objective, data, seeds = design(3, 6, 3)
    draw = np.random.default_rng(5)
    mean = draw.normal(size=(3, 8))[objective] + 0.4 * draw.normal(size=(6, 8))[data]
    shares, intervals = [], []
    for _ in range(200):
        distances = euclidean(mean + 0.4 * draw.normal(size=mean.shape))
        factors = {"objective": objective, "data": data}
        shares.append(by_name(distances, **factors)["objective"].share)
        intervals.append(jackknife(distances, factors, seeds, confidence=0.95)["objective"])
    expected = float(np.mean(shares))
    assert np.mean([one is not None and one.holds(expected) for one in intervals]) > 0.88
