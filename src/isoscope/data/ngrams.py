"""Counts of tokens in their contexts: language models as baselines of text tasks, and classes of predicted tokens.

Models: add-one unigrams and interpolated Kneser–Ney trigrams. Classes: by frequency, and by the shortest context that
predicts a token. Sequences are token ids `[CLS] text [SEP]`. [CLS] is context and is never predicted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.data.arrays import Flags, Floats, Ids, Indices

FREQUENCIES = ("frequent", "middle", "rare")
CONTEXTS = ("unigram", "bigram", "context")
CLASSES = tuple((frequency, context) for frequency in FREQUENCIES for context in CONTEXTS)
"""Frequency and context of each class, by its number."""
Baselines = dict[str, dict[str, dict[str, dict[str, float | int]]]]


class Order(NamedTuple):
    """Counts of the n-grams of one order, by n-gram; by context: their sum, and `types`, the number of n-grams.

    N-grams and contexts are numbers in base V.
    """

    counts: pd.Series
    contexts: pd.DataFrame
    discount: float


class Trigrams(NamedTuple):
    """A fitted model: its orders 1, 2 and 3, and the number V of ids that probabilities sum over."""

    orders: tuple[Order, ...]
    vocab_size: int

    def probabilities(self, windows: Indices) -> Floats:
        """Return the probability of the last token of each window `[n, 3]`, given the first two: `[n]`.

        p(w | context) = (max(count − D, 0) + D · types · p(w | shorter context)) / total, down to 1 / V. A context
        without counts leaves the shorter context's probability.
        """
        found = np.full(len(windows), 1 / self.vocab_size)
        for length, order in enumerate(self.orders, start=1):
            grams = _coded(windows[:, -length:], self.vocab_size)
            count = order.counts.reindex(grams, fill_value=0).to_numpy()
            total, types = order.contexts.reindex(grams // self.vocab_size, fill_value=0).to_numpy().T
            mixed = np.maximum(count - order.discount, 0) + order.discount * types * found
            found = np.where(total > 0, mixed / np.maximum(total, 1), found)
        return found


def fit_trigrams(windows: Indices, *, vocab_size: int) -> Trigrams:
    """Fit interpolated Kneser–Ney with one absolute discount per order to the training windows `[n, 3]`.

    Trigrams have their counts; a shorter n-gram has the number of different tokens before it. The discount of an order
    is n₁ / (n₁ + 2 n₂), with n₁ and n₂ the n-grams with counts 1 and 2; ½ if no count is 1, so that every token keeps a
    probability. Source: Chen & Goodman 1999 (doi:10.1006/csla.1999.0128).
    """
    grams = _coded(windows, vocab_size)
    orders: list[Order] = []
    for length in (3, 2, 1):
        counts = pd.Series(grams % vocab_size**length).value_counts()
        contexts = counts.groupby(counts.index // vocab_size).agg(["sum", "size"])
        once, twice = (int((counts == number).sum()) for number in (1, 2))
        orders.insert(0, Order(counts, contexts, once / (once + 2 * twice) if once else 0.5))
        grams = counts.index.to_numpy()
    return Trigrams(tuple(orders), vocab_size)


def _coded(grams: Indices, vocab_size: int) -> Indices:
    """Return n-grams `[n, k]` as numbers in base `vocab_size` `[n]`; with 10⁶ ids, trigrams fit in 64 bits."""
    return np.ravel_multi_index(tuple(grams.T), (vocab_size,) * grams.shape[1])


def windows_of(sequences: Sequence[Ids]) -> tuple[Indices, Flags]:
    """Return each predicted token after its two predecessors `[n, 3]`, and whether it ends its sequence `[n]`.

    A sequence is preceded by a second [CLS], so that its first token has two predecessors, too.
    """
    flat = np.concatenate([np.concatenate([ids[:1], ids]) for ids in sequences]).astype(np.int64)
    ends = np.cumsum([len(ids) + 1 for ids in sequences])
    starts = np.append(0, ends[:-1])
    predicted = np.ones(len(flat), bool)
    predicted[starts] = predicted[starts + 1] = False
    last = np.zeros(len(flat), bool)
    last[ends - 1] = True
    places = np.flatnonzero(predicted)
    return np.stack([flat[places - 2], flat[places - 1], flat[places]], axis=1), last[places]


def unigrams(tokens: Indices, *, vocab_size: int) -> Floats:
    """Return each id's add-one probability `[V]`: (count + 1) / (n + V), for n training tokens."""
    return (np.bincount(tokens, minlength=vocab_size) + 1) / (len(tokens) + vocab_size)


