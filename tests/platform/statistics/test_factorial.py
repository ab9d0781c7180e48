"""Effects of a 2 × 2 design against an analysis of variance, a planted design, and what leaves an effect alone."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from isoscope.platform.statistics.factorial import Levels, effects

ALL: list[Levels] = [(False, False), (True, False), (False, True), (True, True)]
OPTIONS = {"confidence": 0.95, "power": 0.8, "margin": 0.01}


def planted(
    first: float, second: float, interaction: float, *, seeds: int = 6, noise: float = 0.01
) -> dict[Levels, NDArray[np.float64]]:
    """Scores of seeds that share a level of their own, with effects in the units of `effects`."""
    draw = np.random.default_rng(0)
    base = 0.6 + draw.normal(scale=0.05, size=seeds)
    return {
        (a, b): base
        + first * (a - 0.5)
        + second * (b - 0.5)
        + interaction * (a - 0.5) * (b - 0.5)
        + draw.normal(scale=noise, size=seeds)
        for a, b in ALL
    }


def test_planted_effects_are_found_exactly_without_noise() -> None:
    found = {one.name: one.paired.mean for one in effects(planted(0.2, -0.1, 0.06, noise=0.0), None, **OPTIONS)}
    assert found == pytest.approx({"first": 0.2, "second": -0.1, "interaction": 0.06})


def test_f_of_a_repeated_measures_analysis_is_the_square_of_t() -> None:
    """Each effect has one degree of freedom: F = MS_effect / MS_(effect × seed), computed here from sums of squares."""
    scores = planted(0.02, 0.01, 0.01)
    cube = np.stack([[scores[a, b] for b in (False, True)] for a in (False, True)])  # first, second, seed
    n = cube.shape[-1]

    def f(axis: int) -> float:
        means = cube.mean(1 - axis)  # level, seed
        grand = means.mean()
        effect = 2 * n * ((means.mean(1) - grand) ** 2).sum()
        error = 2 * ((means - means.mean(1, keepdims=True) - means.mean(0) + grand) ** 2).sum() / (n - 1)
        return float(effect / error)

    both = cube[1, 1] - cube[1, 0] - cube[0, 1] + cube[0, 0]
    crossed = n * both.mean() ** 2 / both.var(ddof=1)
    found = effects(scores, None, **OPTIONS)
    for one, expected in zip(found, (f(0), f(1), crossed), strict=True):
        t = stats.t.isf(one.paired.p / 2, n - 1)
        assert t**2 == pytest.approx(expected)


def test_an_effect_is_blind_to_the_others_and_to_seeds() -> None:
    one, other = (effects(scores, None, **OPTIONS) for scores in (planted(0.1, 0.0, 0.0), planted(0.1, 0.3, -0.2)))
    assert one[0].paired.mean == pytest.approx(other[0].paired.mean)
    assert one[0].paired.p == pytest.approx(other[0].paired.p)
    assert one[1].paired.mean != pytest.approx(other[1].paired.mean, abs=0.1)
    shifted = {at: scores + np.arange(6) for at, scores in planted(0.1, 0.0, 0.0).items()}
    assert effects(shifted, None, **OPTIONS)[0].paired.mean == pytest.approx(one[0].paired.mean)


def test_p_is_corrected_over_three_and_the_verdict_follows() -> None:
    scores = planted(0.2, 0.0, 0.0)
    shares = {at: np.repeat(values[:, None], 40, axis=1) for at, values in scores.items()}
    first, second, interaction = effects(scores, shares, **OPTIONS)
    assert first.p_holm == pytest.approx(3 * first.paired.p)
    assert first.p_holm < 0.001
    assert first.verdict.word == "holds"
    assert second.verdict.word != "holds" != interaction.verdict.word


def test_items_widen_the_interval_and_few_seeds_have_none() -> None:
    draw = np.random.default_rng(1)
    shares = {at: draw.normal(scale=2.0, size=(6, 50)) + 0.2 * at[0] for at in ALL}
    scores = {at: values.mean(1) for at, values in shares.items()}
    first, *_ = effects(scores, shares, **OPTIONS)
    assert first.two_way.low <= first.paired.interval.low
    assert first.two_way.high >= first.paired.interval.high
    for one in effects({at: values[:2] for at, values in scores.items()}, None, **OPTIONS):
        assert one.paired.interval is None
        assert one.p_holm is None
        assert one.verdict.word == "under-powered"


@pytest.mark.parametrize(
    "low, none",
    [
        ([(False, False), (True, False)], ["first", "interaction"]),
        ([(False, False), (False, True)], ["second", "interaction"]),
        ([(False, False)], []),
        (ALL, ["first", "second", "interaction"]),
    ],
    ids=["first at chance without the second", "second at chance without the first", "one cell", "all"],
)
def test_an_effect_that_subtracts_two_at_chance_has_no_verdict(low: list[Levels], none: list[str]) -> None:
    scores = planted(0.2, 0.2, 0.1)
    shares = {at: np.repeat(values[:, None], 40, axis=1) for at, values in scores.items()}
    above = {at: 0.0 if at in low else 0.3 for at in ALL}
    found = effects(scores, shares, **OPTIONS, above=above)
    assert [one.name for one in found if one.verdict.word == "no verdict"] == none
    assert {one.verdict.word for one in effects(scores, shares, **OPTIONS)} == {"holds"}
