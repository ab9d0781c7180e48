"""States to resume from: folders that count once their manifest stands, read back only if every byte is right."""

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
"""What reading a state raises where its files are no state's."""


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
    # Later ones are damaged, or need what is: this run has fallen back behind them.
    later = [one for one in _newest_first(states) if one.name > target.name]
    for old in (*later, *list(_newest_first(states))[len(later) + keep :]):
        shutil.rmtree(old)
    return target


def load_state(states: Path, lacking: Callable[[Mapping[str, Any]], str | None] = lambda _: None) -> State | None:
    """The newest state that is whole, or None where there is none; each damaged one is named in a warning.

    `lacking`: what of the work so far a state's progress relies on and is not as it was written, in words.
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
        except _UNREADABLE as error:  # a manifest that vouches for no state
            wrong = f"cannot be read ({type(error).__name__}: {''.join(str(error).splitlines()[:1])})"
        then = "training begins anew" if folder == folders[-1] else "falling back to an older state"
        print(f"warning: {folder}: {wrong}; {then}", file=sys.stderr)
    return None


def needed(states: Path) -> set[str]:
    """Checkpoints and snapshots that the states rely on; a state that cannot be read relies on none."""
    names: set[str] = set()
    for folder in _newest_first(states):
        with suppress(*_UNREADABLE):
            names |= json.loads((folder / "progress.json").read_text("utf-8"))["held"].keys()
    return names


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
