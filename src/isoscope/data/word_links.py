"""Which words of two texts in different languages belong together: learned from sentence pairs, or read from a file.

The learned links are those of a model with a table of word translations and a preference for the diagonal, in both
directions; what both directions link is kept. Sources: Brown et al. 1993 (https://aclanthology.org/J93-2003), model 1;
Dyer et al. 2013 (https://aclanthology.org/N13-1073), the diagonal.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.data.arrays import Floats, Indices
from isoscope.data.encoding import check_utf8
from isoscope.data.word_table import WordTable, every_word
from isoscope.data.words import segmenter_of, words

Words = Sequence[Sequence[str]]
"""The words of each sentence."""
Links = list[list[tuple[int, int]]]
"""For each sentence pair: places of linked words, in the first text and in the second."""
ITERATIONS = 5
DIAGONAL, NOTHING = 4.0, 0.08
"""Strength of the preference for the diagonal, and prior of a word that translates none; those of fast_align."""


class Cells(NamedTuple):
    """Every pair of a word to explain and a word that may explain it, over all sentence pairs.

    `target`: number of the word to explain, over the corpus; `pair`: number of the pair of forms; `source`: number of
    the explaining form, 0 for none; `place`: its place in its sentence, −1 for none; `prior`: see `learned_links`.
    """

    target: Indices
    pair: Indices
    source: Indices
    place: Indices
    prior: Floats


def learned_links(one: Words, other: Words, *, iterations: int = ITERATIONS) -> Links:
    """Return which words of sentence pairs are linked, learned from these pairs by expectation maximisation.

    A word at place j of n is explained by the word at place i of m with probability t(word | word) · prior, the prior
    proportional to exp(−4 |i/m − j/n|), or by no word with prior .08. Raises `InputError` for unequal numbers of
    sentences.
    """
    if len(one) != len(other):
        raise InputError(f"{len(one)} and {len(other)} sentences: expected pairs")
    forward, back = (_best(first, second, iterations) for first, second in ((one, other), (other, one)))
    return [
        sorted((i, j) for j, i in enumerate(explained) if i >= 0 and explaining[i] == j)
        for explained, explaining in zip(forward, back, strict=True)
    ]


def read_links(path: Path, one: Words, other: Words) -> Links:
    """Read links in Pharaoh's format: a line per sentence pair with places `i-j`, counted from 0.

    Raises `InputError`, naming the line, for anything else, and for a place that a sentence does not have.
    """
    if not path.is_file():
        raise InputError(f"--links {path}: no such file")
    data = path.read_bytes()
    check_utf8(data, path)
    lines = data.decode("utf-8-sig").splitlines()
    if not len(lines) == len(one) == len(other):
        raise InputError(f"{path}: {len(lines)} lines for {len(one)} sentence pairs")
    found: Links = []
    for number, (line, first, second) in enumerate(zip(lines, one, other, strict=True), 1):
        links = []
        for text in line.split():
            i, _, j = text.partition("-")
            if not (i.isdecimal() and j.isdecimal()):
                raise InputError(f"{path}, line {number}: {text!r} is no link; expected places such as 0-1")
            if int(i) >= len(first) or int(j) >= len(second):
                raise InputError(
                    f"{path}, line {number}: {text}, but the sentences have {len(first)}, {len(second)} words"
                )
            links.append((int(i), int(j)))
        found.append(links)
    return found


def _best(one: Words, other: Words, iterations: int) -> list[list[int]]:
    """Return for each word of the second text the place of the word that explains it best, −1 for none."""
    cells = _cells(one, other)
    chance = np.ones(int(cells.pair.max(initial=-1)) + 1)
    of_pair = np.zeros(len(chance), np.int64)
    of_pair[cells.pair] = cells.source
    for _ in range(iterations):
        weight = cells.prior * chance[cells.pair]
        weight /= np.bincount(cells.target, weight)[cells.target]
        counts = np.bincount(cells.pair, weight, minlength=len(chance))
        chance = counts / np.bincount(of_pair, counts)[of_pair]
    score = cells.prior * chance[cells.pair]
    order = np.lexsort((score, cells.target))
    last = np.flatnonzero(np.append(np.diff(cells.target[order]), 1))
    places = iter(cells.place[order[last]].tolist())
    return [[next(places) for _ in sentence] for sentence in other]


def _cells(one: Words, other: Words) -> Cells:
    (sources, starts, m), (targets, _, n) = _numbered(one), _numbered(other)
    if not len(targets):
        raise InputError("text: no sentence pair has words")
    pair = np.repeat(np.arange(len(n)), n)
    choices = m[pair] + 1  # no word, or a word of the other sentence
    target = np.repeat(np.arange(len(targets)), choices)
    place = np.arange(len(target)) - np.repeat(np.cumsum(choices) - choices, choices) - 1
    source = np.where(place < 0, 0, np.append(sources, 0)[starts[pair[target]] + place] + 1)
    forms = np.unique(source * (targets.max() + 1) + targets[target], return_inverse=True)[1]
    priors = [_prior(*sizes) for sizes in zip(m.tolist(), n.tolist(), strict=True)]
    return Cells(target, forms, source, place, np.concatenate(priors))


def _prior(m: int, n: int) -> Floats:
    """Return the prior of no word and of m words for each of n words, by word."""
    near = np.exp(-DIAGONAL * np.abs((np.arange(m) + 1) / max(m, 1) - (np.arange(n)[:, None] + 1) / max(n, 1)))
    near *= (1 - NOTHING) / np.maximum(near.sum(1, keepdims=True), 1e-300)
    return np.insert(near, 0, NOTHING, axis=1).ravel()


def _numbered(text: Words) -> tuple[Indices, Indices, Indices]:
    """Return the number of each word's form, the first word of each sentence, and the words of each sentence."""
    counts = np.array([len(sentence) for sentence in text], np.int64)
    forms = pd.factorize(np.array([word for sentence in text for word in sentence], object))[0]
    return forms, np.cumsum(counts) - counts, counts


