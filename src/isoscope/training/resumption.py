"""Save and restore a run's state: rank 0 saves what all processes need; every process restores it.

A saved state is a folder that is valid once its manifest exists. It is verified byte by byte.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from isoscope.base.atomic_files import fault, write_whole
from isoscope.training.determinism import Mode, restore_rng, rng_state, seed_dropout
from isoscope.training.keeping import Keeper
from isoscope.training.observers import Observers, below
from isoscope.training.penalised import WeightedPenalty
from isoscope.training.progress import Points, Progress, points_fault
from isoscope.training.ranks import Ranks, Tensors

Names = dict[torch.nn.Parameter, str]

_UNREADABLE = (SafetensorError, OSError, ValueError, KeyError, TypeError, AttributeError)
"""Errors raised by reading files that hold no state."""


TENSORS = ("model", "optimizer", "rng")
"""Files of a state, and the fields of `State` that they hold."""
KEPT = 2
"""States kept: the newest, and an older state for a run whose newest is damaged."""


class State(NamedTuple):
    """Everything that a run needs to resume exactly."""

    model: Tensors
    optimizer: Tensors
    rng: Tensors
    progress: dict[str, Any]


def save_state(states: Path, step: int, state: State) -> None:
    """Write `state` as `states/step-<step>` and delete all but the newest two states."""

    def fill(folder: Path) -> None:
        for name in TENSORS:
            save_file(getattr(state, name), folder / f"{name}.safetensors")
        (folder / "progress.json").write_text(json.dumps(state.progress), "utf-8")

    target = _folder(states, step)
    write_whole(target, fill, "state")
    # Later states are damaged, or rely on damaged files: this run fell back behind them.
    later = [one for one in _newest_first(states) if one.name > target.name]
    for old in (*later, *_newest_first(states)[len(later) + KEPT :]):
        shutil.rmtree(old)


def load_state(states: Path, lacking: Callable[[Mapping[str, Any]], str | None] = lambda _: None) -> State | None:
    """Return the newest intact state, or None if there is none. Print a warning for each damaged state.

    `lacking` takes a state's progress and returns which file that the state relies on is missing or changed, as a
    message; None if all are intact.
    """
    folders = _newest_first(states)
    for folder in folders:
        try:
            if (wrong := fault(folder)) is None:
                state = read_state(folder)
                if (wrong := lacking(state.progress)) is None:
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


def read_state(folder: Path) -> State:
    """Return the state in a folder, which is known to be intact."""
    model, optimizer, rng = (load_file(folder / f"{name}.safetensors") for name in TENSORS)
    return State(model, optimizer, rng, json.loads((folder / "progress.json").read_text("utf-8")))


def _first_names(model: torch.nn.Module) -> dict[str, str]:
    """Return the name of each tensor of a model → the first name of the same tensor: tied matrices have several."""
    first: dict[int, str] = {}
    return {name: first.setdefault(id(one), name) for name, one in model.state_dict(keep_vars=True).items()}


def _folder(states: Path, step: int) -> Path:
    return states / f"step-{step:09d}"


def _newest_first(states: Path) -> list[Path]:
    return sorted(states.glob("step-*"), reverse=True)


_PENALTY, _OBSERVERS = "penalty/", "observers/"


class Resumption:
    """Save and restore weights, optimiser, penalty, observers, generators and counters under `states`.

    A state relies on files in the run's work folder: the points in `metrics`, and the folders that the `keeper` holds.
    The state is valid only if all of them are as they were written.
    """

    def __init__(
        self,
        states: Path,
        *,
        metrics: Path,
        keeper: Keeper,
        model: Any,
        optimizer: torch.optim.Optimizer,
        names: Names,
        penalised: WeightedPenalty | None,
        observers: Observers,
        ranks: Ranks,
        determinism: Mode,
        seed: int,
    ) -> None:
        self.states, self.metrics, self.keeper = states, metrics, keeper
        self.model, self.optimizer, self.names = model, optimizer, names
        self.penalised, self.observers = penalised, observers
        self.ranks, self.determinism, self.seed = ranks, determinism, seed

    def save(self, progress: Progress, points: Points | None) -> None:
        """Save the state. All processes call this; rank 0, which has the `points`, writes."""
        rng = {
            f"{rank}/{name}": value
            for rank, one in enumerate(self.ranks.gather(rng_state()))
            for name, value in one.items()
        }
        if points is None:
            return
        points.flush()
        progress.points, progress.points_sha256, progress.held = points.count, points.sha256, dict(self.keeper.held)
        every = self.model.state_dict()  # with buffers, which a fusion plugin may have
        model = {name: every[name] for name in dict.fromkeys(_first_names(self.model).values())}
        if self.penalised is not None:
            model |= {f"{_PENALTY}{name}": value for name, value in self.penalised.state().items()}
        model |= {f"{_OBSERVERS}{name}": value for name, value in self.observers.state().items()}
        optimizer = {
            f"{self.names[parameter]}/{entry}": value.detach().clone().contiguous()  # type: ignore[index]
            for parameter, entries in self.optimizer.state.items()
            for entry, value in entries.items()
        }
        save_state(self.states, progress.step, State(model, optimizer, rng, asdict(progress)))
        self.keeper.drop(needed(self.states))

    def restore(self) -> Progress | None:
        """Restore the newest state that rank 0 finds intact, in every process; return None if there is none."""
        state = load_state(self.states, self._lacking) if self.ranks.main else None
        step = self.ranks.from_main(0 if state is None else int(state.progress["step"]))
        state = read_state(_folder(self.states, step)) if step and state is None else state
        if state is None:
            return None
        self.model.load_state_dict({name: state.model[first] for name, first in _first_names(self.model).items()})
        if self.penalised is not None:
            self.penalised.restore(below(_PENALTY, state.model))
        self.observers.restore(below(_OBSERVERS, state.model))
        parameters = {name: parameter for parameter, name in self.names.items()}
        for key, value in state.optimizer.items():
            name, _, entry = key.rpartition("/")
            self.optimizer.state[parameters[name]][entry] = value.to(parameters[name].device)
        progress = Progress(**state.progress)
        self.keeper.held = dict(progress.held)
        if mine := below(f"{self.ranks.rank}/", state.rng):
            restore_rng(mine)
        else:  # the state was saved by fewer processes
            seed_dropout(self.determinism, self.seed, rank=self.ranks.rank, step=progress.step)
        return progress

    def _lacking(self, progress: Mapping[str, Any]) -> str | None:
        wrong = points_fault(self.metrics, progress["points"], progress["points_sha256"])
        return wrong or self.keeper.fault(progress["held"])
