"""Changes of course that are planted, and trends and noise in which there are none."""

import numpy as np
import pytest

from isoscope.errors import InputError
from isoscope.geometry import change_points
from isoscope.geometry.change_points import SHORTEST, segment

T = 25


def noise(seed: list[int], count: int, phi: float, points: int = T) -> np.ndarray:
    """Stationary AR(1) noise of sd 1."""
    shock = np.random.default_rng(seed).standard_normal((points, count))
    for t in range(1, points):
        shock[t] = phi * shock[t - 1] + np.sqrt(1 - phi**2) * shock[t]
    return shock


def steps(points: int, *at: int, size: float = 1.0) -> np.ndarray:
    """0, then up at the first place, down at the second, and so on."""
    index = np.arange(points)
    return size * sum((-1.0) ** number * (index >= place) for number, place in enumerate(at))[:, None]


@pytest.mark.parametrize("count, alike, phi", [(1, 0.0, 0.5), (1, 0.0, 0.8), (3, 0.0, 0.8), (3, 0.9, 0.8)])
def test_trends_and_noise_have_no_boundaries(count: int, alike: float, phi: float) -> None:
    """At 5 % of 60 series 3 are expected, and 9 have probability .003; measured over hundreds it is 3.3 % and less."""
    mixed = np.linalg.cholesky((1 - alike) * np.eye(count) + alike).T
    false = 0
    for one in range(60):
        slope = 0.5 * np.random.default_rng(one).standard_normal(count)
        values = noise([count, int(10 * phi), one], count, phi) @ mixed + np.arange(T)[:, None] * slope
        false += bool(segment(values, draws=59, seed=one).boundaries)
    assert false < 9


