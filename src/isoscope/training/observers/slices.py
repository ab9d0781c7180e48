"""Allocate the change of the loss of each class of predicted tokens to parts of the model: which part learns what."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_tables
from isoscope.data.ngrams import CLASSES, TokenClasses, token_classes
from isoscope.data.tokens import Encoded
from isoscope.objectives import Batch, Indices
from isoscope.plugins import observer
from isoscope.training.allocation_sets import PartedSet, fixed_rows, micro_batches, undisturbed
from isoscope.training.allocation_tables import SETS
from isoscope.training.observers import Context
from isoscope.training.observers.intervals import IntervalObserver
from isoscope.training.slice_tables import SliceRows, slice_tables


@runtime_checkable
class Sliced(Protocol):
    """An objective that predicts tokens and can predict only some of them; `objectives.language` describes both."""

    splits: Mapping[str, Encoded]

    def by_class(
        self, split: str, rows: Indices, numbers: Callable[[Indices, Indices], Indices]
    ) -> dict[int, Batch]: ...


class SliceSet(PartedSet):
    """The rows of `AllocationSet` with a part per class of predicted tokens; `weights` `[9]` are their tokens.

    A slice's loss is the summed loss of its tokens over the tokens of all slices. So slices add up to the set's mean
    loss, and their allocations to its allocation. Slices without tokens have loss 0.
    """

    def __init__(self, objective: Any, split: str, *line: Any, sentences: int, classes: TokenClasses) -> None:
        batches: list[list[Batch]] = [[] for _ in CLASSES]
        for rows in micro_batches(objective, split, fixed_rows(objective, split, sentences)):
            for number, batch in objective.by_class(split, rows, classes.numbers).items():
                batches[number].append(batch)
        tokens = [sum(len(batch["labels"]) for batch in own) for own in batches]
        super().__init__(objective, np.array(tokens, np.float64), *line)
        for number in self.own:
            self.take(number, batches[number])


@observer("slices")
class Slices(IntervalObserver):
    """Write `slices.parquet` and `slices_closure.parquet` (see `slice_tables`).

    The sentences and the path integrals are those of `Allocation` with equal arguments. The parts of a set are not
    folds but classes of predicted tokens (`data.ngrams`), counted in the run's training split. So slices add up
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
        options: dict[str, Any] = {"sentences": self.sentences, "classes": classes}
        self.paths = [SliceSet(objective, name, *self.line, **options) for name in SETS]
        self.rows: SliceRows = SliceRows(self.packed.groups)

    def measure(self, step: int, start: Tensor, end: Tensor) -> None:
        values, losses = [], []
        with undisturbed(self.model, self.parameters):
            for path in self.paths:
                values.append(self.integrated(path, start, end).values[0])
                losses.append(np.stack([path.losses[0.0], path.losses[1.0]]) / path.weights.sum())
        self.rows.add(values, losses)

    def finish(self, folder: Path) -> None:
        tokens = np.stack([path.weights for path in self.paths])
        write_tables(folder, slice_tables(self.rows, tokens, self.ends[: len(self.rows)], self.estimator))
