"""Laws of the loop: resumed equals uninterrupted, accumulated equals whole, and a batch can be memorised."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from isoscope.platform.config.training import Training
from isoscope.training.progress import DivergedError, InterruptedRunError
from language_material import OBJECTIVES, SELECTED, pairs
from training_runs import SETTINGS, Killed, diverging, equal, files, kill_in, make_loop, stop_after, weights

CONV2D = {
    "kind": "conv2d",
    "start": "residual",
    "sources": ["word", "position"],
    "token_type": "add",
    "normalisation": "none",
    "kernel_size": [3, 3],
    "activation": "gelu",
    "bias": True,
    "gate": None,
}


FFT = {"kind": "fft", "start": "random", "sources": ["word", "position"], "token_type": "add", "normalisation": "none"}


@pytest.mark.parametrize("step", range(1, 13))
def test_stopped_at_any_step_and_resumed_gives_the_same_bytes(tmp_path: Path, step: int) -> None:
    settings = {"snapshots": {"steps": "powers", "epochs": True}, "keep": "all", "fusion": CONV2D}
    whole = make_loop(tmp_path / "whole", **settings)
    whole.fit()
    with pytest.raises(InterruptedRunError):
        make_loop(tmp_path / "parts", stop=stop_after(step), **settings).fit()
    rest = make_loop(tmp_path / "parts", **settings)
    assert rest.progress.step == step
    rest.fit()
    assert equal(weights(whole), weights(rest))
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")


@pytest.mark.parametrize(
    "steps, kept", [("none", []), ("powers", [0, 1, 2, 4, 8]), (5, [0, 5, 10]), (1, list(range(13)))]
)
def test_snapshots_are_kept_at_the_steps_asked_for(tmp_path: Path, steps: object, kept: list[int]) -> None:
    make_loop(tmp_path, snapshots={"steps": steps, "epochs": False}).fit()
    found = sorted(int(path.name.removeprefix("step-")) for path in (tmp_path / "work").rglob("step-*"))
    assert found == kept


@pytest.mark.parametrize("fusion", [{"kind": "additive"}, CONV2D, FFT], ids=lambda one: one["kind"])
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


def test_killed_between_two_states_loses_at_most_the_interval(tmp_path: Path) -> None:
    make_loop(tmp_path / "whole").fit()
    with pytest.raises(Killed):
        make_loop(tmp_path / "parts", stop=kill_in(6)).fit()
    rest = make_loop(tmp_path / "parts")
    assert rest.progress.step == 3  # checkpoint_every
    rest.fit()
    lines = (tmp_path / "parts/work/metrics.jsonl").read_text().splitlines()
    keys = [(point["name"], point["step"]) for point in map(json.loads, lines)]
    assert len(keys) == len(set(keys))
    assert files(tmp_path / "whole/work") == files(tmp_path / "parts/work")


@pytest.mark.parametrize("make", OBJECTIVES)
def test_accumulation_is_the_whole_batch_by_predicted_tokens(tmp_path: Path, make: Any) -> None:
    """Micro-batches have unequal numbers of predicted tokens; the loss is a mean over those of the whole batch."""
    settings = {"make": make, "table": pairs, "dropout": 0.0, "epochs": 1, **SELECTED}
    loops = [make_loop(tmp_path / str(parts), accumulation=parts, **settings) for parts in (1, 3)]
    for loop in loops:
        loop.fit()
    one, three = map(weights, loops)
    for name, value in one.items():
        torch.testing.assert_close(value, three[name], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("parts", [2, 3, 8])
def test_accumulation_is_the_whole_batch(tmp_path: Path, parts: int) -> None:
    whole = make_loop(tmp_path / "whole", dropout=0.0, epochs=1)
    split = make_loop(tmp_path / "split", dropout=0.0, epochs=1, accumulation=parts)
    for loop in (whole, split):
        loop.fit()
    for name, value in weights(whole).items():
        torch.testing.assert_close(weights(split)[name], value, atol=2e-5, rtol=0)
    figures = [[point[1] for point in loop.log.points if point[0] == "step/loss"] for loop in (whole, split)]
    np.testing.assert_allclose(*figures, atol=1e-5)


def test_accumulation_with_dropout_differs(tmp_path: Path) -> None:
    """The negative control: with dropout another number of draws is made."""
    whole, split = make_loop(tmp_path / "whole", epochs=1), make_loop(tmp_path / "split", epochs=1, accumulation=2)
    for loop in (whole, split):
        loop.fit()
    assert not equal(weights(whole), weights(split))


def test_one_batch_is_learned_by_heart(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, rows=8, dropout=0.0, epochs=150, learning_rate=5e-3, weight_decay=0.0, log_every=150)
    loop.fit()
    losses = [value for name, value, *_ in loop.log.points if name == "train/loss"]
    assert losses[0] > 0.5
    assert losses[-1] < 0.01


def test_the_training_loss_is_the_mean_over_examples(tmp_path: Path) -> None:
    """44 rows in batches of 8 leave a batch of 4: the epoch's loss weights examples, not batches."""
    loop = make_loop(tmp_path, epochs=1, learning_rate=1e-12)
    loop.fit()
    steps = [value for name, value, *_ in loop.log.points if name == "step/loss"]
    sizes = [len(rows) for rows in loop.objective.plan("train", 1)]
    (epoch,) = [value for name, value, *_ in loop.log.points if name == "train/loss"]
    assert sorted(sizes) == [4, 8, 8, 8, 8, 8]
    assert epoch == pytest.approx(np.average(steps, weights=sizes), rel=1e-6)


