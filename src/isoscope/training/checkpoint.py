"""States to resume from: folders that count once their manifest stands, read back only if every byte is right."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from isoscope.sealing import fault, write_whole

Tensors = dict[str, torch.Tensor]
Names = dict[torch.nn.Parameter, str]


class State(NamedTuple):
    """Everything a run needs to go on as if it had never stopped."""

    model: Tensors
    optimizer: Tensors
    rng: Tensors
    progress: dict[str, Any]


def save_state(states: Path, step: int, state: State, *, keep: int = 2) -> Path:
    """Write `state` as `states/step-<step>` and drop all but the newest `keep`."""

    def fill(folder: Path) -> None:
        save_file(state.model, folder / "model.safetensors")
        save_file(state.optimizer, folder / "optimizer.safetensors")
        save_file(state.rng, folder / "rng.safetensors")
        (folder / "progress.json").write_text(json.dumps(state.progress), "utf-8")

    target = _folder(states, step)
    write_whole(target, fill, "state")
    for old in sorted(states.glob("step-*"))[:-keep]:
        shutil.rmtree(old)
    return target


def load_state(states: Path) -> State | None:
    """The newest state that is whole, or None where there is none; each damaged one is named in a warning."""
    for folder in _newest_first(states):
        try:
            wrong = fault(folder)
            if wrong is None:
                return read_state(states, _step(folder))
        except (SafetensorError, OSError, ValueError) as error:  # a manifest that vouches for what is no state
            wrong = f"cannot be read ({type(error).__name__}: {str(error).splitlines()[0]})"
        print(f"warning: {folder}: {wrong}; falling back to an older state", file=sys.stderr)
    return None


def read_state(states: Path, step: int) -> State:
    """The state at `step`, known to be good."""
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
    """An optimizer's state as flat tensors `<parameter>/<entry>`."""
    return {
        f"{names[parameter]}/{entry}": value.detach().clone().contiguous()  # type: ignore[index]
        for parameter, entries in optimizer.state.items()
        for entry, value in entries.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, names: Names, tensors: Tensors) -> None:
    """Put the tensors of `optimizer_tensors` back, each on its parameter's device."""
    parameters = {name: parameter for parameter, name in names.items()}
    for key, value in tensors.items():
        name, _, entry = key.rpartition("/")
        optimizer.state[parameters[name]][entry] = value.to(parameters[name].device)
