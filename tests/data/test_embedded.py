"""Generated text means what an evaluator of its words computes, and only word order determines the label."""

import os
import random
import subprocess
import sys
from collections import Counter
from statistics import mean

import pyarrow as pa
import pytest

from generated_meaning import ORACLES, Text, Verdict, digest, verdict
from isoscope.base.errors import InputError
from isoscope.data import embedded
from isoscope.data.baselines import baselines
from isoscope.data.corpus import SPLITS, Corpus, texts
from isoscope.data.embedded import GENERATORS, generate

DEFAULT = {"size": 7200, "difficulty": 2, "seed": 0}
GOLDEN = {
    "sentiment": "8a3d6908a71ced3378fb9f5b6cb417449891bcca2bf0ffe6f9cba80ea7454fe6",
    "translation": "89a327766856c0b4b3b49f0501c920022253e7f92fb9f26235af3ffd5e566f5e",
}
SIZES = {"sentiment": 7200, "translation": 1000}


def rows(corpus: Corpus, *splits: str) -> list[tuple[Text, int]]:
    return [
        (text, label)
        for split in splits or SPLITS
        for text, label in zip(texts(corpus.splits[split]), corpus.splits[split]["label"].to_pylist(), strict=True)
    ]


@pytest.fixture(scope="module")
def sentiment() -> Corpus:
    return generate("sentiment", **DEFAULT)


# Laws


@pytest.mark.parametrize("difficulty", [1, 2, 3, 5, 9])
@pytest.mark.parametrize("generator", GENERATORS)
def test_label_is_the_meaning_of_the_text(generator: str, difficulty: int) -> None:
    corpus = generate(generator, size=900, difficulty=difficulty, seed=3)
    for text, label in rows(corpus):
        assert ORACLES[generator](text) == label, text


@pytest.mark.parametrize(
    "sentence, meaning, depth",
    [
        ("the plot was superb .", 1, 0),
        ("the plot was not superb .", -1, 0),
        ("the book was better than the film .", -1, 0),
        ("although the plot was dull , the cast was superb .", 1, 1),
        ("the plot was dull , although the cast was superb .", -1, 1),
        ("critics doubted that although the plot was dull , the cast was superb .", -1, 2),
        ("although critics doubted that the plot was dull , the cast was not superb .", -1, 2),
    ],
)
def test_evaluator_reads_as_we_do(sentence: str, meaning: int, depth: int) -> None:
    found = Verdict(sentence)
    assert (found.meaning, found.depth) == (meaning, depth)


@pytest.mark.parametrize("size", [6000, 6001, 101])
@pytest.mark.parametrize("generator", GENERATORS)
def test_splits_are_balanced_and_share_no_text(generator: str, size: int) -> None:
    corpus = generate(generator, size=size, difficulty=2, seed=1)
    found = rows(corpus)
    assert len(found) == size == len({text for text, _ in found})
    for split in SPLITS:
        counts = Counter(label for _, label in rows(corpus, split))
        assert set(counts) == set(range(len(corpus.labels)))
        assert max(counts.values()) - min(counts.values()) <= (split == "train"), split
    shares = [corpus.splits[split].num_rows / size for split in SPLITS]
    assert shares == pytest.approx([0.7, 0.15, 0.15], abs=2 / size * len(corpus.labels))


def labels_by_bag(corpus: Corpus, split: str) -> dict[Text, Counter[int]]:
    found: dict[Text, Counter[int]] = {}
    for (sentence,), label in rows(corpus, split):
        found.setdefault(tuple(sorted(sentence.split())), Counter())[label] += 1
    return found