def test_against_white_noise_wanderings_would_pass_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The negative control of the test above: it can fail."""
    monkeypatch.setattr(change_points, "STRONGEST", 0.0)
    monkeypatch.setattr(change_points, "PHIS", (0.0,))
    found = [segment(noise([1, 8, one], 1, 0.8), draws=59, seed=one, most=1).boundaries for one in range(20)]
    assert sum(map(bool, found)) > 10


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.8])
@pytest.mark.parametrize("count, size", [(1, 8.0), (3, 5.0)])
def test_a_shift_of_the_stated_size_is_found_where_it_is(count: int, size: float, phi: float) -> None:
    """At 95 % found and 5 % followed by a false one, 2 of 40 are expected, and 7 have probability .003."""
    missed = extra = 0
    for one in range(40):
        values = noise([2, count, int(10 * phi), one], count, phi) + steps(T, 12, size=size)
        found = segment(values, draws=59, seed=one).boundaries
        missed += not any(abs(place - 12) <= 1 for place in found)
        extra += len(found) > 1
    assert missed < 7
    assert extra < 7


def test_a_shift_of_a_third_of_that_size_is_mostly_not_found() -> None:
    found = [segment(noise([3, one], 1, 0.5) + steps(T, 12, size=2.5), draws=59, seed=one) for one in range(10)]
    assert sum(bool(one.boundaries) for one in found) < 5


def test_the_criterion_is_the_likelihood_of_straight_lines_with_ar1_noise() -> None:
    """Against the covariances written out, over all places of a boundary: T·m ln RSS + m ln det, the least over φ."""
    values = noise([11], 2, 0.5, 9)
    off = np.eye(9) - np.vander(np.arange(9.0), 2) @ np.linalg.pinv(np.vander(np.arange(9.0), 2))
    values = values / (off @ values).std(0)
    expected: dict[tuple[int, ...], float] = {}
    for where in [(), *((place,) for place in range(SHORTEST, 10 - SHORTEST))]:
        for phi in change_points.PHIS:
            squares = logarithm = 0.0
            for rows in np.split(np.arange(9.0), where):
                covariance = phi ** np.abs(rows[:, None] - rows) / (1 - phi**2)
                inverse, lines = np.linalg.inv(covariance), np.vander(rows, 2)
                part = values[rows.astype(int)]
                weights = np.linalg.solve(lines.T @ inverse @ lines, lines.T @ inverse @ part)
                rest = part - lines @ weights
                squares += float((rest * (inverse @ rest)).sum())
                logarithm += float(np.linalg.slogdet(covariance)[1])
            expected[where] = min(expected.get(where, np.inf), 18 * np.log(squares) + 2 * logarithm)
    best = min((where for where in expected if where), key=expected.__getitem__)
    found, places = change_points._criteria(values[None], 1)
    assert found[:, 0] == pytest.approx([expected[()], expected[best]], rel=1e-9)
    assert places == [(), best]


@pytest.mark.parametrize("at", [(), (12,), (8, 16), (6, 12, 18), (5, 10, 15, 20)], ids=str)
@pytest.mark.parametrize("count", [1, 3])
def test_clear_steps_are_found_all_and_exactly(at: tuple[int, ...], count: int) -> None:
    values = 0.01 * noise([4, count], count, 0.3) + (steps(T, *at) if at else 0) + 0.2 * np.arange(T)[:, None]
    found = segment(values)
    assert found.boundaries == at
    assert len(found.p) == min(len(at) + 1, 4)
    assert all(p <= 0.05 for p in found.p[: len(at)])
    assert len(at) == 4 or found.p[-1] > 0.05


def test_a_bend_is_a_change_and_a_straight_line_is_none() -> None:
    time = np.arange(30.0)
    bend = 3 * time + 5 * np.clip(time - 14, 0, None)
    assert segment(bend + 0.5 * noise([5], 1, 0.0, 30)[:, 0]).boundaries in ((14,), (15,), (16,))
    assert segment(3 * time + 0.5 * noise([5], 1, 0.0, 30)[:, 0]).boundaries == ()


def test_series_in_step_are_found_where_one_alone_is_not() -> None:
    values = noise([6], 4, 0.3) + steps(T, 12, size=4.5)
    alone = [segment(values[:, one]).boundaries for one in range(4)]
    assert alone.count(()) >= 2
    assert segment(values).boundaries == (12,)


def test_units_trends_and_signs_are_nothing() -> None:
    values = noise([7], 3, 0.3) + steps(T, 12, size=8.0)
    found = segment(values)
    assert found.boundaries == (12,)
    assert segment(values * [1e-6, 1e6, 3.0]) == found
    assert segment(values + [1e3, -7.0, 0.1] + np.arange(T)[:, None] * [2.0, -30.0, 0.1]) == found
    mirrored = segment(values * [1.0, -1.0, 1.0])
    assert mirrored.boundaries == found.boundaries
    assert mirrored.p == pytest.approx(found.p, abs=0.05)  # other draws


def test_time_may_run_backwards() -> None:
    values = noise([7], 3, 0.3) + steps(T, 9, 15, size=12.0)
    assert segment(values).boundaries == (9, 15)
    assert segment(values[::-1]).boundaries == (T - 15, T - 9)


def test_series_that_keep_to_a_line_count_for_nothing() -> None:
    values = noise([8], 1, 0.0) + steps(T, 12, size=9.0)
    straight = np.stack([np.full(T, 0.1), np.zeros(T), 1e6 + 0.1 * np.arange(T)], 1)
    assert segment(np.concatenate([values, straight], 1)) == segment(values)
    assert segment(straight) == ((), (1.0,))
    assert segment(straight[:, 0]) == ((), (1.0,))


def test_steps_without_noise_are_found_once() -> None:
    """What they leave is 0, and no further boundary lowers that."""
    found = segment(steps(12, 6))
    assert found.boundaries == (6,)
    assert found.p[1] == 1.0


def test_the_same_seed_gives_the_same_p_and_fewer_boundaries_may_be_asked_for() -> None:
    values = 0.01 * noise([9], 1, 0.0) + steps(T, 8, 16)
    assert segment(values, seed=3) == segment(values, seed=3)
    assert len(segment(values, most=1).boundaries) == 1
    assert segment(values, most=0) == ((), ())
    short = segment(0.01 * noise([9], 1, 0.0, 8) + steps(8, 4), most=4)
    assert short.boundaries in ((), (4,))
    assert len(short.p) == 1  # eight points have room for two segments
    level = segment(noise([10], 1, 0.0), level=1.0, most=2)
    assert len(level.boundaries) == 2
    assert min(np.diff([0, *level.boundaries, T])) >= SHORTEST


@pytest.mark.parametrize(
    "series",
    [np.zeros(5), np.zeros((5, 2)), np.zeros((6, 2, 2)), np.full((10, 2), np.nan), [1.0, 2, 3, 4, 5, float("inf")]],
    ids=["short", "short series", "deep", "NaN", "infinite"],
)
def test_what_is_no_series_is_refused_in_one_line(series: np.ndarray) -> None:
    with pytest.raises(
        InputError, match=r"series: expected \[points, series\] without NaN, 6 points or more"
    ) as caught:
        segment(series)
    assert "\n" not in str(caught.value)
    assert segment(np.arange(6.0) ** 2).boundaries in ((), (3,))
