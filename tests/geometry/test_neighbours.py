"""Rates of neighbours against scikit-learn, by hand, and planted; chance where nothing is planted."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.neighbors import NearestNeighbors

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats
from isoscope.geometry.neighbours import neighbour_rate, neighbour_shares

N, D = 60, 8
SENTENCES = np.arange(N) // 4
WORDS = np.random.default_rng(0).integers(0, 6, N)


def noise(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((N, D))


@pytest.mark.parametrize("k", [1, 5, 56])
def test_neighbours_are_those_of_scikit_learn_in_other_sentences(k: int) -> None:
    points = noise()
    _, order = NearestNeighbors(n_neighbors=N, metric="cosine").fit(points).kneighbors(points)
    shares = []
    for row, near in enumerate(order):
        others = [one for one in near if SENTENCES[one] != SENTENCES[row]][:k]
        shares.append(np.mean(WORDS[others] == WORDS[row]))
    assert neighbour_rate(points, WORDS, SENTENCES, k=k).rate == pytest.approx(np.mean(shares))


def test_chance_is_the_share_of_all_pairs_of_two_sentences() -> None:
    pairs = [(a, b) for a in range(N) for b in range(N) if SENTENCES[a] != SENTENCES[b]]
    expected = np.mean([WORDS[a] == WORDS[b] for a, b in pairs])
    found = neighbour_rate(noise(), WORDS, SENTENCES, k=56)  # all there are
    assert found.chance == pytest.approx(expected)
    assert found.rate == pytest.approx(expected)


def test_chance_counts_points_as_the_rate_does_where_sentences_differ_in_length() -> None:
    """A sentence of 57 tokens and three of one each; all there are as neighbours: rate and chance are one, by point."""
    sentences, words = np.r_[np.zeros(57), 1, 2, 3].astype(int), np.r_[np.zeros(57), 0, 0, 1].astype(int)
    found = neighbour_shares(noise(), words, sentences, k=3)
    assert found.chance[:57] == pytest.approx(2 / 3)
    assert found.chance[57:] == pytest.approx([58 / 59, 58 / 59, 0.0])
    rate = neighbour_rate(noise(), words, sentences, k=3)
    assert rate.chance == pytest.approx((57 * 2 / 3 + 2 * 58 / 59) / 60)
    assert found.near[:57] == pytest.approx(2 / 3)


def test_planted_words_are_neighbours_and_other_attributes_stand_at_chance() -> None:
    """The mean of 400 clouds without a plan is chance within four standard errors."""
    planted = noise() + 20.0 * np.eye(D)[WORDS]
    assert neighbour_rate(planted, WORDS, SENTENCES).rate > 0.99
    rates = np.array([neighbour_rate(noise(seed), WORDS, SENTENCES).rate for seed in range(400)])
    chance = neighbour_rate(planted, WORDS, SENTENCES).chance
    assert rates.mean() == pytest.approx(chance, abs=4 * rates.std() / 20)
    other = np.random.default_rng(1).permutation(WORDS)
    found = neighbour_rate(planted, other, SENTENCES)
    assert found.rate == pytest.approx(found.chance, abs=0.1)


def test_copies_within_a_sentence_are_no_neighbours() -> None:
    """Four copies in each sentence, nearest of all, but of the same sentence."""
    copies = np.repeat(noise()[:15], 4, axis=0)
    assert neighbour_rate(copies, SENTENCES, SENTENCES).rate == 0.0
    assert neighbour_rate(copies, SENTENCES, np.arange(N), k=3).rate == 1.0


@pytest.mark.parametrize("sees", [False, True])
def test_only_directions_count(sees: bool) -> None:
    points = noise() + 2.0 * np.eye(D)[WORDS]
    before = neighbour_rate(points, WORDS, SENTENCES)
    if sees:
        assert neighbour_rate(points + 50.0 * np.eye(D)[0], WORDS, SENTENCES).rate < before.rate
    else:
        turned = points @ ortho_group.rvs(D, random_state=np.random.default_rng(2))
        scaled = turned * np.random.default_rng(3).uniform(0.1, 10, (N, 1))
        assert neighbour_rate(scaled, WORDS, SENTENCES) == pytest.approx(before)


def test_names_and_order_are_nothing() -> None:
    before = neighbour_rate(noise(), WORDS, SENTENCES)
    named = neighbour_rate(noise(), [f"word{one}" for one in WORDS], [f"{one}" for one in SENTENCES])
    assert named == before
    order = np.random.default_rng(4).permutation(N)
    assert neighbour_rate(noise()[order], WORDS[order], SENTENCES[order]) == pytest.approx(before)


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"attribute": WORDS[:-1]}, "60 points, 59 attributes, 60 groups"),
        ({"groups": SENTENCES[:-1]}, "60 points, 60 attributes, 59 groups"),
        ({"k": 57}, "some have fewer than 57 others in other groups"),
        ({"groups": np.zeros(N)}, "some have fewer than 5 others"),
        ({"k": 0}, "k: 0"),
        ({"points": np.full((N, D), np.nan)}, "contain NaN or infinity"),
        ({"points": np.zeros(N)}, r"expected \[points, dimensions\]"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_has_no_neighbours_is_refused(changes: dict[str, Any], said: str) -> None:
    given: dict[str, Any] = {"points": noise(), "attribute": WORDS, "groups": SENTENCES} | changes
    with pytest.raises(InputError, match=said) as caught:
        neighbour_rate(**given)
    assert "\n" not in str(caught.value)