def test_patience_stops_and_the_best_epoch_is_restored(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, epochs=40, patience=2, learning_rate=3e-2, select="loss", log_every=1000)
    fitted = loop.fit()
    losses = {epoch: value for name, value, _, epoch in loop.log.points if name == "validation/loss" and epoch}
    assert len(losses) < 40
    assert fitted == min(losses, key=losses.get) == len(losses) - 2
    assert loop._validate(None)["validation/loss"] == pytest.approx(losses[fitted], rel=1e-6)


@pytest.mark.parametrize("keep, expected", [("all", {1, 2, 3}), ("last", {3})])
def test_kept_checkpoints(tmp_path: Path, keep: str, expected: set[int]) -> None:
    loop = make_loop(tmp_path, epochs=3, keep=keep)
    loop.fit()
    assert {epoch for epoch, _ in loop.keeper.kept()} == expected


def test_a_loss_that_is_no_number_ends_the_run_with_advice(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, clip_norm=None, schedule={"kind": "linear", "warmup": 0.0, "epochs": None})
    diverging(loop)
    with pytest.raises(DivergedError, match="lower learning rate"):
        loop.fit()


def test_the_first_losses_are_as_they_were(tmp_path: Path) -> None:
    """Golden trace of eight steps: an accidental change of a number shows here. No tolerance beyond fp32's order."""
    loop = make_loop(tmp_path, fusion=CONV2D)
    loop.fit()
    trace = [value for name, value, *_ in loop.log.points if name == "step/loss"][:8]
    golden = json.loads((Path(__file__).parents[1] / "golden/loop_losses.json").read_text())
    np.testing.assert_allclose(trace, golden, rtol=2e-6)


def test_states_are_bounded(tmp_path: Path) -> None:
    loop = make_loop(tmp_path, epochs=3, checkpoint_every=1)
    loop.fit()
    assert len(list((tmp_path / "states").glob("step-*"))) == 2
    shutil.rmtree(tmp_path / "states")


def test_a_schedule_may_be_longer_than_the_run(tmp_path: Path) -> None:
    """Two epochs of a schedule for four equal the first two of the four."""
    longer = make_loop(tmp_path / "four", epochs=4, keep="all")
    longer.fit()
    short = make_loop(tmp_path / "two", epochs=2, keep="all", schedule={"kind": "linear", "warmup": 0.1, "epochs": 4})
    short.fit()
    for epoch in (1, 2):
        file = f"epoch-{epoch}/model.safetensors"
        assert (short.keeper.checkpoints / file).read_bytes() == (longer.keeper.checkpoints / file).read_bytes()
    with pytest.raises(ValueError, match="less than epochs"):
        Training.model_validate(SETTINGS | {"epochs": 4, "schedule": {"kind": "linear", "warmup": 0.1, "epochs": 2}})


def test_another_seed_is_another_run(tmp_path: Path) -> None:
    one, other = make_loop(tmp_path / "one"), make_loop(tmp_path / "other", seed=1)
    one.fit()
    other.fit()
    assert not equal(weights(one), weights(other))
