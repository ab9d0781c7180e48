"""One factor against another by the cells of a design: against sums of squares, all orders by hand, and simulation."""

from itertools import permutations, product

import numpy as np
import pytest
from numpy.typing import NDArray

from isoscope.platform.statistics.cell_permutation import Permuted, first_over_second, judge_cells


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


def test_a_design_with_a_missing_or_double_cell_is_refused() -> None:
    points = distances(np.random.default_rng(0).normal(size=(4, 2)))
    with pytest.raises(ValueError, match="not all pairs of 2 and 2 levels"):
        first_over_second(points, [0, 0, 0, 1], [0, 1, 1, 0])
    with pytest.raises(ValueError, match="3 cells are not all pairs"):
        first_over_second(points[:3, :3], [0, 0, 1], [0, 1, 0])


@pytest.mark.parametrize(
    "conditions, p, word",
    [(2, 0.001, "no verdict"), (5, 0.001, "no verdict"), (6, 0.04, "holds"), (6, 0.06, "under-powered")],
)
def test_few_data_conditions_decide_nothing_and_six_decide_by_p(conditions: int, p: float, word: str) -> None:
    verdict = judge_cells(Permuted(0.7, 0.01, 1 / 60, conditions), p_holm=p, confidence=0.95)
    few = verdict.reason.endswith("at least 6 are needed; the least possible p is 0.017")
    assert (verdict.word, few) == (word, conditions < 6)
