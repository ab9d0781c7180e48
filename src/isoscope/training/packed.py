"""Weights and gradients as one vector in which each group of parameters is contiguous, and sums over the groups."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.models.components import Group, Member
from isoscope.objectives import Indices, Numbers

_BLOCK, _LARGE_BLOCK = 2**17, 2**22
"""Elements that are converted to float64 at a time, on a CPU, whose cache they should fit, and on other devices."""


class Packed:
    """The parameters of `members` as one vector `[P]`, and float64 sums of its products by group `[G]`.

    `block` elements are converted to float64 at a time (None: by device). Raises `InputError` for weights below
    fp32, whose updates are lost to rounding, and for sharded weights.
    """

    def __init__(self, members: Sequence[Member], *, block: int | None = None) -> None:
        self.members = [one for one in members if one.parameter.numel()]
        for name, parameter, *_ in members:
            if hasattr(parameter, "ds_id") or hasattr(parameter, "device_mesh"):
                raise InputError(f"{name} is sharded; allocation needs whole weights: train in one process or with DDP")
            if parameter.dtype not in (torch.float32, torch.float64):
                raise InputError(
                    f"{name} is {parameter.dtype}; allocation needs fp32 weights, which hold small updates"
                )
        self.groups: tuple[Group, ...] = tuple(dict.fromkeys(group for one in members for group in one.groups))
        self.sizes = [one.parameter.numel() for one in self.members]
        self.size = sum(self.sizes)
        device = self.members[0].parameter.device
        self.block = block or (_BLOCK if device.type == "cpu" else _LARGE_BLOCK)
        length = min(self.block, self.size)
        self._change, self._product = (torch.empty(length, dtype=torch.float64, device=device) for _ in range(2))
        number = {group: index for index, group in enumerate(self.groups)}
        segments = [
            (number[group], size // len(one.groups))
            for one, size in zip(self.members, self.sizes, strict=True)
            for group in one.groups
        ]
        of_segment, lengths = np.array(segments, np.int64).T
        self.counts = np.bincount(of_segment, weights=lengths, minlength=len(self.groups)).astype(np.int64)
        ends = np.cumsum(lengths)
        self._cuts = [self._cut(start, ends, of_segment) for start in range(0, self.size, self.block)]

    def read(self, out: Tensor | None = None) -> Tensor:
        """Return a copy of the weights, in `out` if given."""
        return self.pack([one.parameter.detach() for one in self.members], out)

    def pack(self, values: Sequence[Tensor | None], out: Tensor | None = None) -> Tensor:
        """Return tensors of the members' shapes as one vector, in `out` if given; None counts as zeros.

        New memory of this size costs more than the copy, so what runs at every update passes `out`.
        """
        arranged = [
            one.arranged(torch.zeros_like(one.parameter) if value is None else value.detach())
            for one, value in zip(self.members, values, strict=True)
        ]
        return torch.cat(arranged, out=out)

    @torch.no_grad()
    def write(self, flat: Tensor) -> None:
        """Set the weights to a vector."""
        for one, values in zip(self.members, self.views(flat), strict=True):
            one.parameter.copy_(values)

    def views(self, flat: Tensor) -> list[Tensor]:
        """Return a vector's parts in the members' shapes, without a copy."""
        return [one.view(values) for one, values in zip(self.members, flat.split(self.sizes), strict=True)]

    def allocated(self, gradient: Tensor, before: Tensor, after: Tensor) -> Numbers:
        """Return `Σ gradient · (after − before)` by group; products and sums are float64."""
        found = np.zeros(len(self.groups))
        for cut, product in self._products(gradient, before, after):
            found += self._sums(product, cut)
        return found

    def paired(self, gradient: Tensor, step: Tensor) -> Numbers:
        """Return `Σ gradient · step` by group."""
        return self.allocated(gradient, torch.zeros((), dtype=step.dtype, device=step.device).expand_as(step), step)

    def counted(self, gradient: Tensor, before: Tensor, after: Tensor) -> dict[str, Numbers]:
        """Return by group: single parameters that are `helping`, `hurting`, and the `largest` allocation that hurts.

        `largest` is 0 if none hurts.
        """
        helping, hurting, largest = np.zeros((3, len(self.groups)))
        for cut, product in self._products(gradient, before, after):
            helping += self._sums((product < 0).double(), cut)
            hurting += self._sums((product > 0).double(), cut)
            most = np.maximum.reduceat(product.cpu().numpy(), cut.starts)
            np.maximum.at(largest, cut.groups, most)
        return {"helping": helping, "hurting": hurting, "largest": largest}

    def _products(self, gradient: Tensor, before: Tensor, after: Tensor) -> Iterator[tuple["_Cut", Tensor]]:
        for cut in self._cuts:
            part = slice(cut.start, cut.start + cut.length)
            change, product = self._change[: cut.length], self._product[: cut.length]
            change.copy_(after[part]).sub_(before[part])
            yield cut, product.copy_(gradient[part]).mul_(change)

    def _cut(self, start: int, ends: Indices, of_segment: Indices) -> "_Cut":
        """Return the segments of a block of the vector; a segment may continue in the next block."""
        stop = min(start + self.block, self.size)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        starts = np.maximum(np.concatenate([[0], ends])[first : last + 1], start) - start
        return _Cut(start, stop - start, starts, of_segment[first : last + 1])

    def _sums(self, values: Tensor, cut: "_Cut") -> Numbers:
        if values.device.type == "cpu":  # several times faster here than torch's
            sums = np.add.reduceat(values.numpy(), cut.starts)
        else:
            lengths = torch.from_numpy(cut.lengths).to(values.device)
            sums = torch.segment_reduce(values, "sum", lengths=lengths).cpu().numpy()
        return np.bincount(cut.groups, weights=sums, minlength=len(self.groups)).astype(np.float64)


class _Cut(NamedTuple):
    """A block of the vector: where it starts, its length, its segments' starts inside it, and their groups."""

    start: int
    length: int
    starts: Indices
    groups: Indices

    @property
    def lengths(self) -> Indices:
        """The segments' lengths."""
        return np.diff(self.starts, append=self.length)
