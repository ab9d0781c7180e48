"""Laws of the loop: resumed equals uninterrupted, accumulated equals whole, and a batch can be memorised."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fusions import FUSIONS
from isoscope.base.errors import InputError
from isoscope.platform.config.training import Training
from isoscope.training.progress import InterruptedRunError, Progress
from isoscope.training.ranks import make_accelerator
from language_material import ALLOCATED, OBJECTIVES, SELECTED, SLICED, causal_lm, masked_lm, pairs, translates
from training_runs import (
    PENALTIES,
    SETTINGS,
    WORDS,
    Killed,
    attributes,
    completed,
    equal,
    files,
    fitted,
    kill_in,
    logged,
    make_loop,
    stop_after,
    weights,
)

CONV2D = FUSIONS["conv2d-residual"] | {"bias": True}
KEPT: dict[str, Any] = {"snapshots": {"steps": "powers", "epochs": True}, "keep": "all", "fusion": CONV2D}


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("kept")
    fitted(folder, **KEPT)
    return files(folder / "work")


@pytest.mark.parametrize("step", range(1, 13))
def test_stopped_at_any_step_and_resumed_gives_the_same_bytes(
    tmp_path: Path, kept: dict[str, bytes], step: int
) -> None:
    with pytest.raises(InterruptedRunError):
        fitted(tmp_path, stop=stop_after(step), **KEPT)
    rest = make_loop(tmp_path, **KEPT)
    assert rest.progress.step == step
    rest.fit()
    assert files(tmp_path / "work") == kept


@pytest.mark.parametrize(
    "steps, at", [("none", []), ("powers", [0, 1, 2, 4, 8]), (5, [0, 5, 10]), (1, list(range(13)))]
)
def test_snapshots_are_kept_at_the_steps_asked_for(tmp_path: Path, steps: object, at: list[int]) -> None:
    fitted(tmp_path, snapshots={"steps": steps, "epochs": False})
    found = sorted(int(path.name.removeprefix("step-")) for path in (tmp_path / "work").rglob("step-*"))
    assert found == at


@pytest.mark.parametrize("fusion", [FUSIONS["additive"], CONV2D, FUSIONS["fft"]], ids=lambda one: one["kind"])
def test_best_so_far_and_patience_survive(tmp_path: Path, fusion: dict) -> None:
    """Stopped again and again, a run ends after the same epoch, with the same epoch chosen."""
    settings = {"epochs": 9, "patience": 1, "learning_rate": 2e-2, "select": "loss", "fusion": fusion}
    whole = make_loop(tmp_path / "whole", **settings)
    fitted = whole.fit()
    assert whole.progress.epochs_done < 9, "patience must run out"
    for _ in range(99):
        part = make_loop(tmp_path / "parts", **settings)
        part.stop = stop_after(4)
        try:
            again = part.fit()
        except InterruptedRunError:
            continue
        break
    assert again == fitted
    assert part.progress == whole.progress
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")


@pytest.mark.parametrize("make", OBJECTIVES)
def test_accumulation_is_the_whole_batch_by_predicted_tokens(tmp_path: Path, make: Any) -> None:
    """Micro-batches have unequal numbers of predicted tokens; the loss is a mean over those of the whole batch."""
    settings = {"make": make, "table": pairs, "dropout": 0.0, "epochs": 1, **SELECTED}
    one, three = (weights(fitted(tmp_path / str(parts), accumulation=parts, **settings)) for parts in (1, 3))
    for name, value in one.items():
        torch.testing.assert_close(value, three[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_accumulation_is_the_whole_batch(tmp_path: Path, parts: int) -> None:
    whole, split = (fitted(tmp_path / str(one), dropout=0.0, epochs=1, accumulation=one) for one in (1, parts))
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], value, atol=2e-5, rtol=0)
    np.testing.assert_allclose(*(logged(loop, "step/loss") for loop in (whole, split)), atol=1e-5)


@pytest.mark.parametrize("other", [{"accumulation": 2}, {"seed": 1}])
def test_accumulation_with_dropout_and_another_seed_differ(tmp_path: Path, other: dict[str, int]) -> None:
    """The negative control: with dropout another number of draws is made."""
    one, changed = (fitted(tmp_path / str(len(given)), epochs=1, **given) for given in ({}, other))
    assert not equal(weights(one), weights(changed))


def test_one_batch_is_learned_by_heart(tmp_path: Path) -> None:
    loop = fitted(tmp_path, rows=8, dropout=0.0, epochs=150, learning_rate=5e-3, weight_decay=0.0, log_every=150)
    first, *_, last = logged(loop, "train/loss")
    assert first > 0.5
    assert last < 0.01


def test_the_training_loss_is_the_mean_over_examples(tmp_path: Path) -> None:
    """44 rows in batches of 8 leave a batch of 4: the epoch's loss weights examples, not batches."""
    loop = fitted(tmp_path, epochs=1, learning_rate=1e-12)
    sizes = [len(rows) for rows in loop.objective.plan("train", 1)]
    assert sorted(sizes) == [4, 8, 8, 8, 8, 8]
    mean = np.average(logged(loop, "step/loss"), weights=sizes)
    assert logged(loop, "train/loss") == [pytest.approx(mean, rel=1e-6)]


