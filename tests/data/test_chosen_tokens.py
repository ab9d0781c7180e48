"""Laws of the choice of tokens: a pure function of (seed, epoch, example), with the shares that are asked for."""

import numpy as np
import pytest

from isoscope.data.chosen_tokens import Noise, TokenDraws, choose, numbers_of_chosen

LENGTHS = np.random.default_rng(0).integers(3, 40, 3000)
ROWS = np.arange(len(LENGTHS))


def inner(rows: np.ndarray) -> np.ndarray:
    """Every token but the first and the last."""
    within = np.arange(LENGTHS[rows].max())
    return (within > 0) & (within < LENGTHS[rows][:, None] - 1)


def test_numbers_depend_on_the_example_alone_not_on_its_batch() -> None:
    draws = TokenDraws(LENGTHS, seed=3)
    batch = draws.of(ROWS[:50], 2)
    for row in (0, 7, 49):
        alone = TokenDraws(LENGTHS, seed=3).of(np.array([row]), 2)
        assert (alone[0] == batch[row, : LENGTHS[row]]).all()
    assert (draws.of(ROWS[:50], 3) != batch).any()  # after another epoch, the first again
    assert (draws.of(ROWS[:50], 2) == batch).all()
    assert (TokenDraws(LENGTHS, seed=4).of(ROWS[:50], 2) != batch).any()


def test_evaluation_is_the_same_for_every_seed() -> None:
    one, other = (TokenDraws(LENGTHS, seed=seed).of(ROWS, None) for seed in (0, 9))
    assert (one == other).all()


@pytest.mark.parametrize("share", [0.15, 0.5, 1.0])
def test_the_share_is_met_and_no_example_is_left_out(share: float) -> None:
    draws = TokenDraws(LENGTHS, seed=0).of(ROWS, 1)
    candidate = inner(ROWS)
    chosen = choose(draws, candidate, share=share)
    number = chosen.sum(1)
    assert (number == numbers_of_chosen(draws, candidate.sum(1), share=share)).all()
    assert not (chosen & ~candidate).any()
    assert number.min() >= 1
    exact = share * candidate.sum(1)
    assert (np.abs(number - np.maximum(exact, 1)) < 1).all()
    long = exact >= 1  # where the least number does not bind
    standard_error = 0.5 / np.sqrt(long.sum())
    assert abs((number - exact)[long].mean()) < 4 * standard_error


def test_every_candidate_is_chosen_equally_often() -> None:
    """Chi-square over the ten inner places of sentences of one length: 9 degrees of freedom, p = .001 at 27.9."""
    lengths = np.full(8000, 12)
    draws = TokenDraws(lengths, seed=1).of(np.arange(8000), 1)
    candidate = np.broadcast_to((np.arange(12) > 0) & (np.arange(12) < 11), (8000, 12))
    counts = choose(draws, candidate, share=0.15).sum(0)[1:11]
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 27.9


def test_noise_has_its_shares_and_touches_chosen_tokens_only() -> None:
    draws = TokenDraws(LENGTHS, seed=0).of(ROWS, 1)
    chosen = choose(draws, inner(ROWS), share=0.5)
    ids = np.full(draws.shape, 7)
    ordinary = np.arange(100, 200)
    put = Noise(4, ordinary, 0.8, 0.1).put(ids, chosen, draws)
    assert (put[~chosen] == 7).all()
    found = put[chosen]
    shares = [(found == 4).mean(), (found >= 100).mean(), (found == 7).mean()]
    assert np.allclose(shares, [0.8, 0.1, 0.1], atol=4 * np.sqrt(0.25 / len(found)))
    counts = np.bincount(found[found >= 100] - 100, minlength=100)
    assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 148.2  # chi-square, 99 degrees of freedom, p = .001


def test_an_example_without_candidates_has_none_chosen() -> None:
    draws = TokenDraws(np.array([2, 5]), seed=0).of(np.array([0, 1]), 1)
    within = np.arange(5)
    candidate = (within > 0) & (within < np.array([[1], [4]]))
    assert choose(draws, candidate, share=0.15).sum(1).tolist() == [0, 1]
