"""Layers of two encoders compared: exchanged sentences, the null of independent spaces, coverage of intervals.

RSA and neighbours: leaving out groups, and exchanged items, each against the plain computation.
"""

from collections.abc import Sequence

import numpy as np
import pytest

from isoscope.geometry.cross_products import triple
from isoscope.geometry.moments import Floats, Ints
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.sentence_permutations import exchangeable, exchanged, permuted, sentence_groups
from isoscope.geometry.similarity import CCA, CKA, HeldOutCCA, Procrustes, Similarity
from isoscope.geometry.similarity_grid import PairSide, Side, Values, pair_similarities, similarities
from isoscope.platform.statistics.delete_a_group import delete_a_group

MEASURES = [CKA(), Procrustes(), CCA(few=True)]


def compared(one: Floats, other: Floats, sentences: Ints, permutations: int = 20) -> dict[str, Values]:
    lengths = exchangeable(sentences).lengths
    group = sentence_groups(lengths, 20, seed=0)
    groups = np.repeat(group, lengths)
    places = [permuted(lengths, seed=0, draw=draw, halves=group % 2) for draw in range(permutations)]
    sides = Side(one, groups), Side(other, groups)
    return dict(similarities(*sides, MEASURES, groups=groups, permutations=places))


def test_sentences_are_exchanged_whole_with_sentences_of_their_length() -> None:
    lengths = np.repeat([3, 5, 8], [10, 20, 6])
    sentences = np.repeat(np.arange(36), lengths)
    places = permuted(lengths, seed=0, draw=1)
    assert sorted(places) == list(range(len(sentences)))
    taken = sentences[places].reshape(-1)
    starts = np.cumsum(lengths) - lengths
    for sentence in range(36):
        own = places[starts[sentence] : starts[sentence] + lengths[sentence]]
        assert (np.diff(own) == 1).all(), "words keep their order"
        assert own[0] in starts, "from the beginning of a sentence"
        assert len({*taken[sentences == sentence]}) == 1
    assert (sentences[places] != sentences).all(), "no sentence keeps its place: it would be similar in both spaces"
    assert not np.array_equal(places, permuted(lengths, seed=0, draw=2))
    assert np.array_equal(places, permuted(lengths, seed=0, draw=1))


def test_sentences_of_a_rare_length_are_left_out() -> None:
    sentences = np.repeat([7, 1, 5, 2, 9, 4, 3], [2, 2, 2, 2, 2, 9, 1])
    found = exchangeable(sentences)
    assert found.lengths.tolist() == [2] * 5
    assert found.left_out == 2
    assert set(sentences[found.rows]) == {7, 1, 5, 2, 9}


def test_independent_spaces_have_the_value_of_their_null_in_the_mean_and_related_ones_more(
    random: np.random.Generator,
) -> None:
    """CKA is near 0 under the null, CCA is not: the difference to the null is what counts."""
    sentences = np.repeat(np.arange(120), 5)

    def space() -> Floats:
        return random.standard_normal((120, 8))[sentences] + random.standard_normal((600, 8))

    differences: dict[str, list[float]] = {}
    for _ in range(30):
        for name, values in compared(space(), space(), sentences, permutations=5).items():
            differences.setdefault(name, []).append(values.value - values.null.mean())
    for name, own in differences.items():
        assert abs(np.mean(own)) < 3 * np.std(own) / np.sqrt(30), name
    one = space()
    for name, values in compared(one, one + space(), sentences).items():
        assert values.value > values.null.max() + 0.1, name


def test_a_permutation_of_words_would_be_too_narrow_a_null() -> None:
    """Words of a sentence are alike, so exchanged words hide how much independent sentences differ by chance."""
    random = np.random.default_rng(1)
    sentences = np.repeat(np.arange(60), 10)
    one, other = (random.standard_normal((60, 4))[sentences] + 0.3 * random.standard_normal((600, 4)) for _ in range(2))
    of_sentences = compared(one, other, sentences)["procrustes"].null
    of_words = compared(one, other, np.arange(600))["procrustes"].null
    assert of_sentences.mean() > 2 * of_words.mean()


