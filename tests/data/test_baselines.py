"""A bag of words learns what single words tell, and nothing that only their order tells."""

import random

import pyarrow as pa

from isoscope.data.corpus import Corpus
from isoscope.data.manifest import baselines

NOUNS = [f"noun{number}" for number in range(30)]


def corpus(make, classes: int = 2, sizes: tuple[int, int, int] = (600, 200, 200)) -> Corpus:
    """Build a corpus; `make(random, label)` writes the text, or the two texts, of one example."""
    splits = {}
    for split, size in zip(("train", "validation", "test"), sizes, strict=True):
        draw = random.Random(split)
        labels = [row % classes for row in range(size)]
        columns = zip(*(make(draw, label) for label in labels), strict=True)
        names = ("sentence",) if (columns := list(columns)) and len(columns) == 1 else ("sentence1", "sentence2")
        splits[split] = pa.table(dict(zip(names, columns, strict=True)) | {"label": pa.array(labels, pa.int64())})
    return Corpus(splits, tuple(map(str, range(classes))), "made up", "CC0-1.0", None, {})


def word(draw: random.Random, label: int) -> tuple[str]:
    return (f"{draw.choice(NOUNS)} mark{label} {draw.choice(NOUNS)}",)


def adjacent(draw: random.Random, label: int) -> tuple[str]:
    """Both classes have the same words; "red" comes before "noun" in one class and after it in the other."""
    return (f"{draw.choice(NOUNS)} {'red thing' if label else 'thing red'} {draw.choice(NOUNS)}",)


def distant(draw: random.Random, label: int) -> tuple[str]:
    """The label is which of two distant words comes first: neither words nor neighbours predict it."""
    first, second = ("red", "blue") if label else ("blue", "red")
    between = " ".join(draw.choice(NOUNS) for _ in range(2))
    return (f"{draw.choice(NOUNS)} {first} {between} {second} {draw.choice(NOUNS)}",)


def paraphrase(draw: random.Random, label: int) -> tuple[str, str]:
    """Two sentences have class 1 if they name the same nouns: a single sentence does not predict it."""
    one = draw.sample(NOUNS, 4)
    other = draw.sample(one, 4) if label else draw.sample(sorted(set(NOUNS) - set(one)), 4)
    return " ".join(one), " ".join(other)


def accuracy(made: Corpus, name: str) -> float:
    return baselines(made)[name]["test"]["accuracy"]


def test_a_telling_word_is_found() -> None:
    assert accuracy(corpus(word), "tfidf_unigrams") == 1.0
    assert accuracy(corpus(word, classes=5), "tfidf_unigrams") == 1.0


def test_order_of_neighbours_is_found_by_bigrams_only() -> None:
    made = corpus(adjacent)
    assert accuracy(made, "tfidf_bigrams") == 1.0
    assert 0.35 < accuracy(made, "tfidf_unigrams") < 0.65


def test_order_at_a_distance_is_found_by_neither() -> None:
    made = corpus(distant)
    for name in ("tfidf_unigrams", "tfidf_bigrams"):
        assert 0.35 < accuracy(made, name) < 0.65


def test_pairs_are_compared() -> None:
    assert accuracy(corpus(paraphrase), "tfidf_unigrams") > 0.95


def test_it_gives_the_same_figures_again() -> None:
    made = corpus(distant)
    assert baselines(made) == baselines(made)
