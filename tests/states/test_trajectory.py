"""A file of hidden states counts as finished only if every byte is unchanged."""

import random
from pathlib import Path

import numpy as np
import pytest

from isoscope.states.trajectory import holds, write_arrays

ARRAYS = {"first": np.arange(24, dtype=np.float32).reshape(2, 3, 4), "bag": np.zeros((0, 4), np.float32)}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "states" / "step-8.safetensors"
    write_arrays(path, ARRAYS, "digest probe weights")
    return path


def test_it_holds_what_it_was_made_from_and_equal_arrays_give_equal_bytes(path: Path) -> None:
    before = path.read_bytes()
    assert holds(path, "digest probe weights")
    assert not holds(path, "digest probe other")
    assert not holds(path.with_name("step-9.safetensors"), "digest probe weights")
    write_arrays(path, dict(reversed(ARRAYS.items())), "digest probe weights")
    assert path.read_bytes() == before


def test_a_bit_turned_over_anywhere_is_found(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = path.read_bytes()
    for bit in random.Random(0).sample(range(8 * len(data)), 300):
        turned = bytearray(data)
        turned[bit // 8] ^= 1 << bit % 8
        path.write_bytes(turned)
        assert not holds(path, "digest probe weights"), f"bit {bit}"
    path.write_bytes(data[:-1])
    assert not holds(path, "digest probe weights")
    assert "has changed since it was written; rebuilding it" in capsys.readouterr().err
