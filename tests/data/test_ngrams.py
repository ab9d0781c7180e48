"""N-gram models are distributions, agree with a count by hand, and approach the entropy of a known source."""

from collections import Counter
from itertools import product

import numpy as np
import pytest

from isoscope.base.errors import InputError
from isoscope.data.ngrams import Trigrams, baselines, fit_trigrams, unigrams, windows_of

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