def baselines(splits: Mapping[str, Mapping[str, Sequence[Ids]]], *, vocab_size: int) -> Baselines:
    """Return `{model: {split: {column: {n, loss}}}}` on validation and test, fitted on train.

    `splits`: split → text column → token ids `[CLS] text [SEP]` of each row. n: number of predicted tokens; loss: mean
    cross-entropy in nats per predicted token. `unigram` and `trigram` predict the text and [SEP], as a causal model
    does; `unigram_masked` predicts the text only, as a masked model does. Raises `InputError` if all texts of a column
    are empty.
    """
    found: Baselines = {name: {"validation": {}, "test": {}} for name in ("unigram", "unigram_masked", "trigram")}
    for column, rows in splits["train"].items():
        windows, last = windows_of(rows)
        every, text = (unigrams(own[:, -1], vocab_size=vocab_size) for own in (windows, windows[~last]))
        trigrams = fit_trigrams(windows, vocab_size=vocab_size)
        for split in ("validation", "test"):
            windows, last = windows_of(splits[split][column])
            if last.all():
                raise InputError(f"{split}: all texts in column {column!r} are empty; a language model needs text")
            found["unigram"][split][column] = _loss(every[windows[:, -1]])
            found["unigram_masked"][split][column] = _loss(text[windows[~last, -1]])
            found["trigram"][split][column] = _loss(trigrams.probabilities(windows))
    return found


def _loss(probabilities: Floats) -> dict[str, float | int]:
    """Return n and loss; rounded, because the last digits of a logarithm differ between processors."""
    return {"n": len(probabilities), "loss": round(float(-np.log(probabilities).mean()), 6)}


class TokenClasses(NamedTuple):
    """What decides a token's class: bands and unigrams by token `[V]`, and the sorted predicted pairs `[n]`.

    A pair of a token and its predecessor is coded as `predecessor · V + token`.
    """

    bands: Indices
    unigrams: Indices
    pairs: Indices

    def numbers(self, previous: Indices, tokens: Indices) -> Indices:
        """Return the number of each token's class, `[n]`, for tokens `[n]` and the tokens before them."""
        alone = np.isin(tokens, self.unigrams)
        paired = np.isin(previous.astype(np.int64) * len(self.bands) + tokens, self.pairs)
        context = np.where(alone, 0, np.where(paired, 1, 2))
        return self.bands[tokens] * len(CONTEXTS) + context


def token_classes(texts: Sequence[Ids], *, vocab_size: int, probability: float) -> TokenClasses:
    """Return the classes of tokens by their counts in `texts`, token ids `[CLS] text [SEP]`; [CLS] is not predicted.

    - Frequency: a token's band is the third of all tokens in which the more frequent tokens end. So each band has about
      a third of all tokens, equally frequent tokens share a band, and unseen tokens are rare.
    - Context: `unigram` if the token's share of all tokens is at least `probability`; else `bigram` if its share after
      its predecessor is; else `context`. A share leaves out one occurrence, `(count − 1) / (total − 1)`, so that a text
      of the training split does not predict itself: what occurs once is never predicted.

    The class is a property of a token in its text, not of a model: masked, causal and translation models that read the
    same texts have the same classes.
    """
    windows, _ = windows_of(texts)
    previous, tokens = windows[:, 1], windows[:, 2]
    counts = np.bincount(tokens, minlength=vocab_size)
    pairs, occurrences = np.unique(previous * vocab_size + tokens, return_counts=True)
    after = np.bincount(previous, minlength=vocab_size)[pairs // vocab_size]
    return TokenClasses(
        _bands(counts),
        np.flatnonzero(_shares(counts, len(tokens)) >= probability),
        pairs[_shares(occurrences, after) >= probability],
    )


def _bands(counts: Indices) -> Indices:
    descending = np.sort(counts)[::-1]
    before = np.concatenate([[0], np.cumsum(descending)])
    more_frequent = before[np.searchsorted(-descending, -counts)]  # tokens whose count is larger
    return np.minimum(len(FREQUENCIES) * more_frequent // max(int(before[-1]), 1), len(FREQUENCIES) - 1)


def _shares(counts: Indices, totals: Indices | int) -> Floats:
    return (counts - 1) / np.maximum(np.asarray(totals) - 1, 1)
