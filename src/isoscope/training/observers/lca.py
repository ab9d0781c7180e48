"""Allocate the change of the loss during training to groups of parameters (loss change allocation, LCA)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Ge, Le
from torch import Tensor

from isoscope.base.entry import refuse
from isoscope.base.parquet import write_tables
from isoscope.base.registry import OBSERVERS
from isoscope.objectives import Place, Scored
from isoscope.plugins import observer
from isoscope.training.adam_parts import PARTS, AdamParts
from isoscope.training.allocation import over_folds
from isoscope.training.allocation_sets import AllocationSet, PartedSet, undisturbed
from isoscope.training.allocation_tables import SETS, Rows, tables
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
    they were. Memory: one copy of the weights, a gradient per fold and set, and five more while an interval is
    computed; `minibatch` two of weights and one of gradients; `parts` four during intervals of one update.

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
        intervals: dict[str, Any] = {
            "sentences": sentences,
            "estimator": estimator,
            "tolerance": tolerance,
            "most_splits": most_splits,
            "dense": dense,
            "chords": chords,
            "heads": heads,
        }
        own = {"folds": folds, "minibatch": minibatch, "parts": parts}
        OBSERVERS["allocation"].checked(intervals | own, "Allocation")
        super().__init__(**intervals)
        self.folds, self.minibatch, self.parts = folds, minibatch, parts
        self.unclipped = minibatch

    def begin(self, context: Context) -> None:
        super().begin(context)
        sizes = {"sentences": self.sentences, "folds": self.folds}
        self.paths = [AllocationSet(context.objective, name, *self.line, **sizes) for name in SETS]
        self.adam = AdamParts(context.optimizer, self.packed.members) if self.parts else None
        self.rows: Rows = Rows(self.packed.groups)
        self._weights: Tensor | None = None
        self._spare: Tensor | None = None
        self._gradient: Tensor | None = None

    def before_update(self, step: int) -> dict[str, float]:
        super().before_update(step)
        if self.minibatch:
            self._weights = self.packed.read() if self._weights is None else self._weights
            self._gradient = self.packed.pack([one.grad for one in self.parameters], self._gradient)
        if self.adam is not None and self._single(step):
            self.adam.begin()
        return {}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        if self.minibatch:
            before, gradient = self._weights, self._gradient
            assert before is not None
            assert gradient is not None
            self._weights, self._spare = self.packed.read(self._spare), before
            self.rows.update(self.packed.allocated(gradient, before, self._weights))
        return super().after_update(step, points)

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        """Log how far the allocations so far are from the change of the loss, and the share of closed intervals."""
        return self.rows.figures() if scored.split == "validation" and len(self.rows) else {}

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
        found = self.integrated(path, start, end)
        sums, gradient = found.values
        gradient = self._whole(gradient)
        estimate = over_folds(sums * path.weights.sum(), path.weights)
        parts = np.full((len(PARTS), len(self.packed.groups)), np.nan)
        for number, name in enumerate(PARTS):
            if name in steps:
                parts[number] = self.packed.paired(gradient, steps[name])
        known = {"parts": parts, "losses": (path.before, path.after), "splits": found.splits}
        return estimate._asdict() | self.packed.counted(gradient, start, end) | known

    def _whole(self, gradient: Tensor) -> Tensor:
        """Return the sum over processes of a gradient."""
        if self.ranks.size == 1:
            return gradient
        whole = self.ranks.sum(gradient.double().cpu().numpy())
        return torch.from_numpy(whole).to(gradient.device, gradient.dtype)
