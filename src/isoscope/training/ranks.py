"""Run one training run in several processes: each computes its part of every batch; only rank 0 writes and prints."""

import re
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator, DistributedDataParallelKwargs
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast

from isoscope.base import processes
from isoscope.base.environment import settle
from isoscope.base.errors import InputError, RunError
from isoscope.data.arrays import Indices
from isoscope.models.build import check_device
from isoscope.objectives import Numbers
from isoscope.training.determinism import choose_kernels

Tensors = dict[str, torch.Tensor]


def make_accelerator(training: Any, *, unused: bool) -> Accelerator:
    """Return Accelerate's object for this process; `unused`: an update may leave parameters without gradients.

    The settings alone decide: variables of Accelerate are ignored or refused (`isoscope.base.environment`). Raises
    `InputError` if the launcher's variables contradict each other.
    """
    settle()
    if training.threads is not None:
        torch.set_num_threads(training.threads)
    choose_kernels(training.determinism)
    if processes.world_size() == 1:
        AcceleratorState._reset_state()  # an earlier run of this process may have had another precision
    made = Accelerator(
        cpu=check_device(training.device, key="training.device") == "cpu",
        mixed_precision="bf16" if training.precision == "bf16" else "no",
        kwargs_handlers=[DistributedDataParallelKwargs(find_unused_parameters=unused)],
    )
    if (number := made.num_processes) != processes.world_size():
        raise InputError(
            f"the launcher's variables give {number} processes, WORLD_SIZE gives {processes.world_size()}; start them "
            "with accelerate launch --multi_gpu or torchrun"
        )
    return made


class Ranks:
    """The processes of one run, as torch.distributed counts them; with one process, every method is the identity.

    All processes call the same methods in the same order. Decisions that change the order (a stop, an early end) are
    agreed on first. Only numbers and tensors are exchanged, never objects, which would need unpickling.
    """

    def __init__(self, accelerator: Accelerator) -> None:
        self._accelerator, self.device, self.backward = accelerator, accelerator.device, accelerator.backward
        self.rank, self.size = accelerator.process_index, accelerator.num_processes

    @property
    def main(self) -> bool:
        """Whether this process has rank 0 and writes the record, the states and the output."""
        return self.rank == 0

    def share(self, rows: Indices) -> Indices:
        """Return the rows of a global batch that belong to this process: every n-th row, so lengths are similar.

        Each process gets a part of each batch, so all take the same number of steps. Part sizes differ by at most one
        row; if a batch has fewer rows than processes, some parts are empty.
        """
        return rows[self.rank :: self.size]

    def sum(self, values: Numbers) -> Numbers:
        """Return the sum over processes in float64, with the same bits in each process."""
        if self.size == 1:
            return values
        tensor = torch.from_numpy(values).to(self.device)
        return np.asarray(self._accelerator.reduce(tensor, "sum").cpu().numpy(), np.float64)

    def from_main(self, number: int) -> int:
        """Return rank 0's `number`."""
        return int(self.sum(np.array([number if self.main else 0], np.float64))[0])

    def gather(self, tensors: Mapping[str, torch.Tensor]) -> list[Tensors]:
        """Return every process's tensors, in rank order; each name has the same shape in all processes."""
        if self.size == 1:
            return [dict(tensors)]
        rows = {name: self._accelerator.gather(value[None].to(self.device)).cpu() for name, value in tensors.items()}
        return [{name: value[rank].clone() for name, value in rows.items()} for rank in range(self.size)]

    def send(self, tensors: Tensors) -> Tensors:
        """Return rank 0's tensors."""
        return dict(broadcast(tensors)) if self.size > 1 else tensors

    def hold_gradients(self, model: Any, hold: bool) -> AbstractContextManager[Any]:
        """Skip gradient synchronisation if `hold`; the next backward pass without `hold` synchronises."""
        return self._accelerator.no_sync(model) if hold and self.size > 1 else nullcontext()


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn torch's errors under `strict`, and the death of another process of the run, into `RunError`."""
    try:
        yield
    except RuntimeError as error:
        if refused := re.search(r"(\S+) does not have a deterministic implementation", str(error)):
            raise RunError(
                f"training.determinism: strict: {refused[1]} has no deterministic implementation on this device; "
                "use another operation, or -S training.determinism=seeded"
            ) from None
        if processes.world_size() > 1 and ("gloo" in str(error) or isinstance(error, torch.distributed.DistError)):
            raise RunError(
                f"another of the run's {processes.world_size()} processes ended ({str(error).splitlines()[0]}); "
                "run the same command to resume from the last state"
            ) from None
        raise
