"""Classes of tokens: counts by hand, equal masses, laws of permutation and repetition, planted Markov sources."""

from collections import Counter

import numpy as np
import pytest

from isoscope.data.ngrams import CLASSES, CONTEXTS, FREQUENCIES, token_classes

CLS, SEP = 0, 1


def texts(*rows: list[int]) -> list[np.ndarray]:
    return [np.array([CLS, *row, SEP], np.int32) for row in rows]


def names(classes: object, previous: list[int], tokens: list[int]) -> list[tuple[str, str]]:
    return [CLASSES[number] for number in classes.numbers(np.array(previous), np.array(tokens))]  # type: ignore[attr-defined]


def test_counts_by_hand() -> None:
    """12 tokens: 2 four times, [SEP] three times, 3 and 4 twice, 5 once; 4 follows both 3s."""
    found = token_classes(texts([2, 3, 4, 2], [2, 2, 3, 4], [5]), vocab_size=7, probability=0.2)
    assert names(found, [2], [2]) == [("frequent", "unigram")], "(4 − 1) / (12 − 1)"
    assert names(found, [3], [4]) == [("middle", "bigram")], "(2 − 1) / (2 − 1), below 7 of 12"
    assert names(found, [2, 5], [4, 4]) == [("middle", "context")] * 2
    assert names(found, [4, CLS], [5, 5]) == [("rare", "context")] * 2, "what occurs once is not predicted"
    assert names(found, [2], [6]) == [("rare", "context")], "unseen"
    assert [context for _, context in names(found, [2, CLS], [3, 2])] == ["bigram", "unigram"]


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
    assert len(set(found.bands[[3, 4, 5, SEP]])) == 1
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
