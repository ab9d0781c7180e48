"""What all objectives over texts share: sizes, batches by length, notes on cut texts, and what a start must fit."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.batches import epoch_batches, evaluation_batches
from isoscope.data.tokens import Encoded
from isoscope.models import published
from isoscope.objectives import Indices, Metric, Place, Task, owners_of

_EVALUATED = 64
"""Minimum number of sentences in an evaluation batch; evaluation needs no memory for a backward pass."""


class Planned:
    """Texts by split, in batches of similar length.

    `splits`: the texts. `others`: further texts of the same rows. `lengths`: how many tokens of each row the model
    reads; None: all of `splits`.
    """

    generated: Sequence[Metric] = ()
    classes = 1

    def __init__(
        self,
        task: Task,
        splits: Mapping[str, Encoded],
        *others: Mapping[str, Encoded],
        lengths: Mapping[str, Indices] | None = None,
    ) -> None:
        self.task, self.splits = task, splits
        self.lengths = lengths or {split: one.lengths for split, one in splits.items()}
        cut = {split: sum(side[split].truncated for side in (splits, *others)) for split in splits}
        self.notes = [
            f"{split}: {number} texts cut to {task.max_length} tokens" for split, number in cut.items() if number
        ]

    def size(self, split: str) -> int:
        return len(self.lengths[split])

    def tokens(self, split: str, rows: Indices) -> int:
        return int(self.lengths[split][rows].sum())

    def plan(self, split: str, epoch: int | None, rows: Indices | None = None) -> list[Indices]:
        task, lengths = self.task, self.lengths[split]
        if epoch is not None:
            return epoch_batches(lengths, batch_size=task.batch_size, seed=task.seed, epoch=epoch, bucket=task.bucket)
        rows = np.arange(len(lengths)) if rows is None else rows
        return [rows[part] for part in evaluation_batches(lengths[rows], batch_size=max(task.batch_size, _EVALUATED))]

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        return owners_of(self.lengths[split][rows], place), None

    def by_row(self, model: Any, split: str, rows: Indices, of: Callable[[Indices], Iterable[Any]]) -> list[Any]:
        """Return what `of`, given the rows of a batch, returns for each of all `rows`, in order, without dropout."""
        was_training = model.training
        model.eval()
        found: dict[int, Any] = {}
        for part in self.plan(split, None, rows):
            found |= zip(part.tolist(), of(part), strict=True)
        model.train(was_training)
        return [found[row] for row in rows.tolist()]


def check_start(model: Any, folder: Path, settings: Mapping[str, Any], task: Task) -> None:
    """Check that another run's model, in `folder`, fits a run with the section `model` and this task.

    Raises `InputError` if it has another fusion than `settings` say, another tokenizer than the task, or too few
    positions.
    """
    asked = settings["fusion"]
    parts = [getattr(model.config, name, model.config) for name in ("encoder", "decoder")]
    fusions = [getattr(part, "fusion", {"kind": published.NATIVE}) for part in parts]
    if other := [fusion for fusion in fusions if fusion != asked]:
        raise InputError(f"model.fusion: {asked}, but the model to start from has {other[0]}; set it")
    if tokens.load(folder).backend.get_vocab() != tokens.load(task.tokenizer).backend.get_vocab():
        raise InputError(f"checkpoint {folder}: its tokenizer is not that of the task")
    published.check_fits(model, task.max_length)


def sizes(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a section `model.encoder` that a model is drawn with."""
    return {name: value for name, value in model["encoder"].items() if name not in ("kind", "tokenizer")}
