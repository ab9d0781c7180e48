"""Save and load resume states: folders that are valid once their manifest exists, and are verified byte by byte."""

import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from isoscope.sealing import fault, write_whole

Tensors = dict[str, torch.Tensor]
Names = dict[torch.nn.Parameter, str]

_UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors raised by reading files that hold no state."""


class State(NamedTuple):
    """Everything that a run needs to resume exactly."""

    model: Tensors
    optimizer: Tensors
    rng: Tensors
    progress: dict[str, Any]


def save_state(states: Path, step: int, state: State, *, keep: int = 2) -> Path:
    """Write `state` as `states/step-<step>` and delete all but the newest `keep` states."""

    def fill(folder: Path) -> None:
        save_file(state.model, folder / "model.safetensors")
        save_file(state.optimizer, folder / "optimizer.safetensors")
        save_file(state.rng, folder / "rng.safetensors")
        (folder / "progress.json").write_text(json.dumps(state.progress), "utf-8")

    target = _folder(states, step)
    write_whole(target, fill, "state")
    # Later states are damaged, or rely on damaged files: this run fell back behind them.
    later = [one for one in _newest_first(states) if one.name > target.name]
    for old in (*later, *list(_newest_first(states))[len(later) + keep :]):
        shutil.rmtree(old)
    return target


def load_state(states: Path, lacking: Callable[[Mapping[str, Any]], str | None] = lambda _: None) -> State | None:
    """Return the newest intact state, or None if there is none. Print a warning for each damaged state.

    `lacking` takes a state's progress and returns which file that the state relies on is missing or changed, as a
    message; None if all are intact.
    """
    folders = list(_newest_first(states))
    for folder in folders:
        try:
            wrong = fault(folder)
            if wrong is None:
                state = read_state(states, _step(folder))
                wrong = lacking(state.progress)
                if wrong is None:
                    return state
        except _UNREADABLE as error:  # the manifest verifies, but the content is no state
            wrong = f"cannot be read ({type(error).__name__}: {''.join(str(error).splitlines()[:1])})"
        then = "training starts from the beginning" if folder == folders[-1] else "falling back to an older state"
        print(f"warning: {folder}: {wrong}; {then}", file=sys.stderr)
    return None


def needed(states: Path) -> set[str]:
    """Return the checkpoints and snapshots that the states rely on; a state that cannot be read counts as none."""
    names: set[str] = set()
    for folder in _newest_first(states):
        with suppress(*_UNREADABLE):
            names |= json.loads((folder / "progress.json").read_text("utf-8"))["held"].keys()
    return names


def read_state(states: Path, step: int) -> State:
    """Return the state at `step`, which is known to be intact."""
    folder = _folder(states, step)
    model, optimizer, rng = (load_file(folder / f"{name}.safetensors") for name in ("model", "optimizer", "rng"))
    return State(model, optimizer, rng, json.loads((folder / "progress.json").read_text("utf-8")))


def _folder(states: Path, step: int) -> Path:
    return states / f"step-{step:09d}"


def _step(folder: Path) -> int:
    return int(folder.name.removeprefix("step-"))


def _newest_first(states: Path) -> Iterator[Path]:
    yield from sorted(states.glob("step-*"), reverse=True)


def optimizer_tensors(optimizer: torch.optim.Optimizer, names: Names) -> Tensors:
    """Return an optimizer's state as flat tensors `<parameter>/<entry>`."""
    return {
        f"{names[parameter]}/{entry}": value.detach().clone().contiguous()  # type: ignore[index]
        for parameter, entries in optimizer.state.items()
        for entry, value in entries.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, names: Names, tensors: Tensors) -> None:
    """Restore the tensors of `optimizer_tensors`, each to its parameter's device."""
    parameters = {name: parameter for parameter, name in names.items()}
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        optimizer.state[parameters[name]][entry] = value.to(parameters[name].device)
