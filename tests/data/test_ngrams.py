"""N-gram models are distributions, agree with a count by hand, and approach the entropy of a known source."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from isoscope.base.errors import InputError
from isoscope.data.ngrams import (
    CLASSES,
    CONTEXTS,
    FREQUENCIES,
    Trigrams,
    baselines,
    fit_trigrams,
    token_classes,
    unigrams,
    windows_of,
)

CLS, SEP = 2, 3


def sequence(*text: int) -> np.ndarray:
    return np.array([CLS, *text, SEP], np.int32)


def all_probabilities(model: Trigrams, *context: int) -> np.ndarray:
    return model.probabilities(np.array([[*context, token] for token in range(model.vocab_size)], np.int64))


@pytest.fixture(scope="module")
def model() -> Trigrams:
    random = np.random.default_rng(0)
    rows = [sequence(*random.integers(4, 12, size=size)) for size in random.integers(1, 9, size=60)]
    return fit_trigrams(windows_of(rows)[0], vocab_size=14)


def test_windows_have_two_predecessors_and_predict_all_but_the_start() -> None:
    windows, last = windows_of([sequence(5, 6), sequence(), sequence(7)])
    assert windows.tolist() == [[2, 2, 5], [2, 5, 6], [5, 6, 3], [2, 2, 3], [2, 2, 7], [2, 7, 3]]
    assert last.tolist() == [False, False, True, True, False, True]


def test_every_context_has_probabilities_that_sum_to_one(model: Trigrams) -> None:
    """Contexts that never occurred are among them: [PAD] is in no sequence, and most pairs are unseen."""
    for context in product(range(14), repeat=2):
        found = all_probabilities(model, *context)
        assert found.min() > 0
        assert found.sum() == pytest.approx(1, abs=1e-12)


def test_unseen_context_has_the_probabilities_of_its_last_token(model: Trigrams) -> None:
    assert np.array_equal(all_probabilities(model, 0, 5), all_probabilities(model, 1, 5))
    assert not np.allclose(all_probabilities(model, CLS, 5), all_probabilities(model, 0, 5))


def test_formula_by_hand() -> None:
    """Two sentences, "a b" and "a c" (a, b, c = 4, 5, 6; V = 7), worked out from the formula of Chen & Goodman.

    Trigrams: [CLS][CLS]a twice; [CLS]ab, [CLS]ac, ab[SEP], ac[SEP] once: D = 4 / (4 + 2 · 1) = 2/3.
    Bigrams by different predecessors: [CLS]a, ab, ac, b[SEP], c[SEP] one each: D = 5 / 5 = 1.
    Unigrams by different predecessors: a, b, c one each, [SEP] two: D = 3 / (3 + 2 · 1) = 3/5.
    """
    model = fit_trigrams(windows_of([sequence(4, 5), sequence(4, 6)])[0], vocab_size=7)
    assert [order.discount for order in model.orders] == pytest.approx([3 / 5, 1, 2 / 3])
    uniform = (3 / 5) * 4 / 5 / 7
    one, end, unseen = (1 - 3 / 5) / 5 + uniform, (2 - 3 / 5) / 5 + uniform, uniform
    expected = {
        # p(b | [CLS] a): count 1 of 2; a has two different successors, and D = 1 leaves nothing of their counts.
        (CLS, 4, 5): (1 - 2 / 3) / 2 + (2 / 3) * 2 / 2 * one,
        (CLS, 4, SEP): (2 / 3) * 2 / 2 * end,
        (CLS, CLS, 4): (2 - 2 / 3) / 2 + (2 / 3) * 1 / 2 * one,
        (4, 5, SEP): (1 - 2 / 3) + (2 / 3) * end,
        (6, 5, SEP): end,  # unseen context of three; after b the whole mass is passed on
        (0, 0, 4): one,
        (0, 0, 0): unseen,
    }
    found = model.probabilities(np.array(list(expected), np.int64))
    assert found.tolist() == pytest.approx(list(expected.values()), rel=1e-12)


def test_unigram_is_add_one() -> None:
    assert unigrams(np.array([1, 1, 3]), vocab_size=4).tolist() == pytest.approx([1 / 7, 3 / 7, 1 / 7, 2 / 7])


def test_unigram_loss_on_its_own_text_is_the_entropy_of_its_frequencies() -> None:
    random = np.random.default_rng(1)
    rows = [sequence(*(4 + random.geometric(0.3, size=20).clip(max=15))) for _ in range(4000)]
    found = baselines({split: {"sentence": rows} for split in ("train", "validation", "test")}, vocab_size=20)
    for name, dropped in (("unigram", 0), ("unigram_masked", 1)):
        tokens = np.concatenate([ids[1 : len(ids) - dropped] for ids in rows])
        shares = np.array(list(Counter(tokens.tolist()).values())) / len(tokens)
        assert found[name]["test"]["sentence"]["n"] == len(tokens)
        assert found[name]["test"]["sentence"]["loss"] == pytest.approx(-(shares @ np.log(shares)), abs=1e-4)


@pytest.mark.parametrize("order", [1, 2])
def test_trigram_approaches_the_entropy_of_a_markov_source_from_above(order: int) -> None:
    """Sentences of fixed length, whose next token depends on `order` tokens; negative control: the unigram cannot."""
    random, size, length = np.random.default_rng(order), 6, 30
    table = random.dirichlet(np.full(size, 0.3), size=(size,) * order)
    text = random.integers(size, size=(length, 6000))
    for place in range(order, length):
        rows = table[tuple(text[place - order : place])]
        text[place] = (rows.cumsum(1) < random.random((6000, 1))).sum(1).clip(max=size - 1)
    context = tuple(text[place : length - order + place] for place in range(order))
    entropy = -np.log(table[(*context, text[order:])])[:, 5000:].mean()
    rows = [sequence(*column) for column in (4 + text).T]
    model = fit_trigrams(windows_of(rows[:5000])[0], vocab_size=4 + size)
    windows, last = windows_of(rows[5000:])
    inner = (windows[:, 0] >= 4) & ~last  # the random start and the end are not the source's
    loss = -np.log(model.probabilities(windows[inner])).mean()
    assert entropy < loss < entropy + 0.05
    alone = unigrams(windows_of(rows[:5000])[0][:, -1], vocab_size=4 + size)
    assert -np.log(alone[windows[inner, -1]]).mean() > entropy + 0.2


def test_largest_vocabulary_fits() -> None:
    top = 999_999
    windows = windows_of([np.array([top, top, top - 1, top], np.int32)])[0]
    model = fit_trigrams(windows, vocab_size=top + 1)
    assert sorted(model.orders[2].counts.index) == sorted((a * 10**6 + b) * 10**6 + c for a, b, c in windows.tolist())


def test_column_without_text_is_refused() -> None:
    rows = {"sentence1": [sequence(5)], "sentence2": [sequence(6)]}
    empty = rows | {"sentence2": [sequence(), sequence()]}
    with pytest.raises(InputError, match="validation: all texts in column 'sentence2' are empty"):
        baselines({"train": rows, "validation": empty, "test": rows}, vocab_size=8)


# Classes of tokens: counts by hand, equal masses, laws of permutation and repetition, planted Markov sources.

START, END = 0, 1


def texts(*rows: list[int]) -> list[np.ndarray]:
    return [np.array([START, *row, END], np.int32) for row in rows]


def names(classes: object, previous: list[int], tokens: list[int]) -> list[tuple[str, str]]:
    return [CLASSES[number] for number in classes.numbers(np.array(previous), np.array(tokens))]  # type: ignore[attr-defined]


def test_counts_by_hand() -> None:
    """12 tokens: 2 four times, [SEP] three times, 3 and 4 twice, 5 once; 4 follows both 3s."""
    found = token_classes(texts([2, 3, 4, 2], [2, 2, 3, 4], [5]), vocab_size=7, probability=0.2)
    assert names(found, [2], [2]) == [("frequent", "unigram")], "(4 − 1) / (12 − 1)"
    assert names(found, [3], [4]) == [("middle", "bigram")], "(2 − 1) / (2 − 1), below 7 of 12"
    assert names(found, [2, 5], [4, 4]) == [("middle", "context")] * 2
    assert names(found, [4, START], [5, 5]) == [("rare", "context")] * 2, "what occurs once is not predicted"
    assert names(found, [2], [6]) == [("rare", "context")], "unseen"
    assert [context for _, context in names(found, [2, START], [3, 2])] == ["bigram", "unigram"]


def test_bands_have_about_a_third_of_the_tokens_each_and_follow_the_order_of_counts() -> None:
    draw = np.random.default_rng(0)
    rows = [list(2 + draw.zipf(1.3, 20) % 200) for _ in range(500)]
    found = token_classes(texts(*rows), vocab_size=202, probability=0.1)
    counts = Counter(token for row in texts(*rows) for token in row[1:].tolist())
    total = sum(counts.values())
    edges = np.zeros(len(FREQUENCIES))
    for token, count in counts.items():
        edges[found.bands[token]] += count / total
    largest = max(counts.values()) / total
    assert (abs(edges - 1 / 3) <= largest).all()
    order = sorted(counts, key=lambda token: -counts[token])
    assert (np.diff(found.bands[order]) >= 0).all()


def test_equally_frequent_tokens_share_a_band_and_new_ids_change_no_class() -> None:
    rows = [[2, 3, 4, 5, 2], [5, 4, 3, 2, 2]]
    found = token_classes(texts(*rows), vocab_size=6, probability=0.3)
    assert len(set(found.bands[[3, 4, 5, END]])) == 1
    moved = np.array([0, 1, 5, 4, 2, 3])
    other = token_classes(texts(*[[int(moved[one]) for one in row] for row in rows]), vocab_size=6, probability=0.3)
    pairs = np.array([(a, b) for a in range(6) for b in range(6)])
    one, two = found.numbers(*pairs.T), other.numbers(*moved[pairs].T)
    assert (one == two).all()


@pytest.mark.parametrize("order, expected", [(0, "unigram"), (1, "bigram"), (2, "context")])
def test_a_markov_source_is_predicted_by_its_order(order: int, expected: str) -> None:
    """Two, eight and sixteen symbols; a symbol follows from that `order` places before it, nine times out of ten."""
    size = {0: 2, 1: 8, 2: 16}[order]
    draw = np.random.default_rng(order)
    following = draw.permutation(size)
    symbols = draw.integers(size, size=(600, 20))
    regular = draw.random(symbols.shape) < (0.9 if order else 0.0)
    for place in range(order, 20):
        symbols[:, place] = np.where(regular[:, place], following[symbols[:, place - order]], symbols[:, place])
    rows = texts(*(2 + symbols).tolist())
    found = token_classes(rows, vocab_size=2 + size, probability=0.2)
    previous = np.concatenate([row[order:-2] for row in rows])
    tokens = np.concatenate([row[order + 1 : -1] for row in rows])
    contexts = found.numbers(previous, tokens) % len(CONTEXTS)
    assert (contexts == CONTEXTS.index(expected)).mean() > 0.85
