"""Cosine measures against sums over all pairs, closed forms, and the published values for independent words.

Rates of neighbours against scikit-learn, by hand, and planted; chance where nothing is planted.
"""

from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.neighbors import NearestNeighbors

from isoscope.geometry.contextuality import (
    apart,
    avg_sim,
    intra_sim,
    mev,
    neighbour_shares,
    pairs_apart,
    self_sim,
    self_sims,
    units,
)
from isoscope.geometry.moments import Floats


def cosine(one: np.ndarray, other: np.ndarray) -> float:
    return float(one @ other / np.linalg.norm(one) / np.linalg.norm(other))


@pytest.fixture
def points() -> np.ndarray:
    """Forty words off the origin, so that no cosine is 0 in the mean."""
    return np.random.default_rng(0).normal(0.4, 1.0, (40, 6))


@pytest.fixture
def sentences() -> np.ndarray:
    return np.repeat([3, 1, 7, 4, 9, 2], [10, 1, 9, 2, 11, 7])


def test_means_are_over_pairs_without_those_of_one_sentence_or_one_word(
    points: np.ndarray, sentences: np.ndarray
) -> None:
    words = np.random.default_rng(1).integers(0, 6, 40)
    every = {(i, j): cosine(points[i], points[j]) for i, j in combinations(range(40), 2)}
    apart = {(i, j): value for (i, j), value in every.items() if sentences[i] != sentences[j]}
    mean = np.mean([*apart.values()])
    assert avg_sim(points) == pytest.approx(np.mean([*every.values()]), rel=1e-12)
    assert avg_sim(points, sentences) == pytest.approx(mean, rel=1e-12)
    assert avg_sim(points, [f"sentence {one}" for one in sentences]) == pytest.approx(mean, rel=1e-12)
    assert abs(mean - np.mean([*every.values()])) > 1e-3  # the groups can be seen
    other = [value for (i, j), value in apart.items() if words[i] != words[j]]
    assert avg_sim(points, sentences, words) == pytest.approx(np.mean(other), rel=1e-10)
    same = [[value for (i, j), value in apart.items() if words[i] == words[j] == word] for word in range(6)]
    assert self_sim(points, words, sentences) == pytest.approx(np.mean([np.mean(one) for one in same]), rel=1e-10)


@pytest.mark.parametrize("n", [2, 3, 10])
def test_avg_sim_in_closed_form(n: int) -> None:
    simplex = np.eye(n) - 1 / n
    assert avg_sim(simplex) == pytest.approx(-1 / (n - 1))
    assert avg_sim(np.eye(n)) == pytest.approx(0.0)
    assert avg_sim(np.full((n, 3), 0.1)) == pytest.approx(1.0)
    assert avg_sim(np.eye(n) * np.arange(n)[:, None]) == pytest.approx(0.0)  # with a zero vector


@pytest.mark.parametrize("least", [2, 5, 10])
def test_self_sim_is_the_mean_over_words_of_the_mean_over_pairs(
    points: np.ndarray, sentences: np.ndarray, least: int
) -> None:
    words = np.array(list("abcdefghij"))[sentences]
    found = []
    for word in set(words):
        of = points[words == word]
        if len(of) >= least:
            found.append(np.mean([cosine(one, other) for one, other in combinations(of, 2)]))
    assert self_sim(points, words, least=least) == pytest.approx(np.mean(found), rel=1e-12)


def test_a_word_counts_by_the_sentences_that_it_occurs_in() -> None:
    """Three occurrences in two sentences: one pair of sentences, two pairs of occurrences."""
    points = np.random.default_rng(0).standard_normal((4, 5))
    words, sentences = ["a", "a", "a", "b"], [0, 0, 1, 1]
    expected = (cosine(points[0], points[2]) + cosine(points[1], points[2])) / 2
    assert self_sim(points, words, sentences) == pytest.approx(expected)
    assert np.isnan(self_sim(points, words, sentences, least=3))
    (word,) = self_sims(points, words, sentences)
    assert sorted(word.rows) == [0, 1, 2]


