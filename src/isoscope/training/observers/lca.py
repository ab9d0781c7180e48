"""Allocate the change of the loss during training to groups of parameters (loss change allocation, LCA)."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Le
from torch import Tensor

from isoscope.base.entry import refuse
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_tables
from isoscope.base.registry import OBSERVERS
from isoscope.models.components import Member
from isoscope.objectives import Place, Scored
from isoscope.plugins import observer
from isoscope.training.allocation import over_folds
from isoscope.training.allocation_sets import PartedSet, folded_set, undisturbed
from isoscope.training.allocation_tables import PARTS, SETS, Rows, tables
from isoscope.training.observers import Context
from isoscope.training.observers.intervals import IntervalObserver


def check(o: Any) -> None:
    """Raise `ValueError` if arguments do not agree."""
    refuse(
        (o.folds > o.sentences, f"folds {o.folds} exceed sentences {o.sentences}"),
        (o.dense + o.chords == 0, "dense and chords are both 0: no interval; set chords to 100"),
        (
            o.estimator == "first_order" and o.tolerance is not None,
            "estimator first_order has no splits; set tolerance to null",
        ),
    )


@observer("allocation", check=check)
class Allocation(IntervalObserver):
    """Write `allocation.parquet` and `closure.parquet`, and `minibatch.parquet` if asked (see `allocation_tables`).

    Each interval is a straight line between the weights at its ends. On a fixed set of training and one of validation
    sentences, the path integral of gradient · change is summed by group (`models.components.Group`). Negative helps.
    The change includes clipping, momentum and weight decay. Weights, gradients, modes and random generators are left as
    they were. Memory: one copy of the weights, for each set a gradient per fold and one more, and five more while an
    interval is computed; `minibatch` two of weights and one of gradients; `parts` four during intervals of one update.

    Arguments are those of `training.allocation`, which describes them; the defaults are the overlay `allocated`. Raises
    `InputError` for an invalid argument, for sharded or half-precision weights, for an unknown architecture, and for a
    split with fewer rows than folds.
    """

    name = "allocation"

    def __init__(
        self,
        *,
        sentences: Annotated[int, Ge(16), Le(4096)] = 128,
        folds: Annotated[int, Ge(2), Le(32)] = 8,
        estimator: Literal["first_order", "trapezoid", "simpson"] = "simpson",
        tolerance: Annotated[float, Ge(1e-9), Le(10)] | None = 2e-3,
        most_splits: Annotated[int, Ge(2), Le(64)] = 16,
        dense: Annotated[int, Ge(0)] = 16,
        chords: Annotated[int, Ge(0)] = 100,
        heads: bool = True,
        minibatch: bool = False,
        parts: bool = True,
    ) -> None:
        super().__init__(
            sentences=sentences,
            estimator=estimator,
            tolerance=tolerance,
            most_splits=most_splits,
            dense=dense,
            chords=chords,
            heads=heads,
        )
        self.folds, self.minibatch, self.parts, self.unclipped = folds, minibatch, parts, minibatch
        entry = OBSERVERS["allocation"]
        entry.checked({name: getattr(self, name) for name in entry.options}, "Allocation")

    def begin(self, context: Context) -> None:
        super().begin(context)
        sizes = {"sentences": self.sentences, "folds": self.folds}
        self.paths = [folded_set(context.objective, name, self.line, **sizes) for name in SETS]
        self.adam = AdamParts(context.optimizer, self.packed.members) if self.parts else None
        self.rows: Rows = Rows(self.packed.groups)
        if self.minibatch:
            self._before, self._after, self._gradient = (self.packed.read() for _ in range(3))
            self._read = False  # weights of a resumed run come later

    def before_update(self, step: int) -> dict[str, float]:
        super().before_update(step)
        if self.minibatch:
            if not self._read:  # else they are those after the last update
                self.packed.read(self._before)
            self.packed.pack([one.grad for one in self.parameters], self._gradient)
        if self.adam is not None and self._single(step):
            self.adam.begin()
        return {}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        if self.minibatch:
            (values,) = self.packed.allocated([self._gradient], self._before, self.packed.read(self._after))
            self.rows.update(values)
            self._before, self._after, self._read = self._after, self._before, True
        return super().after_update(step, points)

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        """Log how far the allocations so far are from the change of the loss, and the share of closed intervals."""
        return self.rows.metrics() if scored.split == "validation" and len(self.rows) else {}

    def finish(self, folder: Path) -> None:
        ends = self.ends[: len(self.rows)]
        found = tables(self.rows, self.packed.groups, self.packed.counts, ends, self.estimator)
        (folder / "minibatch.parquet").unlink(missing_ok=True)  # of an earlier training into this folder
        write_tables(folder, found)

    def _single(self, step: int) -> bool:
        """Return whether `step` is an interval of its own."""
        number = len(self.rows)
        start = self.ends[number - 1] if number else 0
        return number < len(self.ends) and step == self.ends[number] == start + 1

    def measure(self, step: int, start: Tensor, end: Tensor) -> None:
        steps = {}
        if self.adam is not None and self._single(step):
            parts = self.adam.end(self.packed.views(start))
            steps = {name: self.packed.pack(changes) for name, changes in parts.items()}
        with undisturbed(self.model, self.parameters):
            self.rows.add([self._interval(path, start, end, steps) for path in self.paths])

    def _interval(self, path: PartedSet, start: Tensor, end: Tensor, steps: Mapping[str, Tensor]) -> dict[str, Any]:
        """Return a set's allocation over the line from `start` to `end`; `steps` are the parts of a single update."""
        (sums, own), splits = self.integrated(path, start, end)
        gradient = own
        if path.ranks.size > 1:
            gradient = torch.from_numpy(path.ranks.sum(own.double().cpu().numpy())).to(own.device, own.dtype)
        estimate = over_folds(sums * path.weights.sum(), path.weights)
        parts = [self.packed.paired(gradient, one) for one in steps.values()]
        unknown = np.full((len(PARTS), len(self.packed.groups)), np.nan)
        known = {"parts": parts or unknown, "losses": path.means, "splits": splits}
        return estimate._asdict() | self.packed.counted(gradient, start, end) | known


