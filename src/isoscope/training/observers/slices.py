"""Allocate the change of the loss of each class of predicted tokens to parts of the model: which part learns what.

A slice is a class of predicted tokens (`data.ngrams`) of a fixed set of sentences. Its loss is the summed loss
of its tokens over the tokens of all slices, so that slices add up to the set's mean loss. Slices without tokens have no
rows.

`slices.parquet`: a row per interval, set, slice and stack × layer × component.

- `start`, `update`: the interval's ends, in updates; `set`: train or validation; `frequency`, `context`: the slice.
- `stack`, `layer`, `component` (`models.components.Group`); `layer` is empty outside the layers.
- `value`: the allocation of the slice's loss in nats; negative helps.

`slices_closure.parquet`: a row per interval, set and slice.

- `tokens`: the slice's share of the set's tokens. `before`, `after`: the slice's loss; divided by `tokens`, it is the
  mean loss of the slice's own tokens. `change`: their difference; `allocated`: ΣA; `gap`: allocated − change.
- `bound`: largest |gap| of a closed slice (`allocation.bound`); `closed`; `estimator`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_tables
from isoscope.data.ngrams import CLASSES, TokenClasses, token_classes
from isoscope.objectives import Batch, Indices, Numbers
from isoscope.plugins import observer
from isoscope.training.allocation import bound
from isoscope.training.allocation_sets import Line, PartedSet, fixed_rows, micro_batches, undisturbed
from isoscope.training.allocation_tables import (
    SETS,
    IntervalRows,
    blocks_of,
    crossed,
    losses_and_gap,
    named,
    spans,
    typed,
)
from isoscope.training.observers import Context
from isoscope.training.observers.intervals import IntervalObserver


def sliced_set(objective: Any, split: str, line: Line, *, sentences: int, classes: TokenClasses) -> PartedSet:
    """Return the rows of `folded_set` with a part per class of predicted tokens; `weights` `[9]` are their tokens."""
    batches: list[list[Batch]] = [[] for _ in CLASSES]
    for rows in micro_batches(objective, split, fixed_rows(objective, split, sentences)):
        for number, batch in objective.by_class(split, rows, classes.numbers).items():
            batches[number].append(batch)
    tokens = [sum(len(batch["labels"]) for batch in own) for own in batches]
    return PartedSet(objective, np.array(tokens, np.float64), batches, line)


@observer("slices")
class Slices(IntervalObserver):
    """Write `slices.parquet` and `slices_closure.parquet` (this module has their columns).

    The sentences and the path integrals are those of `Allocation` with equal arguments. The parts of a set are not
    folds but classes of predicted tokens (`data.ngrams`), counted in the run's training split. So slices add up
    to the allocation of the set. Memory: one copy of the weights, a gradient per slice and one more per set, and five
    more while an interval is computed. Each slice needs its own pass.

    Arguments are those of `training.slices`, which describes them. Raises `InputError` as `IntervalObserver` does, and
    for an objective that predicts no tokens.
    """

    name = "slices"

    def __init__(self, *, probability: float, **intervals: Any) -> None:
        super().__init__(heads=False, **intervals)
        self.probability = probability

    def begin(self, context: Context) -> None:
        super().begin(context)
        objective: Any = context.objective
        if not hasattr(objective, "by_class"):
            raise InputError(
                f"training.slices: objective {type(objective).__name__} predicts no tokens, so it has no slices; set "
                "training.slices to null, or choose a language model"
            )
        texts, vocab_size = objective.splits["train"].ids, self.model.config.vocab_size
        classes = token_classes(texts, vocab_size=vocab_size, probability=self.probability)
        options: dict[str, Any] = {"sentences": self.sentences, "classes": classes}
        self.paths = [sliced_set(objective, name, self.line, **options) for name in SETS]
        self.blocks, where = blocks_of(self.packed.groups)
        self._to_blocks = np.eye(len(self.blocks))[where]
        self.rows = IntervalRows(("values", "losses"))

    def measure(self, step: int, start: Tensor, end: Tensor) -> None:
        values, losses = [], []
        with undisturbed(self.model, self.parameters):
            for path in self.paths:
                values.append(self.integrated(path, start, end).values[0])
                losses.append(np.stack([path.losses[0.0], path.losses[1.0]]) / path.weights.sum())
        self.rows.append(values=np.stack(values) @ self._to_blocks, losses=np.stack(losses))

    def finish(self, folder: Path) -> None:
        tokens = np.stack([path.weights for path in self.paths])
        write_tables(folder, tables(self.rows, self.blocks, tokens, self.ends[: len(self.rows)], self.estimator))


def tables(
    rows: IntervalRows, blocks: Sequence[tuple[Any, ...]], tokens: Numbers, ends: Indices, estimator: str
) -> dict[str, pd.DataFrame]:
    """Return the tables by name, as the module describes them; none before the first interval.

    `rows`: allocations `[sets, slices, blocks]` and losses `[sets, 2, slices]` by interval. `tokens` `[sets, slices]`;
    `ends` `[intervals]` are the intervals' last updates.
    """
    if not len(rows):
        return {}
    some = np.tile(tokens.ravel() > 0, len(rows))
    slices = pd.DataFrame(CLASSES, columns=["frequency", "context"])
    keys = crossed(spans(ends), pd.DataFrame({"set": SETS}), slices)[some]
    values = rows.stacked("values").reshape(-1, len(blocks))[some]
    before, after = np.moveaxis(rows.stacked("losses"), 2, 0).reshape(2, -1)[:, some]
    bounds, compared = bound(values), losses_and_gap(before, after, values.sum(1))
    shares = np.tile((tokens / tokens.sum(1, keepdims=True)).ravel(), len(rows))[some]
    closed = {"bound": bounds, "closed": np.abs(compared["gap"]) <= bounds, "estimator": estimator}
    return {
        "slices": typed(crossed(keys, named(blocks)).assign(value=values.ravel())),
        "slices_closure": typed(keys.assign(tokens=shares, **compared, **closed)),
    }
