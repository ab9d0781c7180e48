"""Arrays that a pass over batches fills by rows, without a card waiting for the host."""

from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.data.arrays import Vectors


class FilledArrays:
    """Arrays that are filled by rows, batch by batch. A card's results are copied while it computes the next batch."""

    def __init__(self) -> None:
        self._arrays: dict[str, Vectors] = {}
        self._batches: list[list[Callable[[], object]]] = [[]]

    def put(self, name: str, count: int, rows: Any, values: Tensor) -> None:
        """Write `values` `[…, rows, width]` to these rows of the array `name` `[…, count, width]`, as fp32.

        Raises `InputError` for NaN or infinity, on a card at the latest in `whole`.
        """
        write = partial(self._write, name, count, rows, values.float().to("cpu", non_blocking=True))
        if values.is_cuda:
            self._batches[-1].append(write)
        else:
            write()

    def _write(self, name: str, count: int, rows: Any, values: Tensor) -> None:
        if not torch.isfinite(values).all():
            raise InputError("hidden states: NaN or infinity; are the weights damaged?")
        kept = self._arrays.setdefault(name, np.empty((*values.shape[:-2], count, values.shape[-1]), np.float32))
        kept[..., rows, :] = values.numpy()

    def next_batch(self) -> None:
        """End a batch, and write the batch before it, which the card has finished or is about to finish."""
        if self._batches[-1]:
            self._batches[-1].insert(0, torch.cuda.current_stream().record_event().synchronize)
            self._batches.append([])
        for use in self._batches.pop(0) if len(self._batches) > 2 else ():
            use()

    def whole(self) -> dict[str, Vectors]:
        """Return the arrays, all batches written."""
        self.next_batch()
        for use in chain.from_iterable(self._batches):
            use()
        return self._arrays
