"""Damage to files that a state refers to is found on resume: an older state is used, or training starts again."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.atomic_files import seal
from isoscope.base.errors import RunError
from isoscope.training.progress import InterruptedRunError
from training_runs import Killed, files, fitted, kill_in, make_loop

SETTINGS: dict[str, Any] = {"snapshots": {"steps": "powers", "epochs": True}, "select": "loss"}
"""Twelve updates, six an epoch; states every three."""
STOPPED = 8


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The work of a run that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    fitted(folder, **SETTINGS)
    return files(folder / "work")


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run stopped in its second epoch."""
    folder = tmp_path_factory.mktemp("stopped")
    loop = make_loop(folder, stop=lambda: loop.progress.step == STOPPED - 1, **SETTINGS)
    with pytest.raises(InterruptedRunError):
        loop.fit()
    assert [path.name for path in sorted((folder / "states").iterdir())] == ["step-000000006", "step-000000008"]
    return folder


@pytest.fixture
def run(stopped: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(stopped, tmp_path / "run"))


def flip(path: Path, seed: int = 0) -> None:
    """Flip one bit, drawn by a seed."""
    data = bytearray(path.read_bytes())
    bit = random.Random(f"{path.name} {seed}").randrange(8 * len(data))
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def halve(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def other(path: Path) -> None:
    """Another sealed folder in its place: whole by its own manifest."""
    (path / "config.json").write_text("{}")
    seal(path)


CASES: list[tuple[str, Callable[[Path], None], int | None, str]] = [
    ("checkpoints/epoch-1/model.safetensors", flip, None, "has changed since it was written"),
    ("checkpoints/epoch-1/tokenizer.json", halve, None, "has changed since it was written"),
    ("checkpoints/epoch-1", remove, None, "is missing"),
    ("checkpoints/epoch-1", other, None, "is not the folder that the state was saved with"),
    ("snapshots/step-8/model.safetensors", flip, 6, "has changed since it was written"),
    ("snapshots/step-8", remove, 6, "is missing"),
    ("snapshots/step-2/model.safetensors", flip, None, "has changed since it was written"),
    ("metrics.jsonl", flip, None, "metrics.jsonl"),
    ("metrics.jsonl", halve, None, "metrics.jsonl holds"),
    ("metrics.jsonl", remove, None, "metrics.jsonl is missing"),
]


@pytest.mark.parametrize("name, damage, resumed, said", CASES)
def test_damaged_work_is_named_and_made_again(
    run: Path,
    whole: dict[str, bytes],
    name: str,
    damage: Callable[[Path], None],
    resumed: int | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    damage(run / "work" / name)
    loop = make_loop(run, **SETTINGS)
    assert loop.progress.step == (resumed or 0)
    err = capsys.readouterr().err
    for text in (said, name.rpartition("/")[2], "falling back to an older state"):
        assert text in err
    assert ("training starts from the beginning" in err) == (resumed is None)
    if damage in (flip, remove):
        loop.fit()
        assert files(run / "work") == whole


def test_a_point_after_the_last_state_may_be_damaged(run: Path, whole: dict[str, bytes]) -> None:
    """It is dropped and made again, as in every run that was killed."""
    with (run / "work/metrics.jsonl").open("ab") as file:
        file.write(b'{"name": "step/loss", "val')
    loop = make_loop(run, **SETTINGS)
    assert loop.progress.step == STOPPED
    loop.fit()
    assert files(run / "work") == whole


KEPT = {"checkpoints/epoch-1/model.safetensors": 20, "checkpoints/epoch-1/manifest.json": 20, "metrics.jsonl": 200}
"""Files that a state refers to → how many bits are turned over, one at a time."""


@pytest.mark.parametrize("name", KEPT)
def test_a_bit_turned_over_anywhere_in_what_is_kept_is_found(run: Path, name: str) -> None:
    loop, path = make_loop(run, **SETTINGS), run / "work" / name
    before, state = path.read_bytes(), vars(loop.progress)
    assert loop.resumption._lacking(state) is None
    for seed in range(KEPT[name]):
        flip(path, seed)
        said = loop.resumption._lacking(state) or ""
        assert said.startswith(("checkpoints/epoch-1: ", "metrics.jsonl ")), f"flip {seed} of {name}"
        path.write_bytes(before)


def test_nothing_is_lost_before_something_better_stands(run: Path) -> None:
    """A file found damaged once may be readable the next time: a disk that recovers."""
    remove(shutil.copytree(run / "work/snapshots", run / "away") and run / "work/snapshots")
    before = files(run / "states")
    assert make_loop(run, **SETTINGS).progress.step == 0
    assert files(run / "states") == before


def test_an_older_state_finds_the_best_epoch_that_a_later_one_replaced(tmp_path: Path) -> None:
    """Epoch 2 was better than epoch 1. The state of epoch 1, to which the run falls back, still has its checkpoint."""
    settings = {**SETTINGS, "epochs": 3, "checkpoint_every": 100}
    fitted(tmp_path / "whole", **settings)
    loop = make_loop(tmp_path / "run", stop=kill_in(14), **settings)
    with pytest.raises(Killed):
        loop.fit()
    assert loop.progress.best_epoch == 2
    assert {path.name for path in (tmp_path / "run/work/checkpoints").iterdir()} == {"epoch-1", "epoch-2"}
    flip(tmp_path / "run/work/checkpoints/epoch-2/model.safetensors")
    again = make_loop(tmp_path / "run", **settings)
    assert again.progress.step == 6
    again.fit()
    assert files(tmp_path / "run/work") == files(tmp_path / "whole/work")


def test_damage_found_at_the_very_end_leaves_what_the_older_state_needs(tmp_path: Path) -> None:
    """The message promises that the same command goes on from an older state, which has the epoch before."""
    settings = {**SETTINGS, "epochs": 3, "checkpoint_every": 100, "keep": "last"}
    fitted(tmp_path / "whole", **settings)
    loop = make_loop(tmp_path / "run", **settings)
    load = loop.keeper.load

    def damaged(model: Any, epoch: int) -> None:
        flip(tmp_path / f"run/work/checkpoints/epoch-{epoch}/model.safetensors")
        load(model, epoch)

    loop.keeper.load = damaged  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"epoch-3: model\.safetensors has changed since .* from an older state"):
        loop.fit()
    again = make_loop(tmp_path / "run", **settings)
    assert again.progress.step == 12
    again.fit()
    assert files(tmp_path / "run/work") == files(tmp_path / "whole/work")


def test_damage_while_the_run_lives_is_never_sealed(tmp_path: Path) -> None:
    loop, work = fitted(tmp_path, **SETTINGS), tmp_path / "work"
    assert loop.points is not None
    assert len(loop.points.read()) == loop.points.count
    flip(work / "checkpoints/epoch-2/model.safetensors")
    for find in (lambda: loop.keeper.load(loop.raw_model, 2), lambda: seal(work)):
        with pytest.raises(
            RunError, match=r"epoch-2: model\.safetensors has changed since it was written; run the same"
        ):
            find()
    assert not (work / "manifest.json").exists()
    flip(work / "metrics.jsonl")
    with pytest.raises(RunError, match=r"metrics\.jsonl"):
        loop.points.read()
