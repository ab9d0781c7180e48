"""What all objectives over texts share: sizes, batches by length, notes on cut texts."""

from collections.abc import Mapping, Sequence

import numpy as np

from isoscope.data.batches import epoch_batches, evaluation_batches
from isoscope.objectives import Indices, Metric, Task

_EVALUATED = 64
"""Minimum number of sentences in an evaluation batch; evaluation needs no memory for a backward pass."""


class Planned:
    """Batches of texts of these lengths in tokens, by split; `truncated`: number of texts that were cut."""

    generated: Sequence[Metric] = ()

    def __init__(self, lengths: Mapping[str, Indices], truncated: Mapping[str, int], task: Task) -> None:
        self.lengths, self.task = lengths, task
        self.notes = [
            f"{name}: {number} texts cut to {task.max_length} tokens" for name, number in truncated.items() if number
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
