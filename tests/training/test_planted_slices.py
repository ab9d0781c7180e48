"""Planted sources of order 0, 1 and 2 in one corpus: which part of a model learns which of them, and when."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from isoscope.data import tokens
from isoscope.objectives import Task
from isoscope.objectives.causal import Causal
from training_runs import make_loop

NAMES = "abcdefghijklmnopqrstuvwxyz"
SIZES = (2, 8, 16)
"""Symbols of the source of each order; no two sources share a symbol."""
LENGTH = 10
ATTENTION = ["query", "key", "value", "out"]
SLICED = {
    "sentences": 48, "estimator": "simpson", "tolerance": None, "most_splits": 16, "dense": 2, "chords": 12,
    "probability": 0.08,
}  # fmt: skip
"""The end and each symbol of order 0 have more than 8 % of all tokens; a symbol of order 2 follows each with 6 %."""


def planted(rows: int, seed: int) -> pa.Table:
    """Texts of one source each. A symbol follows from that `order` places before it, nine times out of ten."""
    draw, texts = np.random.default_rng(seed), []
    for row in range(rows):
        order = row % len(SIZES)
        symbols = draw.integers(SIZES[order], size=LENGTH)
        following = np.random.default_rng(order).permutation(SIZES[order])
        for place in range(order, LENGTH) if order else ():
            if draw.random() < 0.9:
                symbols[place] = following[symbols[place - order]]
        texts.append(" ".join(NAMES[sum(SIZES[:order]) + one] for one in symbols))
    return pa.table({"sentence": texts})


class Planted(Causal):
    """A causal model whose weights start large enough to learn the sources in a few updates."""

    def build(self, model: Any, checkpoint: Any) -> Any:
        changed = {"hidden_size": 32, "intermediate_size": 64, "init_std": 0.1, "initializer_range": 0.1}
        return super().build(model | {"encoder": model["encoder"] | changed}, checkpoint)


def objective(task: Task) -> Planted:
    tokens.train_wordpiece([" ".join(NAMES)] * 9, task.tokenizer, vocab_size=60, lowercase=True)
    return Planted(task, side="source", share=1.0, tied=True)


def trained(folder: Path, *, frozen: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return values by context, update and component, and losses in nats per token by update and context."""
    slices = SLICED | ({"dense": 0, "chords": 1} if frozen else {})
    loop = make_loop(
        folder, make=objective, table=planted, rows=960, dropout=0.0, epochs=8, batch_size=48, learning_rate=5e-3,
        select="loss", checkpoint_every=1000, log_every=100, slices=slices,
    )  # fmt: skip
    for name, parameter in loop.raw_model.named_parameters():
        if frozen and (".attention.self." in name or ".attention.output.dense" in name):
            parameter.requires_grad_(False)
    loop.test(loop.fit())
    found, closure = (pd.read_parquet(loop.work / f"{name}.parquet") for name in ("slices", "slices_closure"))
    assert frozen or closure["closed"].mean() >= 0.95, "a frozen model has a single interval, too long to close"
    keys = ["context", "update"]
    values = found[found["set"] == "train"].groupby([*keys, "component"], observed=True)["value"].sum().unstack()
    sums = closure[closure["set"] == "train"].groupby(keys, observed=True)[["tokens", "before", "after"]].sum()
    return values, sums[["before", "after"]].div(sums["tokens"], axis=0)


@pytest.fixture(scope="module")
def learned(tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, pd.DataFrame]:
    return trained(tmp_path_factory.mktemp("learned"), frozen=False)


def test_the_order_of_a_source_is_the_order_in_which_it_is_learned(learned: Any) -> None:
    _, losses = learned
    half = {}
    for context, own in losses.groupby("context", observed=True):
        first, last = own["before"].iloc[0], own["after"].iloc[-1]
        assert first - last > 1.0, "each slice is learned"
        half[context] = next(update for (_, update), loss in own["after"].items() if loss <= (first + last) / 2)
    assert half["unigram"] < half["bigram"] < half["context"]


def test_the_word_table_and_the_head_learn_order_0_first_and_attention_learns_order_2(learned: Any) -> None:
    values, _ = learned
    shares = values.groupby("context", observed=True).sum()
    shares = shares.div(shares.sum(axis="columns"), axis="index")
    assert shares.loc["unigram", ["emb", "other"]].sum() > 0.5
    assert shares.loc["context", ATTENTION].sum() > 2 * shares.loc["unigram", ATTENTION].sum()
    first = values.xs(values.index.get_level_values("update").min(), level="update")[["emb", "other"]].sum(axis=1)
    assert first.idxmin() == "unigram", "the most negative allocation helps most"


def test_frozen_attention_does_not_learn_order_2(tmp_path: Path, learned: Any) -> None:
    values, losses = trained(tmp_path, frozen=True)
    assert (values[ATTENTION] == 0).all(axis=None)
    order_2, uniform = losses.loc["context", "after"].iloc[-1], np.log(SIZES[2])
    assert order_2 > uniform - 0.2, "no better than the symbols of the source"
    assert learned[1].loc["context", "after"].iloc[-1] < uniform - 0.5
    assert losses.loc["unigram", "after"].iloc[-1] < 1.0