def test_products_in_float32_change_no_null_value_that_is_shown() -> None:
    random = np.random.default_rng(2)
    one, other = random.standard_normal((2, 600, 8)) + 3.0
    groups = np.repeat(sentence_groups(np.full(100, 6), 20, seed=0), 6)
    places = permuted(np.full(100, 6), seed=0, draw=0)
    plain = CKA().score(one, other[places])
    found = similarities(Side(one, groups), Side(other, groups), [CKA()], groups=groups, permutations=[places])
    assert found["cka"].null[0] == pytest.approx(plain, abs=1e-6)


RELATED = [1.4, 1.2, 1.0, 0.8, 0.6, 0.4]


def population(sentences: int, random: np.random.Generator, shares: Sequence[float] = RELATED) -> tuple[Floats, Floats]:
    """Two views of 20 correlated words per sentence; the second has a share of each dimension of the first."""
    of = np.repeat(np.arange(sentences), 20)
    one, own = (
        0.7 * random.standard_normal((sentences, len(shares)))[of]
        + 0.7 * random.standard_normal((len(of), len(shares)))
        for _ in range(2)
    )
    return one, one * np.array(shares) + own


def coverage(found: Sequence[Values], truths: Sequence[float]) -> float:
    """The share of 95 % intervals that cover their true values."""
    bounds = [delete_a_group(one.value, one.without, confidence=0.95) or (np.nan, np.nan) for one in found]
    return float(np.mean([low <= truth <= high for (low, high), truth in zip(bounds, truths, strict=True)]))


