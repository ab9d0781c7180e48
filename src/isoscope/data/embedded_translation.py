"""Generate sentences of pseudo-words from a Markov source of order 2, and their translation by a fixed rule.

Source: 300 words in four classes, each class with frequencies near Zipf's law. A sentence has 4 to 12 words; each
length is equally probable. The first word is any noun, adjective or particle. A later word is one of a few successors
of the two words before it: of the last word and the class of the word before. The k-th successor has a probability
proportional to 1 / k.

Translation: each word has one translation. A particle begins a new clause. In each clause, an adjective directly before
a noun moves behind it, and verbs move to the end, in their order.
"""

from collections import Counter
from math import fsum, log

from isoscope.data.draws import PATIENCE, Draws, SpentError

CLASSES = {"noun": 140, "verb": 80, "adjective": 60, "particle": 20}
"""Words of each class."""
AFTER = {
    "noun": ("verb", "verb", "verb", "particle", "noun"),
    "verb": ("noun", "noun", "adjective", "particle"),
    "adjective": ("noun", "noun", "noun", "adjective"),
    "particle": ("noun", "adjective"),
}
"""Classes of the successors of a word; a repeated class is more probable."""
FIRST = ("noun", "adjective", "particle")
LENGTHS = range(4, 13)
SUCCESSORS = 3  # of a context, times the difficulty
SHARES = 60  # of the first successor; the k-th has 60 / k, rounded
SYLLABLES = {
    "sentence1": [consonant + vowel for consonant in "bdgklmnprst" for vowel in "aeiou"],
    "sentence2": [vowel + consonant for vowel in "aeiouy" for consonant in "fhjlnrsvxz"],
}
"""Two make a word of the source language, or of the target language."""


class Language:
    """Words, classes, successors and translations, drawn from `draws`."""

    def __init__(self, draws: Draws, difficulty: int) -> None:
        self._draws = draws
        source, target = (
            draws.shuffled([one + two for one in syllables for two in syllables]) for syllables in SYLLABLES.values()
        )
        self.class_of = {source.pop(): name for name, size in CLASSES.items() for _ in range(size)}
        self.translation = {word: target.pop() for word in self.class_of}
        words = {name: [word for word, own in self.class_of.items() if own == name] for name in CLASSES}
        self._stock = {
            name: [word for rank, word in enumerate(own, 1) for _ in range(_share(len(own), rank))]
            for name, own in words.items()
        }
        self.first = [word for name in FIRST for word in self._stock[name]]
        self.ranks = [rank for rank in range(SUCCESSORS * difficulty) for _ in range(_share(SHARES, rank + 1))]
        self._successors: dict[tuple[str, str], list[str]] = {}

    def successors(self, before: str | None, last: str) -> list[str]:
        """Return the words that may follow `last`, which follows `before`, most probable first; drawn when needed."""
        context = (self.class_of[before] if before else "", last)
        if context not in self._successors:
            found: dict[str, None] = {}
            while len(found) <= self.ranks[-1]:
                found[self._draws.pick(self._stock[self._draws.pick(AFTER[self.class_of[last]])])] = None
            self._successors[context] = list(found)
        return self._successors[context]

    def sentence(self) -> list[str]:
        """Return the words of a source sentence."""
        length, words = self._draws.pick(LENGTHS), [self._draws.pick(self.first)]
        while len(words) < length:
            successors = self.successors(words[-2] if len(words) > 1 else None, words[-1])
            words.append(successors[self._draws.pick(self.ranks)])
        return words

    def translated(self, words: list[str]) -> list[str]:
        """Return the words of the translation."""
        found: list[str] = []
        clause: list[str] = []
        for word in words:
            if self.class_of[word] == "particle":
                found, clause = found + self._reordered(clause), []
            clause.append(word)
        return [self.translation[word] for word in found + self._reordered(clause)]

    def _reordered(self, clause: list[str]) -> list[str]:
        words, place = list(clause), 0
        while place + 1 < len(words):
            if [self.class_of[word] for word in words[place : place + 2]] == ["adjective", "noun"]:
                words[place : place + 2] = words[place + 1], words[place]
                place += 1
            place += 1
        return sorted(words, key=lambda word: self.class_of[word] == "verb")

    @property
    def entropy(self) -> float:
        """Entropy of the source in nats per word, the end of the sentence counted as a word.

        (H(length) + H(first word) + (mean length − 1) · H(successor)) / (mean length + 1), which is exact: lengths are
        independent of words, and every context has the same probabilities of its successors.
        """
        mean = sum(LENGTHS) / len(LENGTHS)
        return (log(len(LENGTHS)) + _entropy(self.first) + (mean - 1) * _entropy(self.ranks)) / (mean + 1)


def pairs(draws: Draws, difficulty: int, size: int) -> tuple[list[tuple[str, str]], dict[str, object]]:
    """Return `size` pairs of a source sentence and its translation, with different sources, and facts about them.

    Repeated sentences are drawn again. Raises `SpentError` if no new sentence is found.
    """
    language, found, again, repeats = Language(draws, difficulty), dict[str, str](), 0, 0
    while len(found) < size:
        words = language.sentence()
        if (text := " ".join(words)) in found:
            again, repeats = again + 1, repeats + 1
            if again == PATIENCE:
                raise SpentError(f"sentences after {len(found)} examples")
            continue
        found[text], again = " ".join(language.translated(words)), 0
    facts: dict[str, object] = {
        "source_entropy": {"value": round(language.entropy, 6), "unit": "nats per word, the end counted as a word"},
        "repeats_drawn_again": repeats,
        "rule": "verbs move to the end of their clause, adjectives behind their noun; one translation per word",
    }
    return [*found.items()], facts


def _share(whole: int, rank: int) -> int:
    return max(1, round(whole / rank))


def _entropy(choices: list[str] | list[int]) -> float:
    return -fsum(count / len(choices) * log(count / len(choices)) for count in Counter(choices).values())