def test_patience_stops_and_the_best_epoch_is_restored(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, epochs=40, patience=2, learning_rate=3e-2, select="loss", log_every=1000)
    fitted = loop.fit()
    losses = {epoch: value for name, value, _, epoch in loop.log.points if name == "validation/loss" and epoch}
    assert len(losses) < 40
    assert fitted == min(losses, key=losses.get) == len(losses) - 2
    assert loop._validate(None)["validation/loss"] == pytest.approx(losses[fitted], rel=1e-6)


@pytest.mark.parametrize("keep, expected", [("all", {1, 2, 3}), ("last", {3})])
def test_kept_checkpoints_and_states(tmp_path: Path, keep: str, expected: set[int]) -> None:
    loop = fitted(tmp_path, epochs=3, keep=keep, checkpoint_every=1)
    assert {epoch for epoch, _ in loop.keeper.kept()} == expected
    assert len(list((tmp_path / "states").glob("step-*"))) == 2


def test_the_first_losses_are_as_they_were(tmp_path: Path) -> None:
    """Golden trace of eight steps: an accidental change of a number shows here. No tolerance beyond fp32's order."""
    trace = logged(fitted(tmp_path, fusion=CONV2D), "step/loss")[:8]
    golden = json.loads((Path(__file__).parents[1] / "golden/loop_losses.json").read_text())
    np.testing.assert_allclose(trace, golden, rtol=2e-6)


def test_a_schedule_may_be_longer_than_the_run(tmp_path: Path) -> None:
    """Two epochs of a schedule for four equal the first two of the four."""
    longer = fitted(tmp_path / "four", epochs=4, keep="all")
    short = fitted(tmp_path / "two", epochs=2, keep="all", schedule={"kind": "linear", "warmup": 0.1, "epochs": 4})
    for epoch in (1, 2):
        file = f"epoch-{epoch}/model.safetensors"
        assert (short.keeper.checkpoints / file).read_bytes() == (longer.keeper.checkpoints / file).read_bytes()
    with pytest.raises(ValueError, match="less than epochs"):
        Training.model_validate(SETTINGS | {"epochs": 4, "schedule": {"kind": "linear", "warmup": 0.1, "epochs": 2}})


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


WATCHED = {"watch": {"layer": -1, "vectors": "first", "sample": 12, "clusters": 2}, "evaluations": 2}
FROZEN = {"after": 2, "until": None, "groups": ["enc.1.W1", "enc.emb"]}
RUNS: dict[str, dict[str, Any]] = {
    "plain": {},
    "masked, frozen, allocated": {"make": masked_lm, "table": pairs, "allocation": ALLOCATED, "freeze": FROZEN},
    "causal, allocated": {"make": causal_lm, "table": pairs, "allocation": ALLOCATED},
    "translation, allocated, sliced": {"make": translates, "table": pairs, "allocation": ALLOCATED, "slices": SLICED},
    "allocated": {"allocation": ALLOCATED | {"dense": 2, "chords": 2}},
    "isoscore": {"penalty": PENALTIES["isoscore"], **WATCHED},
    "random bars": {"penalty": PENALTIES["random"], **WATCHED},
    "tokens": {"penalty": PENALTIES["tokens"], **WATCHED},
    "shuffled": {"penalty": PENALTIES["shuffled"], **WATCHED},
    "with a baseline": {"frozen_head": {"most": 30}},
}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, dict[str, bytes]]:
    """The settings of a run, and what it writes if nothing happens to it."""
    folder = tmp_path_factory.mktemp("whole")
    completed(folder, **RUNS[request.param])
    return RUNS[request.param], files(folder / "work")


@pytest.mark.parametrize("signal, update, saved", [(stop_after, 8, 8), (kill_in, 6, 3)], ids=["stopped", "killed"])
def test_a_resumed_run_writes_the_same_bytes(tmp_path: Path, run: Any, signal: Any, update: int, saved: int) -> None:
    """A run that is killed between two states loses the updates after the earlier state."""
    settings, whole = run
    with pytest.raises((Killed, InterruptedRunError)):
        completed(tmp_path, stop=signal(update), **settings)
    rest = make_loop(tmp_path, **settings)
    assert rest.progress.step == saved
    rest.test(rest.fit())
    assert files(tmp_path / "work") == whole


def test_a_number_is_better_than_nan_whenever_it_comes() -> None:
    progress = Progress()
    assert [progress.close_epoch(value, "maximise") for value in (math.nan, math.nan, 0.1, math.nan, 0.2)] == [
        True, False, True, False, True,
    ]  # fmt: skip
    assert (progress.best_epoch, progress.best_value, progress.stale) == (5, 0.2, 0)


def test_the_end_of_a_budget_is_evaluated_once(tmp_path: Path) -> None:
    """Where it falls on an evaluation within the epoch."""
    loop = completed(tmp_path, budget={"kind": "updates", "number": 9}, evaluations=2, epochs=3)
    per_epoch = loop.per_epoch
    assert 9 % per_epoch == per_epoch // 2
    found = [(step, epoch) for name, _, step, epoch in loop.log.points if name == "validation/loss"]
    assert len(found) == len({step for step, _ in found})
    assert found[-1] == (9, loop.epochs)


def test_runs_of_one_process_may_have_different_precision() -> None:
    """As `accept` and `audit` compute the first updates of a study's arms again."""
    for precision in ("fp32", "bf16", "fp32"):
        training = attributes({"threads": None, "determinism": "seeded", "device": "cpu", "precision": precision})
        made = make_accelerator(training, unused=False)
        assert made.mixed_precision == ("bf16" if precision == "bf16" else "no")
