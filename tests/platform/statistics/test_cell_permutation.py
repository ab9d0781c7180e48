"""One factor against another by the cells of a design: against sums of squares, all orders by hand, and simulation."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from isoscope.platform.statistics.cell_permutation import Permuted, by_condition, first_over_second, judge_cells
from isoscope.platform.statistics.paired import paired_t


def design(first: int, second: int) -> tuple[list[int], list[int]]:
    cells = list(product(range(first), range(second)))
    return [one for one, _ in cells], [other for _, other in cells]


def distances(points: NDArray[np.float64]) -> NDArray[np.float64]:
    found: NDArray[np.float64] = np.linalg.norm(points[:, None] - points[None, :], axis=2)
    return found


def test_the_difference_is_that_of_the_sums_of_squares_and_p_counts_all_orders() -> None:
    first, second = design(3, 2)
    points = np.random.default_rng(0).normal(size=(6, 4)) + 0.8 * np.array(first)[:, None]

    def difference(order: tuple[int, ...]) -> float:
        cells = points[list(order)].reshape(3, 2, 4) - points.mean(axis=0)
        of_first, of_second = (2 * cells.mean(axis=1) ** 2).sum(), (3 * cells.mean(axis=0) ** 2).sum()
        return float((of_first - of_second) / (cells**2).sum())

    found = first_over_second(distances(points), first, second)
    every = [difference(order) for order in permutations(range(6))]
    assert found.difference == pytest.approx(every[0])
    assert found.p == pytest.approx(np.mean(np.array(every) >= every[0] - 1e-9))
    assert found.least == pytest.approx(1 / 60)


@pytest.mark.parametrize("sizes, least", [((2, 2), 1 / 6), ((3, 2), 1 / 60), ((2, 3), 1 / 60), ((3, 6), 1 / 10_000)])
def test_the_least_p_is_reached_where_the_second_factor_explains_nothing(sizes: tuple[int, int], least: float) -> None:
    """Levels of the first factor are far apart; the cells of a level differ, but all columns have one mean."""
    first, second = design(*sizes)
    rows = {2: [1.0, -1.0], 3: [1.0, 1.0, -2.0]}[sizes[0]]
    columns = {2: [1.0, -1.0], 3: [1.0, 2.0, -3.0], 6: [1.0, 2.0, 4.0, -1.0, -2.5, -3.5]}[sizes[1]]
    points = np.array([[100.0 * one, rows[one] * columns[other]] for one, other in zip(first, second, strict=True)])
    found = first_over_second(distances(points), first, second)
    assert (found.least, found.p) == pytest.approx((least, least))
    swapped = first_over_second(distances(points), second, first)
    assert swapped.difference == pytest.approx(-found.difference)
    assert swapped.p > 0.8


@pytest.mark.parametrize("level, expected", [(0.1, 0.1), (0.05, 0.05)])
def test_p_is_exact_where_neither_factor_does_anything(level: float, expected: float) -> None:
    """1,000 draws of 6 cells: seeds of a cell share its draw, so a test over seeds would reject far more often."""
    draw = np.random.default_rng(1)
    first, second = design(3, 2)
    found = [first_over_second(distances(draw.normal(size=(6, 3))), first, second).p for _ in range(1000)]
    assert abs(np.mean(np.array(found) <= level + 1e-9) - expected) < 3 * np.sqrt(expected * (1 - expected) / 1000)


@pytest.mark.parametrize("spread", [(1.0, 0.3, 0.3), (1.0, 1.0, 0.5), (0.7, 0.7, 0.7)])
def test_an_interval_over_levels_covers_the_difference_of_all_levels(spread: tuple[float, float, float]) -> None:
    """Three objectives, six data sets of all: the truth is of 4,000. A negative control: shorter intervals."""
    draw, (first, second) = np.random.default_rng(2), design(3, 6)
    objectives = draw.normal(size=(3, 1, 10))

    def points(conditions: int) -> NDArray[np.float64]:
        of_data, own = draw.normal(size=(1, conditions, 10)), draw.normal(size=(3, conditions, 10))
        return spread[0] * (objectives - objectives.mean(0)) + spread[1] * of_data + spread[2] * own

    many = points(4000)
    centred = many - many.mean((0, 1))
    of_objective, of_data = (np.square(centred.mean(axis)).mean(0).sum() for axis in (1, 0))
    truth = (of_objective - of_data) / np.square(centred).mean((0, 1)).sum()
    runs = 300
    tests = [
        paired_t(by_condition(distances(points(6).reshape(18, 10)), first, second), confidence=0.95)
        for _ in range(runs)
    ]
    inside = np.mean([test.interval is not None and test.interval.low <= truth <= test.interval.high for test in tests])
    assert 0.9 <= inside <= 0.99
    shorter = np.mean([abs(test.mean - truth) < 0.8 * (test.sd or 0) / 6**0.5 for test in tests])
    assert shorter < 0.8


def test_the_interval_excludes_nought_as_often_as_it_says_where_both_factors_explain_the_same() -> None:
    draw, (first, second), runs = np.random.default_rng(3), design(3, 6), 600
    objectives = draw.normal(size=(3, 1, 10))
    objectives -= objectives.mean(0)
    of_data = np.square(objectives).mean(0).sum() / 10 - 0.7**2 / 3  # variance per dimension, beside that of cells
    outside = 0
    for _ in range(runs):
        points = objectives + np.sqrt(of_data) * draw.normal(size=(1, 6, 10)) + 0.7 * draw.normal(size=(3, 6, 10))
        interval = paired_t(by_condition(distances(points.reshape(18, 10)), first, second), confidence=0.95).interval
        outside += interval is not None and not interval.holds(0)
    assert abs(outside / runs - 0.05) < 3 * np.sqrt(0.05 * 0.95 / runs)


def test_without_differences_between_data_every_value_is_the_share_of_the_objective() -> None:
    first, second = design(2, 4)
    values = by_condition(distances(np.array(first, dtype=float)[:, None]), first, second)
    assert values == pytest.approx([1.0] * 4)


@pytest.mark.parametrize("sizes", [(2, 3), (2, 6)], ids=["all orders", "drawn orders"])
def test_cells_that_do_not_differ_or_have_no_number_give_no_test(sizes: tuple[int, int]) -> None:
    first, second = design(*sizes)
    for value in (0.0, np.nan):
        found = first_over_second(np.full((len(first), len(first)), value), first, second)
        assert np.isnan([found.difference, found.p, found.least]).all()
        assert judge_cells(found, p_holm=found.p, low=0.1, confidence=0.95).word != "holds"


def test_a_design_with_a_missing_or_double_cell_is_refused() -> None:
    points = distances(np.random.default_rng(0).normal(size=(4, 2)))
    with pytest.raises(ValueError, match="not all pairs of 2 and 2 levels"):
        first_over_second(points, [0, 0, 0, 1], [0, 1, 1, 0])
    with pytest.raises(ValueError, match="3 cells are not all pairs"):
        first_over_second(points[:3, :3], [0, 0, 1], [0, 1, 0])


@pytest.mark.parametrize(
    "conditions, p, low, word",
    [
        (2, 0.001, None, "no verdict"),
        (5, 0.001, 0.1, "no verdict"),
        (6, 0.04, 0.1, "holds"),
        (6, 0.06, 0.1, "under-powered"),
        (6, 0.04, -0.1, "under-powered"),
        (6, 0.04, None, "under-powered"),
        (6, np.nan, 0.1, "under-powered"),
    ],
)
def test_few_data_conditions_decide_nothing_and_six_by_p_and_interval(
    conditions: int, p: float, low: float | None, word: str
) -> None:
    verdict = judge_cells(Permuted(0.7, 0.01, 1 / 60, conditions), p_holm=p, low=low, confidence=0.95)
    few = verdict.reason.endswith("at least 6 are needed; the least possible p is 0.017")
    assert (verdict.word, few) == (word, conditions < 6)
