"""Runs of language models obey the laws of the loop: resumed equals whole, accumulated equals one batch, budgets."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from isoscope.base.errors import InputError
from language_material import OBJECTIVES, SELECTED, causal_lm, pairs
from training_runs import WORDS, make_loop


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
