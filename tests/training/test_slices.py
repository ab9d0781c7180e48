"""Allocation by slice: slices add up to the set and close, leave no trace, and tell planted sources by part."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import torch

from example_objectives import example
from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.ngrams import token_classes
from isoscope.objectives import Task
from isoscope.objectives.causal import Causal
from isoscope.training.allocation_sets import undisturbed
from isoscope.training.loop import Loop
from isoscope.training.observers.slices import Slices, sliced_set
from language_material import ALLOCATED, OBJECTIVES, SLICED, causal_lm, masked_lm, pairs
from training_runs import completed, equal, make_loop, weights

HOT = {"schedule": {"kind": "linear", "warmup": 0.0, "epochs": None}, "learning_rate": 5e-3, "select": "loss"}
BLOCK = ["update", "set", "stack", "layer", "component"]


def denoises(task: Task) -> Any:
    return example("denoising")(task, rate=0.3, tied=True)


def continues(task: Task) -> Any:
    return example("prefix")(task, tied=True)


def finished(folder: Path, **settings: Any) -> Loop:
    return completed(folder, slices=SLICED, table=pairs, **HOT | settings)


def table(folder: Path, name: str = "slices") -> pd.DataFrame:
    return pd.read_parquet(folder / "work" / f"{name}.parquet")


@pytest.mark.parametrize("make", OBJECTIVES)
def test_slices_add_up_to_the_allocation_of_the_set_and_each_closes(tmp_path: Path, make: Any) -> None:
    finished(tmp_path, make=make, allocation=ALLOCATED | {"dense": 1, "chords": 2})
    found, closure = table(tmp_path), table(tmp_path, "slices_closure")
    whole, ends = table(tmp_path, "allocation"), table(tmp_path, "closure").query("not total")
    whole = whole[whole["set"] != "batch"]
    sums, expected = (one.groupby(BLOCK, observed=True, dropna=False)["value"].sum() for one in (found, whole))
    assert found.groupby([*BLOCK, "frequency", "context"], observed=True, dropna=False).size().eq(1).all()
    np.testing.assert_allclose(sums, expected.loc[sums.index], atol=2e-6 * expected.abs().max())
    of_set = closure.groupby(["set", "update"], observed=True)[["tokens", "before", "after", "change"]].sum()
    ends = ends.set_index(["set", "update"]).loc[of_set.index]
    np.testing.assert_allclose(of_set["tokens"], 1.0)
    for name in ("before", "after"):
        np.testing.assert_allclose(of_set[name], ends[name], rtol=1e-6)
    assert closure["closed"].all()
    assert (closure["gap"].abs() < 0.1 * closure["change"].abs().max()).all()
    assert closure.groupby(["frequency", "context"], observed=True).ngroups >= 3


@pytest.mark.parametrize("make", [*OBJECTIVES, denoises, continues])
def test_a_batch_by_class_has_each_predicted_token_once_and_its_predecessor_in_the_text(
    tmp_path: Path, make: Any
) -> None:
    objective = make_loop(tmp_path, make=make, table=pairs).objective
    texts, seen = objective.splits["train"].ids, []

    def numbers(previous: Any, tokens: Any) -> Any:
        seen.extend(zip(previous.tolist(), tokens.tolist(), strict=True))
        return tokens % 3

    rows = np.arange(objective.size("train"))
    batch, parts = objective.batch("train", rows, None), objective.by_class("train", rows, numbers)
    assert sum(len(part["labels"]) for part in parts.values()) == len(batch["labels"]) == len(seen)
    places = np.concatenate([part[objective.predicted] for part in parts.values()])
    assert sorted(places) == sorted(batch[objective.predicted])
    for number, part in parts.items():
        assert (part["labels"] % 3 == number).all()
        assert (part["attention_mask"] == batch["attention_mask"]).all()
    successive = {pair for text in texts for pair in zip(text[:-1].tolist(), text[1:].tolist(), strict=True)}
    assert set(seen) <= successive
    if make is not masked_lm:  # in order, row by row
        ends = np.flatnonzero([token == texts[0][-1] for _, token in seen])
        starts = [0, *(ends[:-1] + 1)]
        for text, start, end in zip(texts, starts, ends, strict=True):
            run = seen[start : end + 1]
            assert [token for _, token in run] == text[-len(run) :].tolist()
            assert [previous for previous, _ in run] == text[-len(run) - 1 : -1].tolist()


def test_it_changes_nothing(tmp_path: Path) -> None:
    plain = completed(tmp_path / "plain", make=causal_lm, table=pairs, **HOT)
    draws = torch.get_rng_state()
    observed = finished(tmp_path / "observed", make=causal_lm)
    assert torch.equal(torch.get_rng_state(), draws)
    assert equal(weights(plain), weights(observed))
    own = [[point for point in one.log.points if not point[0].startswith("speed/")] for one in (plain, observed)]
    assert own[0] == own[1]


def test_a_classifier_has_no_slices(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^training\.slices: objective Classification predicts no tokens"):
        make_loop(tmp_path, slices=SLICED)


class Process(NamedTuple):
    """The place of a process among several that do not reach each other."""

    rank: int
    size: int

    def sum(self, values: Any) -> Any:
        return values


def test_what_two_processes_allocate_adds_up_to_the_bits_of_a_single_process(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, make=causal_lm, table=pairs, slices=SLICED, **HOT)
    (observer,) = [one for one in loop.observers if isinstance(one, Slices)]
    start = observer.packed.read()
    loop.rehearse(2)
    end = observer.packed.read()
    classes = token_classes(loop.objective.splits["train"].ids, vocab_size=60, probability=0.12)

    def sums(rank: int, size: int) -> Any:
        ranks: Any = Process(rank, size)
        line = observer.packed, loop.raw_model, ranks
        path = sliced_set(loop.objective, "train", line, sentences=16, classes=classes)
        with undisturbed(loop.raw_model, observer.parameters):
            found = observer.integrated(path, start, end).values[0]
        return found, path.losses[0.0]

    for one, first, second in zip(sums(0, 1), sums(0, 2), sums(1, 2), strict=True):
        assert (one == first + second).all()
        assert first.any()
        assert second.any()


NAMES = "abcdefghijklmnopqrstuvwxyz"
SIZES = (2, 8, 16)
"""Symbols of the source of each order; no two sources share a symbol."""
LENGTH = 10
ATTENTION = ["query", "key", "value", "out"]
PLANTED = SLICED | {"sentences": 48, "dense": 2, "chords": 12, "probability": 0.08}
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
    slices = PLANTED | ({"dense": 0, "chords": 1} if frozen else {})
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
