"""A damaged state is found and named, and the newest intact state is used: all kinds of damage to all files."""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from isoscope.training.progress import InterruptedRunError
from isoscope.training.resumption import load_state
from training_runs import make_loop

FILES = ("model.safetensors", "optimizer.safetensors", "rng.safetensors", "progress.json", "manifest.json")
FLIPS = 200
"""Bits turned over in each file, one at a time, at positions drawn with a fixed seed."""


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """States at steps 3 and 5 of a run."""
    folder = tmp_path_factory.mktemp("saved")
    loop = make_loop(folder, stop=lambda: loop.progress.step == 4)  # asked within the fifth update
    with pytest.raises(InterruptedRunError):
        loop.fit()
    assert sorted(path.name for path in (folder / "states").iterdir()) == ["step-000000003", "step-000000005"]
    return folder / "states"


@pytest.fixture
def states(saved: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "states"))


def zeroed(path: Path) -> None:
    """A block that never reached the disk."""
    data = bytearray(path.read_bytes())
    half = len(data) // 2
    data[half : half + 64] = bytes(len(data[half : half + 64]))
    path.write_bytes(data)


def folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


DAMAGES: dict[str, Callable[[Path], object]] = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "one byte short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "empty": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "zeroed": zeroed,
    "older": lambda path: shutil.copy(path.parents[1] / "step-000000003" / path.name, path),  # of the state before
    "gone": Path.unlink,
    "folder": folder,
}


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("damage", DAMAGES)
def test_every_kind_of_damage_to_every_file(
    states: Path, file: str, damage: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = states / "step-000000005"
    DAMAGES[damage](newest / file)
    state = load_state(states)
    said = capsys.readouterr().err
    assert state is not None
    assert state.progress["step"] == 3
    assert str(newest) in said
    assert file in said or damage == "older", "the manifest of another state blames the first file that differs"


@pytest.mark.parametrize("file", FILES)
def test_a_bit_turned_over_anywhere_is_found(states: Path, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = states / "step-000000005" / file
    data = path.read_bytes()
    draw = random.Random(file)
    for position in (0, 8 * len(data) - 1, *(draw.randrange(8 * len(data)) for _ in range(FLIPS))):
        turned = bytearray(data)
        turned[position // 8] ^= 1 << position % 8
        path.write_bytes(turned)
        state = load_state(states)
        assert state is not None
        assert state.progress["step"] == 3, f"bit {position} of {file}"
        assert "step-000000005" in capsys.readouterr().err
    path.write_bytes(data)
    state = load_state(states)
    assert state is not None
    assert state.progress["step"] == 5


def test_two_damaged_states_are_both_named_and_the_run_begins_anew(
    states: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in states.iterdir():
        DAMAGES["empty"](path / "model.safetensors")
    assert load_state(states) is None
    assert capsys.readouterr().err.count("warning:") == 2
