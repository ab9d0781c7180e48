"""Parse the meaning of generated text from its words, independently of the generator."""

import hashlib
import json
from collections.abc import Callable

from isoscope.data.corpus import SPLITS, Corpus

Text = tuple[str, ...]

WORDS = {
    1: (
        "brilliant charming clever elegant fresh gripping honest moving superb witty better smarter agreed believed "
        "claimed felt quite truly very"
    ),
    -1: (
        "awful bland clumsy dull hollow lazy messy shallow stale tedious poorer worse denied disputed doubted hardly "
        "never not"
    ),
}
POLARITY = {word: sign for sign, words in WORDS.items() for word in words.split()}
FILM = {"film", "movie"}
OTHER_WORKS = {"book", "original", "series"}


class Verdict:
    """Recursive descent over the words of a sentence: its verdict, +1 or -1, and its depth of nesting."""

    def __init__(self, sentence: str) -> None:
        *self.words, stop = sentence.split()
        assert stop == "."
        self.meaning, self.depth = self.sentence()
        assert not self.words, f"words left over: {self.words}"

    def take(self, *expected: str) -> str:
        word = self.words.pop(0)
        assert not expected or word in expected, f"{word!r}, expected {expected}"
        return word

    def sentence(self) -> tuple[int, int]:
        a, depth_a = self.inner()
        if not self.words:
            return a, depth_a
        self.take(",")
        word = self.take("but", "although")
        b, depth_b = self.inner()
        assert a == -b, "a contrast needs two that disagree"
        return (a if word == "although" else b), 1 + max(depth_a, depth_b)

    def inner(self) -> tuple[int, int]:
        if self.words[0] in ("although", "while"):
            self.take()
            a, depth_a = self.inner()
            self.take(",")
            b, depth_b = self.inner()
            assert a == -b, "a contrast needs two that disagree"
            return b, 1 + max(depth_a, depth_b)
        if self.words[2] == "that":
            self.take("critics", "fans", "reviewers", "viewers")
            verb = self.take()
            self.take("that")
            said, depth = self.inner()
            return POLARITY[verb] * said, 1 + depth
        return self.clause(), 0

    def clause(self) -> int:
        self.take("the")
        subject = self.take()
        self.take("was", "seemed")
        word = self.take()
        if self.words[:2] == ["than", "the"]:
            self.words = self.words[2:]
            other = self.take()
            assert len({subject, other} & FILM) == len({subject, other} & OTHER_WORKS) == 1
            return POLARITY[word] * (1 if subject in FILM else -1)
        if self.words and self.words[0] == "rather":
            self.take("rather")
            self.take("than")
            assert POLARITY[self.take()] == -POLARITY[word]
            return POLARITY[word]
        if word not in ("hardly", "never", "not", "quite", "truly", "very"):
            return POLARITY[word]
        adjective = self.take()
        if word == "not" and self.words and self.words[0] == "but":
            self.take()
            preferred = self.take()
            assert POLARITY[preferred] == -POLARITY[adjective]
            return POLARITY[preferred]
        return POLARITY[word] * POLARITY[adjective]


def verdict(text: Text) -> int:
    """0 blame, 1 praise."""
    return int(Verdict(text[0]).meaning > 0)


ORACLES: dict[str, Callable[[Text], int]] = {"sentiment": verdict}


def digest(corpus: Corpus) -> str:
    """sha256 of all rows of a corpus, in their order."""
    rows = {split: corpus.splits[split].to_pylist() for split in SPLITS}
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
