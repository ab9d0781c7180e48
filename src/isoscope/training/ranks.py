"""Several processes on one run: each computes its part of every batch, the first one alone writes and speaks."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator
from accelerate.utils import broadcast

from isoscope import launched
from isoscope.data.batches import Indices, rank_slice
from isoscope.errors import RunError
from isoscope.training.determinism import refusal

Numbers = np.ndarray[Any, np.dtype[np.float64]]
Tensors = dict[str, torch.Tensor]


class Ranks:
    """The processes of one run, as torch.distributed counts them; alone, every method is the identity.

    All of them call the same methods in the same order: what decides the order (a stop, an early end) is agreed first.
    Only numbers and tensors travel, never objects, which would have to be unpickled.
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

    def sum(self, values: Numbers) -> Numbers:
        """The sum over processes, float64, the same bits in each."""
        if self.size == 1:
            return values
        tensor = torch.from_numpy(values).to(self._accelerator.device)
        return np.asarray(self._accelerator.reduce(tensor, "sum").cpu().numpy(), np.float64)

    def from_main(self, number: int) -> int:
        """The first process's `number`."""
        return int(self.sum(np.array([number if self.main else 0], np.float64))[0])

    def gather(self, tensors: Mapping[str, torch.Tensor]) -> list[Tensors]:
        """Every process's tensors, in their order; each name has one shape everywhere."""
        if self.size == 1:
            return [dict(tensors)]
        device = self._accelerator.device
        rows = {name: self._accelerator.gather(value[None].to(device)).cpu() for name, value in tensors.items()}
        return [{name: value[rank].clone() for name, value in rows.items()} for rank in range(self.size)]

    def send(self, tensors: Tensors) -> Tensors:
        """The first process's tensors."""
        return dict(broadcast(tensors)) if self.size > 1 else tensors

    def hold_gradients(self, model: Any, hold: bool) -> AbstractContextManager[Any]:
        """Where `hold`: gradients stay in this process until the next backward pass without."""
        return self._accelerator.no_sync(model) if hold and self.size > 1 else nullcontext()


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn torch's refusals under `strict`, and the death of another process of the run, into `RunError`."""
    try:
        yield
    except RuntimeError as error:
        if line := refusal(error):
            raise line from None
        if launched.size() > 1 and ("gloo" in str(error) or isinstance(error, torch.distributed.DistError)):
            raise RunError(
                f"another of the run's {launched.size()} processes is gone ({str(error).splitlines()[0]}); "
                "the same command goes on from the last state"
            ) from None
        raise
