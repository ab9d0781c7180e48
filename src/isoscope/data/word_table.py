"""Word occurrences at which several models are compared: one splitter, one sample, and where a tokenizer has them.

The table names each occurrence by sentence and position. States of two models are joined on it, row by row.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.arrays import Flags, Indices
from isoscope.data.batches import shuffled
from isoscope.data.scripts import without_marks
from isoscope.data.tokens import Encoded, Tokenizer
from isoscope.data.words import segmenter_of, words

KEY = ["sentence", "position", "form"]
UNKNOWN = -1
"""Frequency of a form where no text is given to count it in."""
UNTAGGED = ""
"""Tag of a word where the text has no tags."""


class WordTable(NamedTuple):
    """Sampled word occurrences of some sentences.

    `rows`, a row per occurrence: sentence (its number in `texts`), position (of the word in its sentence, from 0), form
    (lower case, NFC), frequency (of the form in the training data), tag (part of speech), begin and end (characters).
    `drawn`: numbers of the sentences in the text they were drawn from. `by`: the segmenter of texts without spaces
    between words, with its version.
    """

    texts: list[str]
    drawn: Indices
    rows: pd.DataFrame
    by: str | None = None

    @property
    def sentences(self) -> Indices:
        """The sentence of each occurrence."""
        found: Indices = self.rows["sentence"].to_numpy(np.int64)
        return found


def tags_at(begins: Sequence[int], parts: Sequence[str], tags: Sequence[str]) -> list[str]:
    """Return the tag of each word that begins at these characters of `parts` (tokens) joined by spaces.

    It is that of the token with the word's first character, whatever other tokens the word covers.
    """
    ends = np.cumsum([len(part) + 1 for part in parts])
    return [tags[place] for place in np.searchsorted(ends, begins, side="right")]


def word_table(
    texts: Sequence[str],
    *,
    occurrences: int,
    per_sentence: int,
    seed: int,
    counted: Iterable[str] | None = None,
    tagged: Sequence[tuple[Sequence[str], Sequence[str]]] | None = None,
    origin: str = "text",
) -> WordTable:
    """Return a seeded sample of `occurrences` words or a few more, at most `per_sentence` from a sentence.

    Sentences are distinct and have two or more words. `counted`: the training sentences, for the forms' frequencies.
    `tagged`: of each text, the tokens that it joins by spaces, and their tags. Raises `InputError`, naming the `origin`
    of the texts, if there is no such sentence, or as `segmenter_of`.
    """
    by = segmenter_of(texts, origin)
    split = partial(words, segmented=by is not None)
    numbers = pd.Series(texts, dtype=object).drop_duplicates().index.to_numpy(np.int64)
    drawn: list[int] = []
    found: list[tuple[int, int, str, int, int]] = []
    tags: list[str] = []
    for number in numbers[shuffled(len(numbers), seed, 7)]:
        own = split(texts[number])
        if len(own) < 2:
            continue
        chosen = sorted(shuffled(len(own), seed, 8, int(number))[:per_sentence].tolist())
        found += [(len(drawn), position, *own[position]) for position in chosen]
        if tagged is not None:
            tags += tags_at([own[position][1] for position in chosen], *tagged[number])
        drawn.append(int(number))
        if len(found) >= occurrences:
            break
    if not drawn:
        raise InputError(f"{origin}: no sentence has two words or more")
    rows = pd.DataFrame(found, columns=[*KEY, "begin", "end"])
    counts = None if counted is None else Counter(form for text in counted for form, _, _ in split(text))
    rows["frequency"] = UNKNOWN if counts is None else [counts[form] for form in rows["form"]]
    rows["tag"] = tags if tagged is not None else UNTAGGED
    return WordTable([texts[number] for number in drawn], np.array(drawn, np.int64), rows, by)


def every_word(texts: Sequence[str], by: str | None = None) -> WordTable:
    """Return all words of all texts, in order; `by`: the segmenter that they need, see `segmenter_of`."""
    found = [
        (number, position, *word)
        for number, text in enumerate(texts)
        for position, word in enumerate(words(text, segmented=by is not None))
    ]
    rows = pd.DataFrame(found, columns=[*KEY, "begin", "end"]).assign(frequency=UNKNOWN, tag=UNTAGGED)
    return WordTable([*texts], np.arange(len(texts)), rows, by)


class Located(NamedTuple):
    """A word table in a tokenizer's tokens: the sentences, and for each occurrence its tokens `begin` … `end` − 1.

    `found`: False for words that are cut off, whose tokens are empty.
    """

    encoded: Encoded
    sentence: Indices
    begin: Indices
    end: Indices
    found: Flags


def located(table: WordTable, tokenizer: Tokenizer, *, max_length: int) -> Located:
    """Return where a tokenizer has each word of a table: all tokens that have a character of it.

    A token of the space alone ("▁") belongs to the following word where the tokenizer itself does not part them.
    Sentences are truncated to `max_length` tokens, special tokens included; a word that is cut off is not found.
    """
    column = pa.table({"sentence": table.texts})
    encodings = list(tokens.encodings(tokenizer, column, max_length=max_length, offsets=True))
    count = len(table.rows)
    begin, end, found = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, bool)
    places = table.rows[["begin", "end"]].to_numpy(np.int64)
    sentences = table.sentences
    for number, encoding in enumerate(encodings):
        offsets = np.array(encoding.offsets, np.int64).reshape(-1, 2)
        special = np.array(encoding.special_tokens_mask, bool)
        text = ~special & (offsets[:, 1] > offsets[:, 0])
        blank = ~special & np.array([not table.texts[number][slice(*place)].strip() for place in offsets])
        for row in range(*np.searchsorted(sentences, [number, number + 1]).tolist()):  # rows are in their order
            first, last = places[row]
            own = np.flatnonzero(text & (offsets[:, 0] < last) & (offsets[:, 1] > first))
            # A tokenizer that removes accents has no token for marks at the end.
            if len(own) and offsets[own[-1], 1] >= without_marks(table.texts[number], last, first):
                start = own[0]
                while start and blank[start - 1] and encoding.word_ids[start - 1] == encoding.word_ids[start]:
                    start -= 1
                begin[row], end[row], found[row] = start, own[-1] + 1, True
    return Located(tokens.encoded(encodings, tokens.classes(column)), sentences, begin, end, found)


def common(table: WordTable, keys: Sequence[pd.DataFrame]) -> Flags:
    """Return which words of a table all models have, `[W]`, given each model's rows: the columns `KEY` and `found`.

    Raises `InputError` if a model's rows are not exactly the table's, and if no word is left.
    """
    for number, own in enumerate(keys, 1):
        if own[KEY].to_numpy().tolist() != table.rows[KEY].to_numpy().tolist():
            raise InputError(f"states of model {number}: their rows are not the words of the word table")
    kept = np.all([own["found"].to_numpy(bool) for own in keys], axis=0)
    if not kept.any():
        raise InputError("no word is in all spaces; give a larger max_length or shorter sentences")
    return kept
