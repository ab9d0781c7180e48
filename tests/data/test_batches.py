"""Batches are pure functions of (seed, epoch, example), lose no example and have little padding."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoscope.data.batches import collate, draw_fraction, epoch_batches, evaluation_batches
from isoscope.data.tokens import Encoded

# Sentence lengths as in film reviews: log-normal, mean near 25, a long tail.
LENGTHS = np.clip(np.random.Generator(np.random.PCG64(0)).lognormal(3.1, 0.5, 3000), 3, 128).astype(np.int64)


def waste(batches: list[np.ndarray], lengths: np.ndarray = LENGTHS) -> float:
    """Share of padding among all positions computed."""
    return 1 - sum(lengths[rows].sum() for rows in batches) / sum(len(rows) * lengths[rows].max() for rows in batches)


sizes = {
    "batch_size": st.integers(1, 40),
    "bucket": st.integers(1, 9),
    "seed": st.integers(0, 2**32),
    "epoch": st.integers(0, 99),
}


@settings(max_examples=100, deadline=None)
@given(lengths=st.lists(st.integers(1, 60), max_size=300), **sizes)
def test_every_example_occurs_once_and_one_batch_at_most_is_short(
    lengths: list[int], batch_size: int, bucket: int, seed: int, epoch: int
) -> None:
    batches = epoch_batches(np.array(lengths, np.int64), batch_size=batch_size, seed=seed, epoch=epoch, bucket=bucket)
    assert sorted(row for rows in batches for row in rows) == list(range(len(lengths)))
    assert len(batches) == -(-len(lengths) // batch_size)
    assert sum(len(rows) < batch_size for rows in batches) <= 1


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(1, 60), max_size=300), batch_size=st.integers(1, 40))
def test_evaluation_takes_every_example_once_by_falling_length(lengths: list[int], batch_size: int) -> None:
    batches = evaluation_batches(np.array(lengths, np.int64), batch_size=batch_size)
    taken = [int(row) for rows in batches for row in rows]
    assert sorted(taken) == list(range(len(lengths)))
    assert [lengths[row] for row in taken] == sorted(lengths, reverse=True)


PROGRAM = """
import hashlib, numpy as np
from isoscope.data.batches import epoch_batches
for seed, epoch in ((7, 3), (8, 3), (7, 4), (3, 7)):
    rows = epoch_batches(np.arange(500) % 37 + 1, batch_size=32, seed=seed, epoch=epoch, bucket=4)
    print(hashlib.sha256(b"|".join(row.astype("<i8").tobytes() for row in rows)).hexdigest()[:16])
"""


def test_the_order_is_of_seed_and_epoch_and_the_same_in_every_process_and_release(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A golden: a resumed run slices this list, so it must never change."""
    exec(PROGRAM)
    found = capsys.readouterr().out
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout == found
    assert found.split()[0] == "01ea3d679a7791ad"
    assert len({*found.split()}) == 4


def test_every_place_in_an_epoch_is_as_likely_for_every_example() -> None:
    """Short and long examples come early and late alike: mean place over 400 epochs, against its standard error."""
    lengths = np.arange(60)
    places = np.zeros((400, 60))
    for epoch in range(400):
        order = np.concatenate(epoch_batches(lengths, batch_size=4, seed=0, epoch=epoch, bucket=5))
        places[epoch, order] = np.arange(60)
    error = np.sqrt((60**2 - 1) / 12 / 400)
    assert np.abs(places.mean(0) - 29.5).max() < 4 * error


def test_buckets_cut_the_padding_and_a_plain_shuffle_does_not() -> None:
    """Share of padding at batch size 32: .60 shuffled, .33 in buckets of 4 batches, .13 of 16, .04 of 64."""
    for bucket, least, most in ((1, 0.5, 1.0), (4, 0.0, 0.35), (16, 0.0, 0.15), (64, 0.0, 0.06)):
        assert least < waste(epoch_batches(LENGTHS, batch_size=32, seed=0, epoch=1, bucket=bucket)) < most
    assert waste(evaluation_batches(LENGTHS, batch_size=32)) < 0.03


def encoded(*ids: list[int]) -> Encoded:
    return Encoded(
        [np.array(one, np.int32) for one in ids],
        [np.array([0, *[1] * (len(one) - 1)], np.int32) for one in ids],
        np.arange(len(ids)),
        0,
    )


def test_an_empty_part_of_a_batch_collates() -> None:
    batch = collate(encoded([2, 3]), np.array([], np.int64), pad_id=0)
    assert batch.input_ids.shape == (0, 0)
    assert batch.labels.shape == (0,)


def test_collation_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    vocabulary = {token: number for number, token in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"])}
    peer = transformers.DataCollatorWithPadding(transformers.BertTokenizerFast(vocab=vocabulary), return_tensors="np")
    ids = [[2, 5, 5, 3], [2, 3], [2, 5, 3]]
    ours = collate(encoded(*ids), np.array([2, 0]), pad_id=0)
    rows = [{"input_ids": ids[row], "token_type_ids": [0, *[1] * (len(ids[row]) - 1)]} for row in (2, 0)]
    theirs = peer([row | {"attention_mask": [1] * len(row["input_ids"])} for row in rows])
    for name in ("input_ids", "token_type_ids", "attention_mask"):
        assert np.array_equal(getattr(ours, name), theirs[name])
    assert ours.labels.tolist() == [2, 0]


@given(labels=st.lists(st.integers(0, 3), min_size=1, max_size=200), seed=st.integers(0, 2**32))
def test_fractions_are_nested_balanced_and_drawn_by_the_seed(labels: list[int], seed: int) -> None:
    column, both = np.array(labels, np.int64), np.tile([0, 1], 100)
    third, half, all_of_it = (draw_fraction(column, share, seed=seed) for share in (0.3, 0.5, 1.0))
    assert set(third) <= set(half)
    assert all_of_it.tolist() == list(range(len(column)))
    for one in set(labels):
        assert int((column[half] == one).sum()) == max(1, round(0.5 * labels.count(one)))
    assert draw_fraction(both, 0.5, seed=seed).tolist() != draw_fraction(both, 0.5, seed=seed + 1).tolist()
