"""Runs of language models obey the laws of the loop: resumed equals whole, accumulated equals one batch, budgets."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from isoscope.base.errors import InputError
from isoscope.training.progress import InterruptedRunError
from language_material import ALLOCATED, OBJECTIVES, SELECTED, causal_lm, masked_lm, pairs, translates
from training_runs import WORDS, equal, files, make_loop, weights


@pytest.mark.parametrize("make", OBJECTIVES)
def test_stopped_and_resumed_gives_the_same_bytes(tmp_path: Path, make: Any) -> None:
    calls = iter(range(1, 100))
    settings = {"make": make, "table": pairs, "allocation": ALLOCATED, **SELECTED}
    whole = make_loop(tmp_path / "whole", **settings)
    whole.test(whole.fit())
    with pytest.raises(InterruptedRunError):
        make_loop(tmp_path / "parts", stop=lambda: next(calls) == 8, **settings).fit()
    rest = make_loop(tmp_path / "parts", **settings)
    assert rest.progress.step == 8
    rest.test(rest.fit())
    assert equal(weights(whole), weights(rest))
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")
    closure = pd.read_parquet(tmp_path / "whole/work/closure.parquet")
    assert closure["closed"].all()
    stacks = set(pd.read_parquet(tmp_path / "whole/work/allocation.parquet")["stack"])
    assert stacks == {masked_lm: {"enc"}, causal_lm: {"dec"}, translates: {"enc", "dec", "cross"}}[make]


@pytest.mark.parametrize("make", OBJECTIVES)
def test_accumulation_equals_one_batch(tmp_path: Path, make: Any) -> None:
    """Micro-batches have unequal numbers of predicted tokens; the loss is a mean over those of the whole batch."""
    settings = {"make": make, "table": pairs, "dropout": 0.0, "epochs": 1, **SELECTED}
    parts = {number: make_loop(tmp_path / str(number), accumulation=number, **settings) for number in (1, 3)}
    for loop in parts.values():
        loop.fit()
    one, three = (weights(loop) for loop in parts.values())
    for name, value in one.items():
        torch.testing.assert_close(value, three[name], rtol=1e-4, atol=1e-5)


def test_each_objective_learns_a_small_set_by_heart(tmp_path: Path) -> None:
    for make in OBJECTIVES:
        loop = make_loop(
            tmp_path / make.__name__, make=make, table=pairs, rows=8, dropout=0.0, epochs=200, learning_rate=2e-2,
            schedule={"kind": "linear", "warmup": 0.1, "epochs": None}, keep="last", **SELECTED,
        )  # fmt: skip
        loop.rehearse(200)
        loss = loop._evaluate("train", []).tally.metrics()["loss"]
        before = np.log(len(WORDS))
        assert loss < 0.5 * before, (make.__name__, loss)


@pytest.mark.parametrize("kind, number", [("updates", 8), ("tokens", 300), ("predictions", 250)])
def test_a_budget_ends_the_run_with_the_update_that_reaches_it(tmp_path: Path, kind: str, number: int) -> None:
    settings: dict[str, Any] = {"make": causal_lm, "table": pairs, "epochs": 9, **SELECTED}
    loop = make_loop(tmp_path, budget={"kind": kind, "number": number}, **settings)
    spent = 0.0
    steps = [(epoch, rows) for epoch in range(1, 10) for rows in loop.objective.plan("train", epoch)]
    step = 0
    for epoch, rows in steps:
        step += 1
        of = {"updates": 1, "tokens": loop.objective.tokens("train", rows)}
        spent += of.get(kind, loop.objective.weight("train", rows, epoch))
        if spent >= number:
            break
    assert loop.total == step
    assert loop.total % loop.per_epoch  # ends within an epoch
    loop.fit()
    assert (loop.progress.step, loop.progress.epochs_done) == (step, loop.epochs)
    assert loop.optimizer.param_groups[0]["lr"] < 0.2 * loop.optimizer.param_groups[0]["peak"]


def test_a_budget_beyond_the_epochs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^training\.budget\.number: 9,999 updates, but"):
        make_loop(tmp_path, budget={"kind": "updates", "number": 9999})
