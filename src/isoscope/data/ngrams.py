"""Language models by counting: add-one unigrams and interpolated Kneser–Ney trigrams, as baselines of text tasks.

Sequences are token ids `[CLS] text [SEP]`. [CLS] is context and is never predicted.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from isoscope.base.errors import InputError
from isoscope.data.arrays import Flags, Floats, Ids, Indices

Baselines = dict[str, dict[str, dict[str, dict[str, float | int]]]]


class Order(NamedTuple):
    """Counts of the n-grams of one order, coded as numbers in base V: sorted n-grams, and sorted contexts.

    `totals`: sum of the counts after each context; `types`: number of different tokens after it.
    """

    grams: Indices
    counts: Indices
    contexts: Indices
    totals: Indices
    types: Indices
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
            context = grams // self.vocab_size
            count, total, types = (
                _looked_up(keys, values, wanted)
                for keys, values, wanted in (
                    (order.grams, order.counts, grams),
                    (order.contexts, order.totals, context),
                    (order.contexts, order.types, context),
                )
            )
            mixed = np.maximum(count - order.discount, 0) + order.discount * types * found
            found = np.where(total > 0, mixed / np.maximum(total, 1), found)
        return found


def fit_trigrams(windows: Indices, *, vocab_size: int) -> Trigrams:
    """Fit interpolated Kneser–Ney with one absolute discount per order to the training windows `[n, 3]`.

    Trigrams have their counts; a shorter n-gram has the number of different tokens before it. The discount of an order
    is n₁ / (n₁ + 2 n₂), with n₁ and n₂ the n-grams with counts 1 and 2; ½ if no count is 1, so that every token keeps a
    probability. Source: Chen & Goodman 1999 (doi:10.1006/csla.1999.0128).
    """
    orders = [_order(*np.unique(_coded(windows, vocab_size), return_counts=True), vocab_size)]
    for length in (2, 1):
        suffixes = orders[0].grams % vocab_size**length
        orders.insert(0, _order(*np.unique(suffixes, return_counts=True), vocab_size))
    return Trigrams(tuple(orders), vocab_size)


def _order(grams: Indices, counts: Indices, vocab_size: int) -> Order:
    contexts, first = np.unique(grams // vocab_size, return_index=True)
    once, twice = (int((counts == number).sum()) for number in (1, 2))
    discount = once / (once + 2 * twice) if once else 0.5
    types = np.diff(np.append(first, len(grams)))
    return Order(grams, counts, contexts, np.add.reduceat(counts, first), types, discount)


def _coded(grams: Indices, vocab_size: int) -> Indices:
    """Return n-grams `[n, k]` as numbers in base `vocab_size` `[n]`; with 10⁶ ids, trigrams fit in 64 bits."""
    found = np.zeros(len(grams), np.int64)
    for column in grams.T:
        found = found * vocab_size + column
    return found


def _looked_up(keys: Indices, values: Indices, wanted: Indices) -> Indices:
    """Return the value of each `wanted` key, 0 for a key that is not in the sorted `keys`."""
    places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[places] == wanted, values[places], 0)


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
        models = {"unigram": unigrams(windows[:, -1], vocab_size=vocab_size)}
        models["unigram_masked"] = unigrams(windows[~last, -1], vocab_size=vocab_size)
        trigrams = fit_trigrams(windows, vocab_size=vocab_size)
        for split in ("validation", "test"):
            windows, last = windows_of(splits[split][column])
            text = windows[~last, -1]
            if not len(text):
                raise InputError(f"{split}: all texts in column {column!r} are empty; a language model needs text")
            found["unigram"][split][column] = _loss(models["unigram"][windows[:, -1]])
            found["unigram_masked"][split][column] = _loss(models["unigram_masked"][text])
            found["trigram"][split][column] = _loss(trigrams.probabilities(windows))
    return found


def _loss(probabilities: Floats) -> dict[str, float | int]:
    """Return n and loss; rounded, because the last digits of a logarithm differ between processors."""
    return {"n": len(probabilities), "loss": round(float(-np.log(probabilities).mean()), 6)}
