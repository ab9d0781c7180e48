"""Allocation on losses with a closed form, in float64: closure, order of the error, invariants, the null."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from isoscope.studies.dynamics.hurting import hurting
from isoscope.training.allocation import ENDS_SUFFICE, Integral, bound, integrate, interval_ends, over_folds

Array = np.ndarray
Function = Callable[[Array], Array]

START, END = np.array([1.0, 1.0, 1.0]), np.array([0.5, -1.0, 0.0])
H = np.array([[3.0, 1.0, 0.5], [1.0, 2.0, -0.3], [0.5, -0.3, 4.0]])
QUADRATIC = (lambda x: 0.5 * x @ H @ x, lambda x: H @ x)
QUARTIC = (lambda x: (x**4 - 2 * x**3 + x).sum(), lambda x: 4 * x**3 - 6 * x**2 + 1)
EXPONENTIAL = (lambda x: np.exp(2 * x).sum(), lambda x: 2 * np.exp(2 * x))


def allocate(gradient: Function, start: Array, end: Array, rule: str, **options: object) -> Integral:
    change = end - start
    return integrate(lambda s: (gradient(start + s * change) * change,), rule, **options)  # type: ignore[arg-type]


def parts(gradient: Function, rule: str, splits: int) -> float:
    """The sum of a rule with exactly so many parts: a tolerance that is never met, and a limit."""
    found = allocate(gradient, START, END, rule, change=lambda: 0.0, tolerance=0.0, most_splits=splits)
    assert found.splits == splits
    return float(found.values[0].sum())


@pytest.mark.parametrize(
    "rule, loss, gradient, missed",
    [
        ("trapezoid", *QUADRATIC, 0.0),
        ("simpson", *QUADRATIC, 0.0),
        ("simpson", *QUARTIC, 0.0),
        ("first_order", *QUADRATIC, -0.5 * (END - START) @ H @ (END - START)),  # half the curvature
    ],
    ids=["trapezoid, quadratic", "simpson, quadratic", "simpson, quartic", "first order"],
)
def test_the_parts_sum_to_the_change_of_the_loss(rule: str, loss: Any, gradient: Function, missed: float) -> None:
    (found,) = allocate(gradient, START, END, rule).values
    change = loss(END) - loss(START)
    assert found.sum() - change == pytest.approx(missed, rel=0, abs=1e-14 * abs(missed or change))


def test_a_rule_beyond_its_degree_does_not_close() -> None:
    """The negative controls: the trapezoid on a quartic, Simpson on an exponential."""
    for rule, (loss, gradient) in (("trapezoid", QUARTIC), ("simpson", EXPONENTIAL)):
        (found,) = allocate(gradient, START, END, rule).values
        assert abs(found.sum() - (loss(END) - loss(START))) > 1e-3


def test_a_separable_quadratic_has_known_values() -> None:
    h = np.array([1.0, 4.0, 9.0])
    for rule in ("trapezoid", "simpson"):
        (found,) = allocate(lambda x: h * x, START, END, rule).values
        np.testing.assert_allclose(found, [-0.375, 0.0, -4.5], atol=1e-15)


@pytest.mark.parametrize("rule, order", [("simpson", 16.0), ("trapezoid", 4.0)])
def test_the_error_falls_by_its_order_when_parts_are_halved(rule: str, order: float) -> None:
    loss, gradient = EXPONENTIAL
    true = float(loss(END) - loss(START))
    errors = [abs(parts(gradient, rule, splits) - true) for splits in (8, 16, 32)]
    for coarse, fine in pairwise(errors):
        assert coarse / fine == pytest.approx(order, abs=order / 16)


def test_composite_rules_are_numpys_and_scipys() -> None:
    from scipy.integrate import simpson

    _, gradient = EXPONENTIAL
    for splits in (2, 4, 8):
        nodes = np.linspace(0, 1, splits + 1)
        values = np.array([(gradient(START + s * (END - START)) * (END - START)).sum() for s in nodes])
        assert parts(gradient, "simpson", splits) == pytest.approx(simpson(values, x=nodes), rel=1e-13)
        assert parts(gradient, "trapezoid", splits) == pytest.approx(np.trapezoid(values, nodes), rel=1e-13)


def test_parts_are_halved_until_the_sum_closes_and_no_node_is_evaluated_twice() -> None:
    loss, gradient = EXPONENTIAL
    true, nodes = float(loss(END) - loss(START)), []

    def at(s: float) -> tuple[Array]:
        nodes.append(s)
        return (gradient(START + s * (END - START)) * (END - START),)

    found = integrate(at, "simpson", change=lambda: true, tolerance=1e-4, most_splits=64)
    assert abs(found.values[0].sum() - true) <= 1e-4
    assert abs(parts(gradient, "simpson", found.splits // 2) - true) > 1e-4
    assert sorted(nodes) == sorted(set(nodes)) == [k / found.splits for k in range(found.splits + 1)]


def test_simpson_takes_both_ends_alone_where_they_close_by_far() -> None:
    loss, gradient = QUARTIC
    true = float(loss(END) - loss(START))
    (trapezoid,) = allocate(gradient, START, END, "trapezoid").values
    missed, nodes = abs(float(trapezoid.sum()) - true), []

    def at(s: float) -> tuple[Array]:
        nodes.append(s)
        return (gradient(START + s * (END - START)) * (END - START),)

    def simpson(tolerance: float | None, **options: Any) -> Integral:
        nodes.clear()
        return integrate(at, "simpson", change=lambda: true, tolerance=tolerance, **options)

    enough = missed / ENDS_SUFFICE * (1 + 1e-9)
    found = simpson(enough)
    assert (found.splits, nodes) == (1, [0.0, 1.0])
    np.testing.assert_array_equal(found.values[0], trapezoid)
    for more in (simpson(enough * 0.99), simpson(enough, allowed=0.9 * missed), simpson(None)):
        assert (more.splits, nodes) == (2, [0.0, 1.0, 0.5])
        assert more.values[0].sum() == pytest.approx(true, rel=1e-13)


def test_small_gaps_of_equal_sign_do_not_add_up() -> None:
    """Forty lines down a convex loss: each closes alone, their sum only if each has its share of a bound."""
    loss, gradient = EXPONENTIAL
    ends, tolerance = np.linspace(4 * START, 4 * END, 41), 1e-3

    def missed(bound: float) -> float:
        total = 0.0
        for number, (start, end) in enumerate(pairwise(ends), 1):
            change = partial(lambda start, end: float(loss(end) - loss(start)), start, end)
            options = {"tolerance": tolerance, "carried": total, "allowed": bound * number / 40, "most_splits": 2**12}
            found = allocate(gradient, start, end, "trapezoid", change=change, **options)
            gap = float(found.values[0].sum()) - change()
            assert abs(gap) <= tolerance
            total += gap
        return total

    assert abs(missed(tolerance)) <= tolerance
    assert abs(missed(np.inf)) > 5 * tolerance  # the control


def test_a_sum_that_misses_already_asks_a_line_for_no_more_than_its_own_gap() -> None:
    loss, gradient = QUARTIC
    options = {"change": lambda: float(loss(END) - loss(START)), "tolerance": 1e-6, "allowed": 1e-3}
    assert allocate(gradient, START, END, "simpson", carried=1.0, **options).splits == 2


def test_invariants() -> None:
    _, gradient = QUARTIC
    there, back = (allocate(gradient, *ends, "simpson").values[0] for ends in ((START, END), (END, START)))
    np.testing.assert_allclose(there, -back, rtol=1e-13)
    still = END.copy()
    still[1] = START[1]
    assert allocate(gradient, START, still, "simpson").values[0][1] == 0.0
    assert not allocate(gradient, START, START, "simpson").values[0].any()
    assert not allocate(lambda x: x * [0.0, 1.0, 1.0], START, END, "simpson").values[0][0]


def test_intervals_are_dense_and_then_log_spaced() -> None:
    ends = interval_ends(10_000, dense=16, chords=100)
    assert (ends[:16].tolist(), ends[-1], len(ends)) == (list(range(1, 17)), 10_000, 116)
    assert (ends[40:] / ends[39:-1]).max() < 1.09
    assert interval_ends(5, dense=16, chords=100).tolist() == [1, 2, 3, 4, 5]
    assert interval_ends(100, dense=0, chords=1).tolist() == [100]
    assert interval_ends(20, dense=16, chords=100).tolist() == list(range(1, 21))
    assert interval_ends(40, dense=3, chords=0).tolist() == [1, 2, 3]


def test_a_chord_is_not_the_sum_of_what_is_inside_it() -> None:
    """By parameter; the sums over parameters are both the change of the loss."""
    corner = np.array([0.5, 1.0, 0.2])
    _, gradient = QUADRATIC
    chord = allocate(gradient, START, END, "simpson").values[0]
    inside = sum(allocate(gradient, *ends, "simpson").values[0] for ends in ((START, corner), (corner, END)))
    assert chord.sum() == pytest.approx(inside.sum(), rel=1e-13)
    assert np.abs(chord - inside).max() > 0.1


def test_folds_of_unequal_weight_average_to_the_set() -> None:
    draw = np.random.default_rng(0)
    sums, weights = draw.standard_normal((8, 5)), draw.integers(1, 30, 8).astype(float)
    found = over_folds(sums, weights)
    np.testing.assert_allclose(found.value, sums.sum(0) / weights.sum(), rtol=1e-13)
    np.testing.assert_allclose(found.folds.mean(0), found.value, rtol=1e-12)
    error = np.sqrt(8 / 7 * ((sums - weights[:, None] * found.value) ** 2).sum(0)) / weights.sum()
    np.testing.assert_allclose(found.folds.std(0, ddof=1) / np.sqrt(8), error, rtol=1e-12)
    equal = over_folds(sums, np.full(8, 4.0))
    np.testing.assert_allclose(equal.folds, sums / 4, rtol=1e-12)


def test_the_bound_is_absolute_for_small_allocations_and_relative_for_large() -> None:
    assert bound(np.array([0.1, -0.1])) == 0.005
    assert bound(np.array([1.0, -2.0])) == pytest.approx(0.03)


def test_under_the_null_two_and_a_half_per_cent_hurt_surely() -> None:
    """A linear loss whose folds have known noise, and updates orthogonal to its true gradient in every group."""
    draw, groups, size = np.random.default_rng(5), 20_000, 4
    true = draw.standard_normal((groups, size))
    change = draw.standard_normal((groups, size))
    change -= true * (change * true).sum(1, keepdims=True) / (true**2).sum(1, keepdims=True)
    of_folds = true + 0.7 * draw.standard_normal((8, groups, size))
    (sums,) = integrate(lambda s: ((of_folds * change).sum(-1),), "simpson").values
    found = hurting(over_folds(sums, np.ones(8)).folds)
    assert 0.015 <= found.surely / groups <= 0.035
    assert found.surely_by_noise == pytest.approx(found.surely, rel=0.1)
    assert found.hurts == pytest.approx(groups / 2, rel=0.05)
    assert found.hurts_by_noise == pytest.approx(groups / 2, rel=1e-6)