class Linked(NamedTuple):
    """All words of the translations of a table's sentences, and the row among them of each word's link, −1 for none."""

    table: WordTable
    rows: Indices

    @property
    def digest(self) -> str:
        """sha256 (hex) of the drawn translations."""
        return hashlib.sha256(json.dumps(self.table.texts).encode()).hexdigest()

    @property
    def links(self) -> str:
        """sha256 (hex) of the links."""
        return hashlib.sha256(self.rows.tobytes()).hexdigest()


class Translation(NamedTuple):
    """A translation of each sentence of a text, and a file of links in Pharaoh's format.

    Without a file the links are learned from the sentence pairs. `origin`: file name and column, as text.
    """

    sentences: list[str]
    links: Path | None
    origin: str

    def linked(self, texts: Sequence[str], table: WordTable) -> Linked:
        """Return the words that are linked to those of a table, whose sentences were drawn from `texts`.

        Raises `InputError` if a text lacks its translation, if no word is linked, and as `segmenter_of`.
        """
        if len(texts) != len(self.sentences):
            raise InputError(
                f"{self.origin}: {len(self.sentences)} sentences for {len(texts)}; fill or drop empty cells"
            )
        by = segmenter_of(self.sentences, self.origin)
        one, other = (
            [[form for form, _, _ in words(text, segmented=segmenter is not None)] for text in side]
            for side, segmenter in ((texts, table.by), (self.sentences, by))
        )
        links = read_links(self.links, one, other) if self.links else learned_links(one, other)
        starts = np.cumsum([0, *(len(other[number]) for number in table.drawn)])
        first = [dict(reversed(links[number])) for number in table.drawn]
        places = zip(table.sentences.tolist(), table.rows["position"], strict=True)
        rows = np.array([starts[at] + first[at][word] if word in first[at] else -1 for at, word in places], np.int64)
        if (rows < 0).all():
            raise InputError(f"{self.origin}: no word is linked to a word of the text")
        return Linked(every_word([self.sentences[number] for number in table.drawn], by), rows)
