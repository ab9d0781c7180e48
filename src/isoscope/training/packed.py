"""Weights and gradients as one vector in which each group of parameters is contiguous, and sums over the groups."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

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

    def allocated(self, gradients: Sequence[Tensor], before: Tensor, after: Tensor) -> Numbers:
        """Return `Σ gradient · (after − before)` of K gradients by group `[K, G]`; products and sums are float64."""
        sums: list[list[Tensor]] = [[] for _ in gradients]
        for number, cut, product in self._products(gradients, before, after):
            sums[number].append(self._reduced(product, cut))
        return np.reshape([*map(self._by_group, sums)], (len(sums), len(self.groups)))

    def paired(self, gradient: Tensor, step: Tensor) -> Numbers:
        """Return `Σ gradient · step` by group."""
        still = torch.zeros((), dtype=step.dtype, device=step.device).expand_as(step)
        return self.allocated([gradient], still, step)[0]

    def counted(self, gradient: Tensor, before: Tensor, after: Tensor) -> dict[str, Numbers]:
        """Return by group: single parameters that are `helping`, `hurting`, and the `largest` allocation that hurts.

        `largest` is 0 if none hurts.
        """
        helping, hurting, most = [], [], []
        for _, cut, product in self._products([gradient], before, after):
            helping.append(self._reduced((product < 0).double(), cut))
            hurting.append(self._reduced((product > 0).double(), cut))
            most.append(self._reduced(product, cut, "max"))
        largest = np.zeros(len(self.groups))
        for cut, own in self._by_cut(most):
            np.maximum.at(largest, cut.groups, own)
        return {"helping": self._by_group(helping), "hurting": self._by_group(hurting), "largest": largest}

    def _products(
        self, gradients: Sequence[Tensor], before: Tensor, after: Tensor
    ) -> Iterator[tuple[int, "_Cut", Tensor]]:
        """Yield the products of each block with each gradient, by the gradient's number; the next has their memory."""
        for cut in self._cuts:
            part = slice(cut.start, cut.start + cut.length)
            change, product = self._change[: cut.length], self._product[: cut.length]
            change.copy_(after[part]).sub_(before[part])
            for number, gradient in enumerate(gradients):
                yield number, cut, product.copy_(gradient[part]).mul_(change)

    def _cut(self, start: int, ends: Indices, of_segment: Indices) -> "_Cut":
        """Return the segments of a block of the vector; a segment may continue in the next block."""
        stop = min(start + self.block, self.size)
        first, last = np.searchsorted(ends, [start, stop - 1], side="right")
        starts = np.maximum(np.concatenate([[0], ends])[first : last + 1], start) - start
        lengths = torch.from_numpy(np.diff(starts, append=stop - start)).to(self._change.device)
        return _Cut(start, stop - start, starts, of_segment[first : last + 1], lengths)

    def _reduced(self, values: Tensor, cut: "_Cut", how: Literal["sum", "max"] = "sum") -> Tensor:
        """Return the sum or the largest of each segment of a block, on the values' device."""
        if values.device.type == "cpu":  # several times faster here than torch's
            ways: dict[str, np.ufunc] = {"sum": np.add, "max": np.maximum}
            return torch.from_numpy(ways[how].reduceat(values.numpy(), cut.starts))
        return torch.segment_reduce(values, how, lengths=cut.lengths)

    def _by_cut(self, segments: Sequence[Tensor]) -> Iterator[tuple["_Cut", Numbers]]:
        """Yield each block with its segments' numbers, from all blocks in order, in one copy to the CPU."""
        ends = np.cumsum([len(cut.starts) for cut in self._cuts])
        yield from zip(self._cuts, np.split(torch.cat([*segments]).cpu().numpy(), ends[:-1]), strict=True)

    def _by_group(self, sums: Sequence[Tensor]) -> Numbers:
        """Return sums by group from those of all blocks by segment."""
        found = np.zeros(len(self.groups))
        for cut, own in self._by_cut(sums):
            found += np.bincount(cut.groups, weights=own, minlength=len(self.groups))
        return found


class _Cut(NamedTuple):
    """A block of the vector: where it starts, its length, its segments' starts inside it, and their groups.

    `lengths`: the segments' lengths, on the weights' device.
    """

    start: int
    length: int
    starts: Indices
    groups: Indices
    lengths: Tensor
