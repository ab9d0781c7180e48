"""Numbers of updates stay on the device between logged updates, and are the same numbers when they are read."""

import math
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import isoscope
from isoscope.training.progress import DivergedError
from training_runs import PENALTIES, files, make_loop

SOURCES = (str(Path(isoscope.__file__).parent), __file__)
WAITS = ("item", "tolist", "cpu", "numpy", "nonzero", "unique", "masked_select", "__float__", "__int__", "__bool__")
"""Functions of tensors that wait for a GPU, since they need numbers or a shape on the host."""


class Waits(TorchFunctionMode):
    """Count the lines of isoscope that would wait for a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.found = Counter[str]()

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        by_mask = function.__name__ == "__getitem__" and getattr(arguments[1], "dtype", None) == torch.bool
        if function.__name__ in WAITS or by_mask:
            frame: Any = sys._getframe(1)
            if frame.f_code.co_filename.startswith(SOURCES):
                self.found[f"{Path(frame.f_code.co_filename).name}, {function.__name__}"] += 1
        return function(*arguments, **(named or {}))


@pytest.mark.parametrize("penalty", [None, "cosine", "isoscore", "spectrum"])
def test_an_update_waits_for_nothing_unless_it_is_read(
    tmp_path: Path, penalty: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop = make_loop(tmp_path, penalty=penalty and PENALTIES[penalty])
    loop.model.train()
    loop._begin()
    loop._refer(1)
    batches = loop.objective.plan("train", 1)
    with Waits() as unread:
        for rows in batches[:3]:
            loop._update(rows, 1, read=False)
    assert not unread.found
    with Waits() as read:
        metrics = loop._update(batches[3], 1, read=True)
    assert {"unread.py, cpu", "unread.py, tolist"} <= read.found.keys()
    assert metrics["step/loss"] > 0
    assert [loop.progress.step, loop.progress.updates] == [4, 4]
    whole = loop.objective.loss
    monkeypatch.setattr(loop.objective, "loss", lambda *given: whole(*given) + 0 * float(whole(*given).detach()))
    with Waits() as control:
        loop._update(batches[4], 1, read=False)
    assert dict(control.found) == {"test_unread.py, __float__": 1}


@pytest.mark.parametrize("penalty", [None, "selected", "cosine"])
def test_what_is_read_later_is_the_same(tmp_path: Path, penalty: str | None) -> None:
    """Output and states, byte by byte; only the logged points are fewer."""
    found = []
    for every in (1, 4):
        folder = tmp_path / str(every)
        loop = make_loop(folder, penalty=penalty and PENALTIES[penalty], log_every=every, checkpoint_every=5)
        loop.test(loop.fit())
        own = files(folder)
        lines = own.pop("work/metrics.jsonl").splitlines()
        found.append(
            ({name: one for name, one in own.items() if "progress" not in name and "manifest" not in name}, lines)
        )
    (one, every_line), (other, fewer) = found
    assert one == other
    assert 1 < len(fewer) < len(every_line)
    assert [line for line in every_line if line in set(fewer)] == fewer


@pytest.mark.parametrize("first", [3, 10, 11])
def test_divergence_names_the_update_at_which_it_began(
    tmp_path: Path, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first updates are read one by one for the golden trace, the others with the next logged update."""
    loop = make_loop(tmp_path, log_every=100, checkpoint_every=100, epochs=4)
    whole = loop.objective.loss

    def loss(*given: Any) -> Any:
        return whole(*given) * (math.nan if loop.model.training and loop.progress.step + 1 >= first else 1)

    monkeypatch.setattr(loop.objective, "loss", loss)
    with pytest.raises(DivergedError, match=f"^loss is nan at step {first}: try a lower learning rate$"):
        loop.fit()
    assert not any((tmp_path / "states").glob(f"step-*{first}"))


def test_an_update_that_makes_the_weights_nan_is_named_although_its_loss_is_finite(tmp_path: Path) -> None:
    """Also in the last update, which no loss follows."""
    loop = make_loop(tmp_path, epochs=1)
    weight = loop.raw_model.base_model.embeddings.word_embeddings.weight
    weight.register_hook(lambda gradient: gradient * (math.nan if loop.progress.step == loop.total - 1 else 1.0))
    with pytest.raises(DivergedError, match=rf"^gradient norm is nan at step {loop.total}: try a lower learning rate"):
        loop.fit()
