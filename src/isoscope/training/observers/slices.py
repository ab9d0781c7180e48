"""Allocate the change of the loss of each class of predicted tokens to parts of the model: which part learns what."""

from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.data.parquet import write_tables
from isoscope.data.token_classes import token_classes
from isoscope.plugins import observer
from isoscope.training.allocation_sets import undisturbed
from isoscope.training.allocation_tables import SETS
from isoscope.training.observers import Context
from isoscope.training.observers.intervals import IntervalObserver
from isoscope.training.set_path import SetPath
from isoscope.training.slice_sets import Sliced, SliceSet
from isoscope.training.slice_tables import SliceRows, slice_tables


@observer("slices")
class Slices(IntervalObserver):
    """Write `slices.parquet` and `slices_closure.parquet` (see `slice_tables`).

    The sentences and the path integrals are those of `Allocation` with equal arguments. The parts of a set are not
    folds but classes of predicted tokens (`data.token_classes`), counted in the run's training split. So slices add up
    to the allocation of the set. Memory: one copy of the weights, a gradient per slice and set, and five more while an
    interval is computed. Each slice needs its own pass.

    Arguments are those of `training.slices`, which describes them. Raises `InputError` as `IntervalObserver` does, and
    for an objective that predicts no tokens.
    """

    name = "slices"

    def __init__(self, *, probability: float, **intervals: Any) -> None:
        super().__init__(heads=False, **intervals)
        self.probability = probability

    def begin(self, context: Context) -> None:
        super().begin(context)
        objective = context.objective
        if not isinstance(objective, Sliced):
            raise InputError(
                f"training.slices: objective {type(objective).__name__} predicts no tokens, so it has no slices; set "
                "training.slices to null, or choose a language model"
            )
        vocab_size = self.model.config.vocab_size
        texts = objective.splits["train"].ids
        classes = token_classes(texts, vocab_size=vocab_size, probability=self.probability)
        device = self.parameters[0].device
        options: dict[str, Any] = {
            "sentences": self.sentences,
            "classes": classes,
            "ranks": self.ranks,
            "device": device,
        }
        sets = [SliceSet(objective, name, **options) for name in SETS]
        self.paths = [SetPath(one, self.packed, self.model, self.ranks) for one in sets]
        self.rows: SliceRows = SliceRows(self.packed.groups)

    def measure(self, step: int, start: Tensor, end: Tensor) -> None:
        values, losses = [], []
        with undisturbed(self.model, self.parameters):
            for path in self.paths:
                values.append(self.integrated(path, start, end).values[0])
                losses.append(np.stack([path.losses[0.0], path.losses[1.0]]) / path.set.weights.sum())
        self.rows.add(values, losses)

    def finish(self, folder: Path) -> None:
        tokens = np.stack([path.set.weights for path in self.paths])
        write_tables(folder, slice_tables(self.rows, tokens, self.ends[: len(self.rows)], self.estimator))
