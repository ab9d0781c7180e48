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

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from isoscope.base.atomic_files import fault, write_whole
from isoscope.training.determinism import Mode, restore_rng, rng_state, seed_dropout
from isoscope.training.keeping import Keeper
from isoscope.training.observers import Context, Observers, below, prefixed
from isoscope.training.penalised import WeightedPenalty
from isoscope.training.progress import Points, Progress, points_fault
from isoscope.training.ranks import Tensors

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


def _config(model: Any) -> dict[str, Any]:
    return dict(model.config.to_dict()) if hasattr(model, "config") else {}


def _folder(states: Path, step: int) -> Path:
    return states / f"step-{step:09d}"


def _newest_first(states: Path) -> list[Path]:
    return sorted(states.glob("step-*"), reverse=True)


class Resumption:
    """Save and restore weights, optimiser, penalty, observers, generators and counters under `states`.

    A state relies on files in the run's work folder: the points in `metrics`, and the folders that the `keeper` holds.
    The state is valid only if all of them are as they were written.
    """

    def __init__(
        self,
        states: Path,
        run: Context,
        *,
        metrics: Path,
        keeper: Keeper,
        penalised: WeightedPenalty | None,
        observers: Observers,
        determinism: Mode,
    ) -> None:
        self.states, self.run, self.metrics, self.keeper = states, run, metrics, keeper
        self.parts: dict[str, Any] = {"observers/": observers} | ({} if penalised is None else {"penalty/": penalised})
        self.determinism = determinism
        self.parameters = dict(run.model.named_parameters())
        self.config = _config(run.model)

    def save(self, progress: Progress, points: Points | None) -> None:
        """Save the state. All processes call this; rank 0, which has the `points`, writes."""
        run, every = self.run, enumerate(self.run.ranks.gather(rng_state()))
        rng = {f"{rank}/{name}": value for rank, one in every for name, value in one.items()}
        if points is None:
            return
        points.flush()
        progress.config = {name: one for name, one in _config(run.model).items() if one != self.config.get(name)}
        progress.points, progress.points_sha256, progress.held = points.count, points.sha256, dict(self.keeper.held)
        own = {*self.parameters, *(name for name, _ in run.model.named_buffers())}  # a tied matrix once
        model = {name: one for name, one in run.model.state_dict().items() if name in own}
        for prefix, part in self.parts.items():
            model |= prefixed(prefix, part.state())
        optimizer = {
            f"{name}/{entry}": value.detach().clone().contiguous()
            for name, parameter in self.parameters.items()
            for entry, value in run.optimizer.state.get(parameter, {}).items()
        }
        save_state(self.states, progress.step, State(model, optimizer, rng, asdict(progress)))
        self.keeper.drop(needed(self.states))

    def restore(self) -> Progress | None:
        """Restore the newest state that rank 0 finds intact, in every process; return None if there is none."""
        run, ranks = self.run, self.run.ranks
        state = load_state(self.states, self._lacking) if ranks.main else None
        step = ranks.from_main(0 if state is None else int(state.progress["step"]))
        state = read_state(_folder(self.states, step)) if step and state is None else state
        if state is None:
            return None
        run.model.load_state_dict(state.model, strict=False)  # it also has what follows, and a tied matrix once
        for prefix, part in self.parts.items():
            part.restore(below(prefix, state.model))
        for key, value in state.optimizer.items():
            name, _, entry = key.rpartition("/")
            parameter = self.parameters[name]
            run.optimizer.state[parameter][entry] = value.to(parameter.device)
        progress = Progress(**state.progress)
        for name, value in progress.config.items():
            setattr(run.model.config, name, value)
        self.keeper.held = dict(progress.held)
        if mine := below(f"{ranks.rank}/", state.rng):
            restore_rng(mine)
        else:  # the state was saved by fewer processes
            seed_dropout(self.determinism, run.seed, rank=ranks.rank, step=progress.step)
        return progress

    def _lacking(self, progress: Mapping[str, Any]) -> str | None:
        wrong = points_fault(self.metrics, progress["points"], progress["points_sha256"])
        return wrong or self.keeper.fault(progress["held"])
