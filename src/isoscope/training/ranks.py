"""Several processes on one run: each computes its part of every batch, the first one alone writes and speaks."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list, gather_object

from isoscope.corpora.batches import Indices, rank_slice

Counts = np.ndarray[Any, np.dtype[np.float64]]


class Ranks:
    """The processes of one run, as torch.distributed counts them; alone, every method is the identity.

    All of them call the same methods in the same order: what decides the order (a stop, an early end) is agreed first.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator = accelerator
        self.rank, self.size = accelerator.process_index, accelerator.num_processes

    @property
    def main(self) -> bool:
        """Whether this process writes the record, the states and the output."""
        return self.rank == 0

    def share(self, rows: Indices) -> Indices:
        """The rows of a global batch that fall to this process."""
        return rows if self.size == 1 else rank_slice(rows, self.rank, self.size)

    def sum(self, values: Counts) -> Counts:
        """The sum over processes, float64, the same bits in each."""
        if self.size == 1:
            return values
        tensor = torch.from_numpy(values).to(self._accelerator.device)
        return np.asarray(self._accelerator.reduce(tensor, "sum").cpu().numpy(), np.float64)

    def gather(self, value: Any) -> list[Any]:
        """Every process's `value`, in their order."""
        return list(gather_object([value])) if self.size > 1 else [value]

    def from_main(self, value: Any) -> Any:
        """The first process's `value`."""
        return broadcast_object_list([value])[0] if self.size > 1 else value

    def hold_gradients(self, model: Any, hold: bool) -> AbstractContextManager[Any]:
        """Where `hold`: gradients stay in this process until the next backward pass without."""
        return self._accelerator.no_sync(model) if hold and self.size > 1 else nullcontext()