def test_sentences_all_paired_leave_a_bag_of_words_exactly_at_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pairs stay in one split: there each bag of words has both labels equally often."""
    monkeypatch.setattr(embedded.embedded_sentiment, "PAIRED", 1.0)
    corpus = generate("sentiment", size=1000, difficulty=2, seed=0)
    for split in SPLITS:
        assert all(labels[0] == labels[1] for labels in labels_by_bag(corpus, split).values())
    assert baselines(corpus)["tfidf_unigrams"]["test"]["accuracy"] == 0.5


def test_texts_without_a_word_have_the_constant_alone(sentiment: Corpus) -> None:
    """Emoji are no words, and TF-IDF needs some."""
    rows = {split: table.num_rows for split, table in sentiment.splits.items()}
    splits = {
        split: table.set_column(0, "sentence", pa.array(["🙂", "!!!"] * (rows[split] // 2) + ["?"] * (rows[split] % 2)))
        for split, table in sentiment.splits.items()
    }
    assert [*baselines(sentiment._replace(splits=splits))] == ["majority_class"]


def test_words_in_another_order_mean_something_else(sentiment: Corpus) -> None:
    """Negative control: the two parts of a contrast change places, and with the same words the label turns round."""
    changed = 0
    for (sentence,), label in rows(sentiment, "test"):
        body = sentence.removesuffix(" .")
        if Verdict(sentence).depth == 1 and body.count(" , ") == 1:
            head, rest = body.split(" , ")
            if head.startswith(("although ", "while ")):
                word, first = head.split(" ", 1)
                other = f"{word} {rest} , {first} ."
            else:
                word, second = rest.split(" ", 1)
                other = f"{second} , {word} {head} ."
            assert sorted(other.split()) == sorted(sentence.split())
            assert verdict((other,)) == 1 - label
            changed += 1
    assert changed > 200


def test_default_sentiment_keeps_a_bag_of_words_in_its_band(sentiment: Corpus) -> None:
    design = sentiment.facts["design"]
    assert isinstance(design, dict)
    figures = baselines(sentiment)
    assert figures["tfidf_unigrams"]["test"]["accuracy"] < design["tfidf_unigram_below"] == 0.65
    assert figures["tfidf_bigrams"]["test"]["accuracy"] < design["tfidf_bigram_below"] == 0.75
    assert sentiment.facts["bayes_ceiling"] == 1.0


def test_difficulty_is_depth_of_nesting() -> None:
    depths = []
    for difficulty in (1, 2, 3, 4, 6):
        found = rows(generate("sentiment", size=2000, difficulty=difficulty, seed=0))
        depth = [Verdict(sentence).depth for (sentence,), _ in found]
        assert max(depth) == difficulty
        depths.append(mean(depth))
    assert depths == sorted(depths)
    assert depths == pytest.approx([0.45 * difficulty for difficulty in (1, 2, 3, 4, 6)], rel=0.05)


# Determinism


def test_another_process_with_another_hash_seed_writes_the_same() -> None:
    code = f"""
from generated_meaning import digest
from isoscope.data.embedded import generate
print(*(digest(generate(name, size=size, difficulty=2, seed=0)) for name, size in {SIZES}.items()))
"""
    folders = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": "4321", "PYTHONPATH": folders}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert out.stdout.split() == list(GOLDEN.values())


@pytest.mark.parametrize("generator", GOLDEN)
def test_every_argument_counts(generator: str) -> None:
    base = {"size": 300, "difficulty": 2, "seed": 0}
    state = random.getstate()
    variants = [base, {**base, "size": 302}, {**base, "difficulty": 3}, {**base, "seed": 1}]
    assert len({digest(generate(generator, **variant)) for variant in variants}) == len(variants)
    assert digest(generate(generator, **base)) == digest(generate(generator, **base))
    assert random.getstate() == state, "the global random state was touched"


# Bad input


@pytest.mark.parametrize(
    "generator, place, value, size, expected",
    [
        ("sentiment", "embedded_sentiment.PARTS", ("plot",), 6000, r"sentences of depth 0 after \d+ examples; lower"),
        ("translation", "embedded_translation.LENGTHS", range(1, 2), 500, r"sentences after \d+ examples; lower"),
    ],
)
def test_a_size_above_the_distinct_texts_is_refused(
    monkeypatch: pytest.MonkeyPatch, generator: str, place: str, value: object, size: int, expected: str
) -> None:
    monkeypatch.setattr(f"isoscope.data.{place}", value)
    start = rf"^size = {size}: the generator '{generator}' at difficulty 1 runs out of distinct "
    with pytest.raises(InputError, match=start + expected):
        generate(generator, size=size, difficulty=1, seed=0)


def test_design_is_stated_for_the_calibrated_settings_only(sentiment: Corpus) -> None:
    assert "design" in sentiment.facts
    for change in ({"size": 7202}, {"difficulty": 1}, {"seed": 1}):
        settings = {**DEFAULT, **change}
        facts = generate("sentiment", **settings).facts
        assert "design" not in facts
        assert {key: facts[key] for key in DEFAULT} == settings
