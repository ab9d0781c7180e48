"""The probe set: held-out sentences, with the words and tokens to analyse."""

import hashlib
import re
from bisect import bisect_right
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.arrays import Flags, Indices
from isoscope.data.batches import shuffled
from isoscope.data.corpus import texts
from isoscope.data.scripts import continues
from isoscope.data.tokens import Encoded, Tokenizer


class Words(NamedTuple):
    """All words of sampled sentences: sentence, text, and tokens `begin` … `end` − 1 of each word; `[W]` each."""

    sentence: Indices
    begin: Indices
    end: Indices
    text: list[str]


class SwappedWords(NamedTuple):
    """Sentences with two neighbouring words swapped: sentence numbers, and tokens."""

    sentence: Indices
    encoded: Encoded


class ProbeSet(NamedTuple):
    """Sentences with their tokens, sampled words, and subsets for further analyses.

    `rows`: their rows `[n]` in the split; `special`: mask of special tokens such as [CLS], per sentence; `shifted`:
    half of the sentences with two words swapped; `block`: sentences whose embedding-block parts are stored; `attended`:
    sentences in the attention pass.
    """

    rows: Indices
    texts: list[tuple[str, ...]]
    encoded: Encoded
    special: list[Flags]
    words: Words
    shifted: SwappedWords
    block: Indices
    attended: Indices
    groups: Indices | None = None
    """Number of each sentence's group; None: each is alone."""

    @property
    def digest(self) -> str:
        """sha256 (hex) of tokens, labels and samples."""
        found = hashlib.sha256()
        ids = (self.encoded.ids, self.encoded.type_ids, self.shifted.encoded.ids)
        for arrays in (*ids, [self.encoded.labels], self.words[:3], [self.block, self.attended]):
            for array in arrays:
                found.update(np.ascontiguousarray(array, dtype=np.int64).tobytes() + b"\0")
        return found.hexdigest()


def draw_rows(split: pa.Table, others: list[pa.Table], *, share: float, most: int | None, seed: int) -> Indices:
    """Return ascending rows of `split`: a seeded draw of `share` of its distinct texts that are not in `others`.

    Draws at most `most` rows. Raises `InputError` if fewer than 4 are left.
    """
    known = {text for table in others for text in texts(table)}
    found = texts(split)
    fresh = [row for row in pd.Series(found, dtype=object).drop_duplicates().index if found[row] not in known]
    count = round(share * len(fresh)) if most is None else min(most, round(share * len(fresh)))
    if count < 4:
        raise InputError(f"probe set: {count} sentences that are in no other split; give it a larger share or split")
    return np.sort(np.array(fresh, np.int64)[shuffled(len(fresh), seed, 0)[:count]])


def probe_set(
    tokenizer: Tokenizer,
    table: pa.Table,
    rows: Indices,
    *,
    max_length: int,
    words: int,
    block: int,
    attended: int,
    seed: int,
) -> ProbeSet:
    """Return the probe set of the sentences `rows` of `table`, truncated to `max_length` tokens.

    `block`, `attended`: numbers of sentences. Sentences are drawn until they contain `words` words; all their words are
    kept, so that the mean over a sentence's words is complete. The tokenizer's pre-tokenization defines words; words
    also end at spaces. Words cut off by `max_length` are left out. Labels are the table's, or −1.
    """
    taken = table.take(rows)
    found = texts(taken)
    encodings = list(tokens.encodings(tokenizer, taken, max_length=max_length, offsets=True))
    encoded = tokens.encoded(encodings, tokens.classes(taken))
    spans = [
        (number, *span, found[number][part][slice(*place)].lower())
        for number, one in enumerate(encodings)
        for part, span, place in _spans(one, found[number])
        if place[0] < place[1]  # else the word of these spaces is cut off
    ]
    kept = _whole_sentences(spans, len(rows), words, seed)
    sentence, begin, end = (np.array([span[part] for span in kept], np.int64) for part in range(3))
    shifted = _shifted(encoded, [[span for span in spans if span[0] == number] for number in range(len(rows))], seed)
    return ProbeSet(
        rows,
        found,
        encoded,
        [np.array(one.special_tokens_mask, bool) for one in encodings],
        Words(sentence, begin, end, [span[3] for span in kept]),
        shifted,
        np.sort(shuffled(len(rows), seed, 2)[:block]),
        np.sort(shuffled(len(rows), seed, 3)[:attended]),
        taken["group"].to_numpy() if "group" in taken.column_names else None,
    )


