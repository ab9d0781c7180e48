"""Classes of tokens by frequency, and by the shortest context that predicts them, from counts on the training split."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isoscope.data.arrays import Floats, Ids, Indices
from isoscope.data.ngrams import windows_of

FREQUENCIES = ("frequent", "middle", "rare")
CONTEXTS = ("unigram", "bigram", "context")
CLASSES = tuple((frequency, context) for frequency in FREQUENCIES for context in CONTEXTS)
"""Frequency and context of each class, by its number."""


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
