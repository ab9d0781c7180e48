"""Save and restore a run's state: rank 0 saves what all processes need; every process restores it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from isoscope.training.checkpoint import (
    Names,
    State,
    load_state,
    needed,
    optimizer_tensors,
    read_state,
    restore_optimizer,
    save_state,
)
from isoscope.training.determinism import Mode, restore_rng, rng_state, seed_dropout
from isoscope.training.keeping import Keeper
from isoscope.training.observers import Observers
from isoscope.training.penalised import WeightedPenalty
from isoscope.training.progress import Points, Progress, points_fault
from isoscope.training.ranks import Ranks

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
        model = dict(self.model.state_dict())  # with buffers, which a fusion plugin may have
        if self.penalised is not None:
            model |= {f"{_PENALTY}{name}": value for name, value in self.penalised.state().items()}
        model |= {f"{_OBSERVERS}{name}": value for name, value in self.observers.state().items()}
        optimizer = optimizer_tensors(self.optimizer, self.names)
        save_state(self.states, progress.step, State(model, optimizer, rng, progress.as_dict()))
        self.keeper.drop(needed(self.states))

    def restore(self) -> Progress | None:
        """Restore the newest state that rank 0 finds intact, in every process; return None if there is none."""
        state = load_state(self.states, self._lacking) if self.ranks.main else None
        step = self.ranks.from_main(0 if state is None else int(state.progress["step"]))
        state = read_state(self.states, step) if step and state is None else state
        if state is None:
            return None
        self.model.load_state_dict({name: one for name, one in state.model.items() if "/" not in name})
        if self.penalised is not None:
            self.penalised.restore(_below(_PENALTY, state.model))
        self.observers.restore(_below(_OBSERVERS, state.model))
        restore_optimizer(self.optimizer, self.names, state.optimizer)
        progress = Progress(**state.progress)
        self.keeper.held = dict(progress.held)
        prefix = f"{self.ranks.rank}/"
        mine = {name.removeprefix(prefix): value for name, value in state.rng.items() if name.startswith(prefix)}
        if mine:
            restore_rng(mine)
        else:  # the state was saved by fewer processes
            seed_dropout(self.determinism, self.seed, rank=self.ranks.rank, step=progress.step)
        return progress

    def _lacking(self, progress: Mapping[str, Any]) -> str | None:
        wrong = points_fault(self.metrics, progress["points"], progress["points_sha256"])
        return wrong or self.keeper.fault(progress["held"])


def _below(prefix: str, tensors: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
