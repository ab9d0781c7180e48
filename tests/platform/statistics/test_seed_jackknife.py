"""The interval of a mean over pairs of runs: closed forms, and its coverage beside that of a t interval."""

import numpy as np
import pytest

from isoscope.platform.statistics.paired import Interval, paired_t
from isoscope.platform.statistics.seed_jackknife import over_pairs

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