Start = tuple[dict[str, Any], Tensor | None]
"""What an update of a parameter will use: its group's settings, and the first moment before it, if there is one."""


class AdamParts:
    """The parts of the next update, read from the optimiser's own moments.

    With m the first moment after the update, m' before it, v the second moment and t the number of updates, AdamW
    changes a weight by `−rate · m̂ / (√v̂ + ε) − rate · decay · θ`, `m̂ = m / (1 − β₁ᵗ)`, `v̂ = v / (1 − β₂ᵗ)`. The
    momentum part has `β₁ m'` in place of m, the gradient part `m − β₁ m' = (1 − β₁) g` (g after clipping). Source:
    Loshchilov and Hutter 2019 (https://arxiv.org/abs/1711.05101). Raises `InputError` for another optimiser.
    """

    def __init__(self, optimizer: Any, members: Sequence[Member]) -> None:
        self.optimizer, self.members = getattr(optimizer, "optimizer", optimizer), members  # Accelerate wraps it
        if not isinstance(self.optimizer, torch.optim.AdamW) or any(g["amsgrad"] for g in self.optimizer.param_groups):
            raise InputError(
                f"training.allocation.parts: the optimiser is {type(self.optimizer).__name__}; only torch's AdamW "
                "without amsgrad has these parts, so set parts to false"
            )
        self._starts: list[Start | None] = []

    def begin(self) -> None:
        """Remember the state before an update; call it when the gradients are there."""
        groups = {one: group for group in self.optimizer.param_groups for one in group["params"]}
        self._starts = [self._start(one.parameter, groups.get(one.parameter)) for one in self.members]

    def _start(self, parameter: Tensor, group: dict[str, Any] | None) -> Start | None:
        if group is None or parameter.grad is None:  # the optimiser leaves it as it is
            return None
        moment = self.optimizer.state.get(parameter, {}).get("exp_avg")
        return {**group, "lr": float(group["lr"])}, None if moment is None else moment.clone()

    def end(self, before: Sequence[Tensor]) -> dict[str, list[Tensor | None]]:
        """Return each part's change of the weights, by member; `before` are the weights before the update."""
        changes = [*map(self._changes, self.members, self._starts, before)]
        self._starts = []
        return {name: [change[number] for change in changes] for number, name in enumerate(PARTS)}

    def _changes(self, member: Member, start: Start | None, weights: Tensor) -> tuple[Tensor | None, ...]:
        if start is None:
            return (None,) * len(PARTS)
        (group, before), kept = start, self.optimizer.state[member.parameter]
        (first, second), updates = group["betas"], float(kept["step"])
        scale = (kept["exp_avg_sq"] / (1 - second**updates)).sqrt_().add_(group["eps"])
        scale = scale.reciprocal_().mul_(-group["lr"] / (1 - first**updates))
        moment = torch.zeros_like(weights) if before is None else first * before
        decay = weights * (-group["lr"] * float(group["weight_decay"]))
        return (kept["exp_avg"] - moment) * scale, moment * scale, decay