@pytest.fixture(scope="module")
def data_sets() -> list[dict[str, Values]]:
    """Three hundred data sets of 200 sentences."""
    random = np.random.default_rng(3)
    draws = (population(200, random) for _ in range(300))
    return [compared(one, other, np.arange(len(one)) // 20, permutations=0) for one, other in draws]


@pytest.mark.parametrize("measure", MEASURES, ids=lambda measure: measure.name)
def test_the_interval_covers_the_true_value(data_sets: list[dict[str, Values]], measure: Similarity) -> None:
    """92 to 98 %. CCA and Procrustes grow as items get fewer: their true value is that of as many sentences."""
    if measure.name == "cka":
        truth = measure.score(*population(20_000, np.random.default_rng(4)))
    else:
        truth = float(np.mean([found[measure.name].value for found in data_sets]))
    assert 0.92 <= coverage([found[measure.name] for found in data_sets], [truth] * 300) <= 0.98


@pytest.mark.parametrize("shares", [RELATED, [0.0] * 24, np.linspace(0, 1, 24)], ids=["six", "unrelated", "wide"])
def test_the_interval_of_the_held_out_cca_covers_what_the_fitted_directions_have(shares: Sequence[float]) -> None:
    """92 to 98 %, of the similarity along these directions in 20,000 sentences."""
    random, measure = np.random.default_rng(5), HeldOutCCA(few=True)
    everyone = triple(*population(20_000, random, shares))
    groups = np.repeat(sentence_groups(np.full(200, 20), 20, seed=0), 20)
    found, truths, even = [], [], groups % 2 == 0
    for _ in range(300):
        one, other = population(200, random, shares)
        sides = Side(one, groups), Side(other, groups)
        found.append(similarities(*sides, [measure], groups=groups, permutations=[])[measure.name])
        truths.append(measure.of_halves(triple(one[even], other[even]), everyone)[0])
    assert 0.92 <= coverage(found, truths) <= 0.98


N = 60
GROUPS = np.random.default_rng(5).permutation(np.arange(N) % 6)


def spaces() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    one = random.standard_normal((N, 6)) + 0.5
    return one, np.tanh(one @ random.standard_normal((6, 4))) + 0.3 * random.standard_normal((N, 4))


def by_pairs(
    one: Floats,
    other: Floats,
    groups: Ints = GROUPS,
    *,
    k: int = 5,
    ranks: bool = True,
    permutations: Sequence[Ints] = (),
) -> dict[str, Values]:
    """The values from distances of items."""
    both = (
        PairSide(own, RSA(ranks=ranks), Neighbours(k=k), groups=groups, seed=at) for at, own in enumerate((one, other))
    )
    return dict(pair_similarities(*both, groups=groups, permutations=permutations))


def common(asked: tuple[Floats, Floats], among: tuple[Floats, Floats], k: int) -> float:
    """The mean share of an asked item's k candidates of largest cosine that two spaces have in common."""
    near = []
    for items, candidates in zip(asked, among, strict=True):
        unit = candidates / np.linalg.norm(candidates, axis=1, keepdims=True)
        near.append(np.argpartition(-items @ unit.T, k - 1, axis=1)[:, :k])
    return float((near[0][:, :, None] == near[1][:, None, :]).any(2).mean())


def overlap(one: Floats, other: Floats, groups: Ints, k: int) -> float:
    """That of the items in odd groups, among those in even groups."""
    odd = groups % 2 == 1
    return common((one[odd], other[odd]), (one[~odd], other[~odd]), k)


@pytest.mark.parametrize("ranks", [True, False])
def test_a_left_out_group_takes_its_pairs_along(ranks: bool) -> None:
    one, other = spaces()
    rsa, found = RSA(ranks=ranks), by_pairs(one, other, ranks=ranks)["rsa"]
    assert found.value == pytest.approx(rsa.score(one, other))
    first, second = np.triu_indices(N, 1)
    for group in range(6):
        kept = (GROUPS[first] != group) & (GROUPS[second] != group)
        expected = np.corrcoef(rsa.distances(one)[kept], rsa.distances(other)[kept])[0, 1]
        assert found.without[group] == pytest.approx(expected)


def test_neighbours_of_odd_groups_are_sought_among_even_groups() -> None:
    one, other = spaces()
    found = by_pairs(one, other)["neighbours"]
    assert found.value == pytest.approx(overlap(one, other, GROUPS, 5))
    expected = [overlap(one[kept], other[kept], GROUPS[kept], 5) for kept in (odd != GROUPS for odd in (1, 3, 5))]
    assert found.without == pytest.approx(expected), "of the odd groups alone: the even ones are candidates"


def test_too_few_candidates_leave_the_overlap_empty() -> None:
    one, other = spaces()
    found = by_pairs(one, other, k=N // 2 + 1)
    assert np.isnan(found["neighbours"].value)
    assert found["neighbours"].why == "some items have fewer than 31 candidates; give more items or fewer neighbours"
    assert found["rsa"].value == pytest.approx(RSA().score(one, other))


def test_a_group_without_items_is_left_out() -> None:
    gap = GROUPS + 2 * (GROUPS > 2)  # 0, 1, 2, 5, 6, 7: of the same halves
    found = by_pairs(*spaces(), gap)
    for name, values in by_pairs(*spaces()).items():
        assert found[name].without == pytest.approx(values.without), name


def test_exchanged_items_are_those_of_a_reordered_space() -> None:
    one, other = spaces()
    places = exchanged(GROUPS % 2, seed=1, draw=0)
    found = by_pairs(one, other, permutations=[places])
    assert found["rsa"].null[0] == pytest.approx(RSA().score(one, other[places]), abs=1e-6)
    assert found["neighbours"].null[0] == pytest.approx(overlap(one, other[places], GROUPS, 5))


def related(n: int, shares: Sequence[float], random: np.random.Generator) -> tuple[Floats, Floats]:
    one = random.standard_normal((n, len(shares)))
    return one, one * np.array(shares) + random.standard_normal(one.shape)


@pytest.mark.parametrize("shares", [RELATED, [0.0] * 6, np.linspace(0, 1, 24)], ids=["six", "unrelated", "wide"])
def test_the_intervals_of_pairs_cover_what_they_estimate(shares: Sequence[float]) -> None:
    """92 to 98 %; of RSA for related spaces.

    The true value of neighbours is the overlap of 2,000 other items, asked among the same candidates.
    """
    random, groups = np.random.default_rng(0), np.arange(200) % 20
    found, truths, even = [], [], groups % 2 == 0
    for _ in range(300):
        one, other = related(200, shares, random)
        found.append(by_pairs(one, other, groups, k=10))
        truths.append(common(related(2000, shares, random), (one[even], other[even]), 10))
    assert 0.92 <= coverage([one["neighbours"] for one in found], truths) <= 0.98
    if shares is RELATED:
        truth = float(np.mean([one["rsa"].value for one in found]))
        assert 0.92 <= coverage([one["rsa"] for one in found], [truth] * 300) <= 0.98
