"""Allocation by slice: slices add up to the set and close, leave no trace, and tell planted sources by part."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
import torch

from example_objectives import example
from isoscope.base.errors import InputError
from isoscope.data.ngrams import token_classes
from isoscope.objectives import Task
from isoscope.training.allocation_sets import undisturbed
from isoscope.training.loop import Loop
from isoscope.training.observers.slices import Slices, SliceSet
from language_material import ALLOCATED, OBJECTIVES, causal_lm, masked_lm, pairs
from training_runs import equal, make_loop, weights

SLICED: dict[str, Any] = {
    "sentences": 16, "estimator": "simpson", "tolerance": None, "most_splits": 16, "dense": 1, "chords": 2,
    "probability": 0.12,
}  # fmt: skip
HOT = {"schedule": {"kind": "linear", "warmup": 0.0, "epochs": None}, "learning_rate": 5e-3, "select": "loss"}
BLOCK = ["update", "set", "stack", "layer", "component"]


def denoises(task: Task) -> Any:
    return example("denoising")(task, rate=0.3, tied=True)


def continues(task: Task) -> Any:
    return example("prefix")(task, tied=True)


def finished(folder: Path, *, asked: dict[str, Any] | None = None, **settings: Any) -> Loop:
    loop = make_loop(folder, slices=SLICED | (asked or {}), table=pairs, **HOT | settings)
    loop.test(loop.fit())
    return loop


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
    plain = make_loop(tmp_path / "plain", make=causal_lm, table=pairs, **HOT)
    plain.test(plain.fit())
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
        path = SliceSet(loop.objective, "train", *line, sentences=16, classes=classes)
        with undisturbed(loop.raw_model, observer.parameters):
            found = observer.integrated(path, start, end).values[0]
        return found, path.losses[0.0]

    for one, first, second in zip(sums(0, 1), sums(0, 2), sums(1, 2), strict=True):
        assert (one == first + second).all()
        assert first.any()
        assert second.any()