def _spans(encoding: Any, text: tuple[str, ...]) -> list[tuple[int, tuple[int, int], tuple[int, int]]]:
    """Return (part of the pair, tokens, characters) of each word of `text`'s `Encoding`.

    A tokenizer without pre-tokenization (Llama, Gemma) treats a sentence as one word, so words also end at spaces. A
    token of spaces belongs to the following word, and a mark to the word before it (GPT-2 splits there). A word that is
    cut off is left out.
    """
    words, parts, places = encoding.word_ids, encoding.sequence_ids, encoding.offsets
    between = [[match.span() for match in re.finditer(r"\S+", part)] for part in text]
    found: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
    before = None
    for token, (word, part) in enumerate(zip(words, parts, strict=True)):
        if word is None or part is None:
            before = None
            continue
        first, last = places[token]
        here = bisect_right(between[part], first, key=lambda span: span[1])
        if here == len(between[part]):  # spaces at the end
            before = None
            continue
        start = between[part][here][0]
        marked = before is not None and before[::2] == (part, here) and _joined(text[part], first)
        if marked or before in ((part, word, here), (part, None, here)):
            _, (begin, _), (first, _) = found[-1]
            found[-1] = (part, (begin, token + 1), (first, max(first, last)))
        else:
            found.append((part, (token, token + 1), (max(first, start), max(last, start))))
        before = (part, None if last <= start else word, here)  # a token of spaces belongs to no word yet
    ends = {span[0]: span for span in found} if encoding.overflowing else {}
    return [span for span in found if span is not ends.get(span[0]) or not _cut(encoding, text, span)]


def _cut(encoding: Any, text: tuple[str, ...], span: tuple[int, tuple[int, int], tuple[int, int]]) -> bool:
    """Return whether the tokens beyond an `Encoding`'s `max_length` have the rest of the last word of a part."""
    part, (_, end), (_, last) = span
    beyond = [
        (first, word)
        for rest in encoding.overflowing
        for word, of, (first, _) in zip(rest.word_ids, rest.sequence_ids, rest.offsets, strict=True)
        if of == part and first >= last
    ]
    first, word = min(beyond, default=(last, None))
    spaced = not beyond or any(map(str.isspace, text[part][last:first]))
    return not spaced and (word == encoding.word_ids[end - 1] or _joined(text[part], first))


def _joined(text: str, place: int) -> bool:
    """Return whether a mark joins the characters before and at a place into one word."""
    before, here = text[place - 1 : place], text[place : place + 1]
    return continues(here) or (continues(before) and here.isalnum())


def _whole_sentences(spans: list[Any], sentences: int, words: int, seed: int) -> list[Any]:
    """Return the words of sentences in a drawn order until there are `words` or more; sorted by sentence and place."""
    counts = np.bincount([span[0] for span in spans], minlength=sentences)
    order = shuffled(sentences, seed, 1)
    before = np.cumsum(counts[order]) - counts[order]
    chosen = set(order[before < words].tolist())
    return [span for span in spans if span[0] in chosen]


def _shifted(encoded: Encoded, words: list[list[Any]], seed: int) -> SwappedWords:
    """Return a seeded half of the sentences with four or more words, each with two neighbouring words swapped."""
    fit = [number for number, spans in enumerate(words) if len(spans) >= 4]
    chosen = np.sort(np.array(fit, np.int64)[shuffled(len(fit), seed, 5)[: len(fit) // 2]])
    kept, ids = [], []
    for number in chosen:
        spans, own = words[number], encoded.ids[number]
        pairs = [
            (one, other)
            for one, other in pairwise(spans)
            if one[2] == other[1] and not np.array_equal(own[one[1] : one[2]], own[other[1] : other[2]])
        ]
        if pairs:
            (_, first, middle, _), (_, _, last, _) = pairs[shuffled(len(pairs), seed, 6, int(number))[0]]
            kept.append(int(number))
            ids.append(np.concatenate([own[:first], own[middle:last], own[first:middle], own[last:]]))
    rows = np.array(kept, np.int64)
    return SwappedWords(rows, Encoded(ids, [encoded.type_ids[row] for row in rows], encoded.labels[rows], 0))
