"""Batches as pure functions of (seed, epoch): shuffled, bucketed by length, padded to the longest example.

To resume at step k, slice the list of batches at k.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from isoscope.data.arrays import Indices
from isoscope.data.tokens import Encoded


class Batch(NamedTuple):
    """Padded int64 arrays of a batch: `labels` `[B]`, the others `[B, L]`; `attention_mask` is 0 on padding."""

    input_ids: Indices
    token_type_ids: Indices
    attention_mask: Indices
    labels: Indices


def shuffled(count: int, *key: int) -> Indices:
    """Return 0..count-1 in an order drawn for `key`.

    Sorts raw 64-bit draws: NumPy guarantees a stable stream for a bit generator, but not for `permutation`.
    """
    draws = np.random.PCG64(np.random.SeedSequence(key)).random_raw(count)
    return np.argsort(draws, kind="stable")


def draw_fraction(labels: Indices, fraction: float, *, seed: int) -> Indices:
    """Return the ascending rows of a seeded draw of `fraction` of each class (rounded, at least 1 row); 1 draws all.

    A larger fraction contains the rows of a smaller fraction, so learning curves over fractions are nested.
    """
    order = shuffled(len(labels), seed, 0, 2)
    kept = [
        rows[: max(1, round(fraction * len(rows)))]
        for one in np.unique(labels)
        if len(rows := order[labels[order] == one])
    ]
    return np.sort(np.concatenate(kept))


def drawn_rows(count: int, most: int, *key: int) -> Indices:
    """Return at most `most` of `count` rows, ascending, drawn for `key`."""
    return np.sort(shuffled(count, *key, 0, 3)[:most])


def epoch_batches(lengths: Indices, *, batch_size: int, seed: int, epoch: int, bucket: int) -> list[Indices]:
    """Return the row numbers of each batch of an epoch; every example occurs once, the partial batch is kept.

    Examples are shuffled, cut into buckets of `bucket` batches, sorted by length (in tokens) within a bucket, and cut
    into batches; then the batches are shuffled. `bucket` 1 is a plain shuffle. Larger buckets: less padding, less
    random batches.
    """
    order = shuffled(len(lengths), seed, epoch, 0)
    run = bucket * batch_size
    batches = [
        rows[start : start + batch_size]
        for rows in (_by_length(order[first : first + run], lengths) for first in range(0, len(order), run))
        for start in range(0, len(rows), batch_size)
    ]
    return [batches[number] for number in shuffled(len(batches), seed, epoch, 1)]


def evaluation_batches(lengths: Indices, *, batch_size: int) -> list[Indices]:
    """Return row numbers in batches of decreasing length: minimal padding, and out-of-memory errors come first."""
    rows = _by_length(np.arange(len(lengths)), lengths)[::-1]
    return [rows[start : start + batch_size] for start in range(0, len(rows), batch_size)]


def collate(encoded: Encoded, rows: Sequence[int] | Indices, *, pad_id: int) -> Batch:
    """Return the examples `rows`, padded with `pad_id` to the longest of them."""
    width = max((len(encoded.ids[row]) for row in rows), default=0)
    input_ids = np.full((len(rows), width), pad_id, np.int64)
    token_type_ids, attention_mask = np.zeros_like(input_ids), np.zeros_like(input_ids)
    for place, row in enumerate(rows):
        length = len(encoded.ids[row])
        input_ids[place, :length] = encoded.ids[row]
        token_type_ids[place, :length] = encoded.type_ids[row]
        attention_mask[place, :length] = 1
    return Batch(input_ids, token_type_ids, attention_mask, encoded.labels[rows])


def _by_length(rows: Indices, lengths: Indices) -> Indices:
    return rows[np.argsort(lengths[rows], kind="stable")]