def test_weights_count_a_sentence_as_often_as_copies_that_are_not_compared_with_each_other() -> None:
    random = np.random.default_rng(2)
    points, sentences = units(random.normal(0.3, 1.0, (12, 4))), np.repeat(np.arange(4), 3)
    weights = np.array([[1.0, 1, 1, 1], [2, 0, 1, 1], [0, 3, 1, 0]])
    found = pairs_apart(points, sentences, weights)
    for row, weight in enumerate(weights):
        cosines = pairs = 0.0
        for i in range(12):
            for j in range(12):
                if sentences[i] != sentences[j]:
                    times = weight[sentences[i]] * weight[sentences[j]]
                    cosines, pairs = cosines + times * points[i] @ points[j], pairs + times
        assert (found.cosines[row], found.pairs[row]) == pytest.approx((cosines, pairs))


def test_mev_is_the_first_share_of_a_words_variance_and_falls_with_its_occurrences(random: np.random.Generator) -> None:
    line = random.standard_normal((30, 1)) @ random.standard_normal((1, 5)) + 2.0
    assert mev(line, np.zeros(30)) == pytest.approx(1.0)
    noise = random.standard_normal((4000, 20))
    few, many = mev(noise, np.arange(4000) // 5), mev(noise, np.arange(4000) // 400)
    assert few > 3 * many
    assert many == pytest.approx((1 + np.sqrt(20 / 400)) ** 2 / 20, rel=0.1), "Marchenko and Pastur's edge"
    assert np.isnan(mev(noise, np.arange(4000)))
    assert np.isnan(mev(np.ones((10, 3)), np.zeros(10)))
    table = np.repeat(random.standard_normal((20, 8)), 6, axis=0)
    same = mev(table + 1e-8 * random.standard_normal(table.shape), np.repeat(np.arange(20), 6))
    assert np.isnan(same), "one vector per word, and rounding"


def test_pseudo_sentences_have_the_true_lengths_and_no_two_words_of_a_sentence() -> None:
    sentences = np.repeat(np.arange(60), np.arange(60) % 9 + 1)
    order = apart(sentences, sentences, seed=0)
    assert sorted(order) == list(range(len(sentences)))
    for slot in range(60):
        drawn = sentences[order[sentences == slot]]
        assert len({*drawn}) == len(drawn)
    assert not np.array_equal(order, apart(sentences, sentences, seed=1))
    full = np.repeat(np.arange(26), 25)
    assert len({*zip(full, full[apart(full, full, seed=0)], strict=True)}) == len(full), "hardly more than needed"


def test_self_sim_of_words_that_never_recur_is_nothing(points: np.ndarray) -> None:
    assert np.isnan(self_sim(points, np.arange(40)))
    assert np.isnan(self_sim(points, np.arange(40), least=1))  # one occurrence has no pair
    assert self_sim(np.repeat(points, 2, axis=0), np.repeat(np.arange(40), 2)) == pytest.approx(1.0)


def test_self_sim_of_zero_vectors_is_zero_and_not_less() -> None:
    """Their cosine is 0 by our word; subtracting 1 for each occurrence would make it negative."""
    assert self_sim([[0.0, 0.0], [0.0, 0.0]], ["a", "a"]) == 0.0
    assert self_sim([[0.0, 0.0], [1.0, 0.0], [1.0, 0.0]], ["a", "a", "a"]) == pytest.approx(1 / 3)


@pytest.mark.parametrize("words, published", [(3, 0.58), (5, 0.45), (10, 0.32), (25, 0.20)])
def test_intra_sim_of_independent_words(words: int, published: float) -> None:
    """1/√L as published, since a word is 1/L of the mean that it is compared with; 0 if it is left out."""
    random = np.random.default_rng(words)
    sentences = np.repeat(np.arange(1200 // words), words)
    points = random.standard_normal((len(sentences), 768))
    found = intra_sim(points, sentences)
    assert found.published == pytest.approx(1 / np.sqrt(words), abs=0.005)
    assert found.published == pytest.approx(published, abs=0.0075)
    assert found.leave_one_out == pytest.approx(0.0, abs=0.006)


def test_intra_sim_is_the_mean_over_sentences_of_the_mean_over_words(points: np.ndarray, sentences: np.ndarray) -> None:
    published, left_out = [], []
    for sentence in set(sentences):
        of = points[sentences == sentence]
        if len(of) > 1:
            published.append(np.mean([cosine(word, of.mean(0)) for word in of]))
            left_out.append(np.mean([cosine(of[i], np.delete(of, i, axis=0).mean(0)) for i in range(len(of))]))
    assert intra_sim(points, sentences) == pytest.approx((np.mean(published), np.mean(left_out)), rel=1e-12)


def test_sentences_of_one_word_are_skipped() -> None:
    assert np.isnan(intra_sim(np.eye(3), [0, 1, 2])).all()
    pair = [[1.0, 0.0], [1.0, 0.1], [-5.0, 3.0]]
    assert intra_sim(pair, [0, 0, 1]) == intra_sim(pair[:2], [0, 0])


N, D = 60, 8
SENTENCES = np.arange(N) // 4
WORDS = np.random.default_rng(0).integers(0, 6, N)


def rate(points: Any, attribute: Any, groups: Any, **options: Any) -> tuple[float, float]:
    """The rate and the rate at chance, means over points."""
    near, chance = neighbour_shares(points, attribute, groups, **options)
    return float(near.mean()), float(chance.mean())


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
    assert rate(points, WORDS, SENTENCES, k=k)[0] == pytest.approx(np.mean(shares))


def test_chance_is_the_share_of_all_pairs_of_two_sentences() -> None:
    pairs = [(a, b) for a in range(N) for b in range(N) if SENTENCES[a] != SENTENCES[b]]
    expected = np.mean([WORDS[a] == WORDS[b] for a, b in pairs])
    assert rate(noise(), WORDS, SENTENCES, k=56) == pytest.approx((expected, expected)), "all there are"


def test_chance_counts_points_as_the_rate_does_where_sentences_differ_in_length() -> None:
    """A sentence of 57 tokens and three of one each; all there are as neighbours: rate and chance are one, by point."""
    sentences, words = np.r_[np.zeros(57), 1, 2, 3].astype(int), np.r_[np.zeros(57), 0, 0, 1].astype(int)
    found = neighbour_shares(noise(), words, sentences, k=3)
    assert found.chance[:57] == pytest.approx(2 / 3)
    assert found.chance[57:] == pytest.approx([58 / 59, 58 / 59, 0.0])
    assert found.near[:57] == pytest.approx(2 / 3)


def test_planted_words_are_neighbours_and_other_attributes_stand_at_chance() -> None:
    """The mean of 400 clouds without a plan is chance within four standard errors."""
    planted = noise() + 20.0 * np.eye(D)[WORDS]
    found, chance = rate(planted, WORDS, SENTENCES)
    assert found > 0.99
    rates = np.array([rate(noise(seed), WORDS, SENTENCES)[0] for seed in range(400)])
    assert rates.mean() == pytest.approx(chance, abs=4 * rates.std() / 20)
    other = np.random.default_rng(1).permutation(WORDS)
    found, chance = rate(planted, other, SENTENCES)
    assert found == pytest.approx(chance, abs=0.1)


@pytest.mark.parametrize("sees", [False, True])
def test_only_directions_count(sees: bool) -> None:
    points = noise() + 2.0 * np.eye(D)[WORDS]
    before = rate(points, WORDS, SENTENCES)
    if sees:
        assert rate(points + 50.0 * np.eye(D)[0], WORDS, SENTENCES)[0] < before[0]
    else:
        turned = points @ ortho_group.rvs(D, random_state=np.random.default_rng(2))
        scaled = turned * np.random.default_rng(3).uniform(0.1, 10, (N, 1))
        assert rate(scaled, WORDS, SENTENCES) == pytest.approx(before)


def test_names_and_order_are_nothing() -> None:
    before = rate(noise(), WORDS, SENTENCES)
    named = rate(noise(), [f"word{one}" for one in WORDS], [f"{one}" for one in SENTENCES])
    assert named == before
    order = np.random.default_rng(4).permutation(N)
    assert rate(noise()[order], WORDS[order], SENTENCES[order]) == pytest.approx(before)
