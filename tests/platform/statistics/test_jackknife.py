"""Jackknives over groups and over pairs of runs: closed forms, and coverage."""

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from isoscope.platform.statistics.delete_a_group import delete_a_group, grouped_mean, over_pairs, seed_values
from isoscope.platform.statistics.paired import Interval, paired_t


def test_of_a_mean_it_is_the_t_interval_over_the_groups_means() -> None:
    values = np.random.default_rng(0).standard_normal((20, 50)).mean(1)
    without = (values.sum() - values) / 19
    found = delete_a_group(values.mean(), without, confidence=0.95)
    peer = stats.t.interval(0.95, 19, values.mean(), stats.sem(values))
    assert found == pytest.approx(peer)
    for estimate, others in ((float("nan"), [0.0, 1.0]), (0.0, [0.0, float("nan")]), (0.0, [0.0])):
        assert delete_a_group(estimate, others, confidence=0.95) is None, "not all are finite, or too few"


def test_the_sample_of_a_mean_is_its_sentences_and_not_their_values() -> None:
    """A sentence is one value repeated ten times: the interval is the t interval of 40 values, not of 400."""
    own = np.random.default_rng(0).standard_normal(40)
    repeated = np.repeat(own, 10), np.repeat(np.arange(40), 10)
    assert grouped_mean(*repeated, confidence=0.95) == pytest.approx(
        paired_t(own.tolist(), confidence=0.95).interval, rel=1e-9
    )
    assert grouped_mean(np.arange(90.0), np.arange(90) % 9, confidence=0.95) is None
    assert grouped_mean(np.arange(90.0), np.arange(90) % 10, confidence=0.95) is not None


@pytest.mark.parametrize("groups, longest", [(10, 14), (10, 30), (20, 14)])
def test_the_mean_over_sentences_covers_its_level_from_the_fewest_sentences_on(groups: int, longest: int) -> None:
    """2,500 draws of sentences of unequal length: the standard error of a coverage of 95 % is .4 %."""
    draw, held = np.random.default_rng(1), 0
    for _ in range(2500):
        of = np.repeat(np.arange(groups), draw.integers(3, longest + 1, groups))
        values = draw.standard_normal(groups)[of] + 0.5 * draw.standard_normal(len(of))
        found = grouped_mean(values, of, confidence=0.95)
        held += found.holds(0.0)
    assert 0.94 - 0.008 < held / 2500 < 0.96 + 0.008


Pairs = list[tuple[int, int]]


def following(seeds: int) -> Pairs:
    """Each seed with the next."""
    return [(seed, (seed + 1) % seeds) for seed in range(seeds)]


def drawn(pairs: Pairs, own: float, models: int, draw: np.random.Generator) -> list[float]:
    """Similarities of pairs: an effect of each run, and one of each pair. With one model, both ends are its runs."""
    one = draw.standard_normal(9)
    other = one if models == 1 else draw.standard_normal(9)
    return [one[first] + other[second] + own * draw.standard_normal() for first, second in pairs]


def holds(interval: Interval | None) -> bool:
    return interval.holds(0.0)


@pytest.mark.parametrize("own", [0.0, 1.0], ids=["runs alone", "runs and pairs"])
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("design", ["one model", "two models"])
def test_it_covers_about_its_level_where_t_does_not(design: str, seeds: int, own: float) -> None:
    """1,500 draws: the standard error of a coverage of 95 % is 0.6 %."""
    draw = np.random.default_rng(4)
    pairs, models = (following(seeds), 1) if design == "one model" else (
        following(seeds) + [(after, seed) for seed, after in following(seeds)], 2,
    )  # fmt: skip
    values = [drawn(pairs, own, models, draw) for _ in range(1500)]
    jackknife = np.mean([holds(over_pairs(one, pairs, confidence=0.95)) for one in values])
    over_t = np.mean([holds(paired_t(one, confidence=0.95).interval) for one in values])
    assert 0.92 < jackknife < 0.985
    assert over_t < 0.9


def test_with_all_pairs_of_five_seeds_t_covers_two_thirds() -> None:
    draw = np.random.default_rng(5)
    pairs = [(one, other) for one in range(5) for other in range(one)]
    values = [drawn(pairs, 0.0, 1, draw) for _ in range(600)]
    assert np.mean([holds(over_pairs(one, pairs, confidence=0.95)) for one in values]) > 0.92
    assert np.mean([holds(paired_t(one, confidence=0.95).interval) for one in values]) < 0.7


def test_pairs_of_a_seed_with_itself_give_the_t_interval() -> None:
    values = [0.3, 0.5, 0.4, 0.9]
    found = over_pairs(values, [(seed, seed) for seed in range(4)], confidence=0.9)
    assert found == pytest.approx(paired_t(values, confidence=0.9).interval)


def test_what_has_no_interval() -> None:
    assert over_pairs([0.3, 0.4], [(0, 1), (1, 0)], confidence=0.95) is None
    assert over_pairs([0.3, 0.4], [(0, 1), (0, 2)], confidence=0.95) is None  # seed 0 is in every pair
    assert over_pairs([0.3] * 3, following(3), confidence=0.95) is None
    assert over_pairs([0.3, np.nan, 0.4], following(3), confidence=0.95) is None


@pytest.mark.parametrize("seeds", [3, 6])
@pytest.mark.parametrize("shared", [True, False])
def test_values_of_seeds_cover_where_pairs_in_a_ring_share_runs(seeds: int, shared: bool) -> None:
    """The t interval of the pairs themselves is the negative control: it covers too little if runs move their pairs."""
    ring = [(seed, (seed + 1) % seeds) for seed in range(seeds)]
    own = np.random.default_rng(0).standard_normal((seeds, 4000))
    pairs = own + np.roll(own, -1, axis=0) if shared else own
    jackknife = seed_values(pairs, ring)
    assert jackknife.mean(0) == pytest.approx(pairs.mean(0))
    covered, plain = (covers(values) for values in (jackknife, pairs))
    assert 0.94 <= covered <= (0.965 if shared else 0.995)
    assert plain < 0.86 if shared else 0.94 <= plain <= 0.96


def covers(values: npt.NDArray[np.float64]) -> float:
    """The share of columns whose 95 % t interval contains the true mean 0."""
    half = stats.t.ppf(0.975, len(values) - 1) * values.std(0, ddof=1) / len(values) ** 0.5
    return float((np.abs(values.mean(0)) <= half).mean())


def test_values_stay_if_a_seed_is_in_every_pair() -> None:
    values = np.array([[0.1], [0.2]])
    assert seed_values(values, [(0, 1), (1, 0)]) is values
