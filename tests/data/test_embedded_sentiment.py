"""Trees of generated sentences are valid, use the sentence's words and match an annotator's trees."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from isoscope.base.atomic_files import sha256
from isoscope.data import embedded_sentiment, manifest, treebank
from isoscope.data.corpus import TREEBANK, texts
from isoscope.data.embedded import GENERATORS, generate
from isoscope.states.extract import files_of
from probe_material import pieces

TAGS = {
    *("ADJ", "ADP", "ADV", "AUX", "CCONJ", "DET", "INTJ", "NOUN", "NUM"),
    *("PART", "PRON", "PROPN", "PUNCT", "SCONJ", "SYM", "VERB", "X"),
}
"""The universal parts of speech: https://universaldependencies.org/u/pos."""


@pytest.mark.parametrize("difficulty", [1, 2, 5, 9])
@pytest.mark.parametrize("generator", GENERATORS)
def test_every_sentence_has_one_root_and_no_circle(generator: str, difficulty: int) -> None:
    corpus = generate(generator, size=900, difficulty=difficulty, seed=3)
    for split in corpus.splits.values():
        for sentence in {sentence for text in texts(split) for sentence in text}:
            tokens, tags, heads = GENERATORS[generator].tree(sentence)
            assert " ".join(tokens) == sentence
            assert len(tokens) == len(tags) == len(heads)
            assert set(tags) <= TAGS
            assert heads.count(0) == 1
            assert all(0 <= head <= len(heads) and head != word for word, head in enumerate(heads, 1))
            above = list(range(1, len(heads) + 1))
            for _ in heads:
                above = [0 if word == 0 else heads[word - 1] for word in above]
            assert not any(above), "every word is below the root"


@pytest.mark.parametrize("difficulty", [2, 4])
@pytest.mark.parametrize("generator", GENERATORS)
def test_no_two_edges_cross(generator: str, difficulty: int) -> None:
    """English of this kind is projective: a wrong head would mostly cross another edge."""
    for row in generate(generator, size=900, difficulty=difficulty, seed=1).trees.to_pylist():
        edges = [(min(word, head), max(word, head)) for word, head in enumerate(row["head"], 1)]
        assert not any(a < c < b < d for a, b in edges for c, d in edges), row


@pytest.mark.parametrize(
    "sentence, tags, heads",
    [
        ("the plot was truly superb .", "DET NOUN AUX ADV ADJ PUNCT", "2 5 5 5 0 5"),
        ("the plot seemed never dull .", "DET NOUN VERB ADV ADJ PUNCT", "2 3 0 5 3 3"),
        ("the plot was not dull but witty .", "DET NOUN AUX PART ADJ CCONJ ADJ PUNCT", "2 5 5 5 0 7 5 5"),
        ("the plot was witty rather than dull .", "DET NOUN AUX ADJ ADV ADP ADJ PUNCT", "2 4 4 0 7 5 4 4"),
        ("the film was better than the book .", "DET NOUN AUX ADJ ADP DET NOUN PUNCT", "2 4 4 0 7 7 4 4"),
        (
            "although critics felt that the plot was dull , the cast was superb .",
            "SCONJ NOUN VERB SCONJ DET NOUN AUX ADJ PUNCT DET NOUN AUX ADJ PUNCT",
            "3 3 13 8 6 8 8 3 3 11 13 13 0 13",
        ),
        (
            "the plot was dull , but the cast was superb .",
            "DET NOUN AUX ADJ PUNCT CCONJ DET NOUN AUX ADJ PUNCT",
            "2 4 4 0 10 10 8 10 10 4 4",
        ),
        (
            "the plot was dull , although the cast was superb .",
            "DET NOUN AUX ADJ PUNCT SCONJ DET NOUN AUX ADJ PUNCT",
            "2 4 4 0 10 10 8 10 10 4 4",
        ),
    ],
)
def test_sentiment_reads_as_an_annotator_would(sentence: str, tags: str, heads: str) -> None:
    assert embedded_sentiment.tree(sentence) == (sentence.split(), tags.split(), [int(head) for head in heads.split()])


@pytest.mark.parametrize("generator", GENERATORS)
def test_the_treebank_is_of_sentences_that_nobody_trains_on(generator: str, tmp_path: Path) -> None:
    corpus = generate(generator, size=900, difficulty=1, seed=0)
    kept = [" ".join(row["tokens"]) for row in corpus.trees.to_pylist()]
    of = {split: {one for text in texts(table) for one in text} for split, table in corpus.splits.items()}
    assert set(kept) == of["test"] - of["train"] - of["validation"]
    assert len(kept) == len(set(kept)) > 20
    written = manifest.write(corpus, tmp_path)
    assert written["files"][TREEBANK]["sha256"] == sha256(tmp_path / TREEBANK)  # type: ignore[index]
    bank = treebank.read(tmp_path / TREEBANK, pieces(tmp_path / "tokenizer"), sentences=20, max_length=64, seed=0)
    assert len(bank.encoded.ids) == 20
    assert (bank.depth == 0).sum() == 20
    assert set(bank.tag) <= TAGS


def test_the_word_task_means_the_trees_of_the_task(tmp_path: Path) -> None:
    own = SimpleNamespace(treebank=SimpleNamespace(file="task", sentences=5), pairs=None)
    assert files_of(own, tmp_path, tmp_path) == {}
    (tmp_path / TREEBANK).touch()
    assert files_of(own, tmp_path, tmp_path) == {"treebank": tmp_path / TREEBANK}
    assert files_of(SimpleNamespace(treebank=None, pairs=None), tmp_path, tmp_path) == {}
