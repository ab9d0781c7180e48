"""Convolve tables over (sequence, hidden) with small kernels, one per source: one output channel.

This is written out because a library's convolution from two channels to one is slow on a CPU: it costs two to ten times
as much. Shape letters: B sentences, L tokens, D hidden dimensions; h × w the kernel.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def correlate(sources: Sequence[Tensor], kernels: Tensor, *, mask: Tensor | None, past: int) -> Tensor:
    """`y[b, l, d] = Σ_c Σ_ij kernels[c, i, j] · mask[b, l′] · sources[c][b, l′, d + j − w // 2]`, `l′ = l + i − past`.

    `sources`: `[B, L, D]`, or `[1, L, D]` if all sentences share the source. `kernels` `[C, h, w]`, w odd. `mask` `[B,
    L, 1]` (None: ones). Values beyond the borders are zero. `past = h // 2` centres the kernels over the sequence;
    `past = h − 1` makes them causal. Equals `torch.nn.functional.conv2d` over the masked sources as channels; on a GPU
    it never uses TF32. Differentiable once.
    """
    if torch.is_grad_enabled() and any(given.requires_grad for given in (kernels, *sources)):
        return _Correlation.apply(kernels, mask, past, *sources)
    return _summed(kernels, mask, past, sources)[0]  # torch.compile traces an autograd function only in training


class _Frame(NamedTuple):
    """`[B, L, D]` inside zero borders, as one flat vector in which each tap of a kernel is an offset."""

    B: int
    L: int
    D: int
    h: int
    w: int
    past: int

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.B, self.L + self.h - 1, self.D + self.w - 1

    @property
    def size(self) -> int:
        return self.B * self.shape[1] * self.shape[2]

    @property
    def lead(self) -> int:
        """Return the offset of a kernel's last tap."""
        return (self.h - 1) * self.shape[2] + self.w - 1

    def taps(self, flat: Tensor) -> list[Tensor]:
        """Return the view of each tap of a kernel on a vector of `size + lead`, row by row."""
        seen = flat.as_strided((self.h, self.w, self.size), (self.shape[2], 1, 1))
        return [tap for row in seen.unbind() for tap in row.unbind()]

    def centre(self, bordered: Tensor) -> Tensor:
        """Return the view of the source inside `[…, L + h − 1, D + w − 1]`, without its borders."""
        return bordered[..., self.past : self.past + self.L, self.w // 2 : self.w // 2 + self.D]

    def corner(self, flat: Tensor) -> Tensor:
        """Return the view of the sums over windows: each sum is stored at its window's first row and column."""
        return flat[: self.size].view(self.shape)[:, : self.L, : self.D]

    def windows(self, mask: Tensor | None, like: Tensor) -> Tensor:
        """Return the mask under each row of the kernel: `[L, B, h]`."""
        bordered = like.new_zeros(self.B, self.shape[1])
        bordered[:, self.past : self.past + self.L] = 1 if mask is None else mask[..., 0]
        return bordered.as_strided((self.L, self.B, self.h), (1, self.shape[1], 1))

    def unfolded(self, shared: Tensor) -> Tensor:
        """Return the values that each tap sees of a `[1, L, D]` source: `[h, w, L · D]`."""
        bordered = shared.new_zeros(self.shape[1:])
        self.centre(bordered).copy_(shared[0])
        columns = self.shape[2]
        return bordered.as_strided((self.h, self.w, self.L, self.D), (columns, 1, columns, 1)).reshape(
            self.h, self.w, -1
        )

    def folded(self, rows: Tensor, kernel: Tensor) -> Tensor:
        """Backpropagate from a kernel's rows, gradients `[h, 1, L · D]`, to the shared source, `[1, L, D]`."""
        wide = rows.new_zeros(self.h, self.L, self.shape[2])
        for j, column in enumerate(kernel.unbind(1)):
            wide[..., j : j + self.D].addcmul_(rows.view(self.h, self.L, self.D), column[:, None, None])
        bordered = rows.new_zeros(self.shape[1:])
        for i, row in enumerate(wide.unbind()):
            bordered[i : i + self.L].add_(row)
        return self.centre(bordered).unsqueeze(0)


def _summed(
    kernels: Tensor, mask: Tensor | None, past: int, sources: Sequence[Tensor]
) -> tuple[Tensor, _Frame, list[bool], Tensor, list[Tensor]]:
    """Compute the sum; return it with the frame, which sources are shared, and the tensors for the backward pass.

    A source per sentence costs h · w multiply-adds over all sentences; a shared source only h.
    """
    batch = max(source.shape[0] for source in sources)
    frame = _Frame(batch, sources[0].shape[1], sources[0].shape[2], kernels.shape[1], kernels.shape[2], past)
    shared = [source.shape[0] < batch for source in sources]
    windows = frame.windows(mask, like=kernels)
    sums = sources[0].new_zeros(0)
    seen = []
    for source, kernel, one in zip(sources, kernels, shared, strict=True):
        if one:
            seen.append(frame.unfolded(source))
            continue
        flat = source.new_zeros(frame.size + frame.lead)
        centre = frame.centre(flat[: frame.size].view(frame.shape)).copy_(source)
        if mask is not None:
            centre.mul_(mask)  # in place: torch.compile does not accept a strided view as `out`
        sums = _weighted(frame.taps(flat), kernel, onto=sums)
        seen.append(flat)
    y = frame.corner(sums)
    for unfolded, kernel, one in zip(seen, kernels, shared, strict=True):
        if one:
            rows = torch.bmm(kernel.unsqueeze(1), unfolded).view(frame.h, frame.L, frame.D)
            y = y + torch.bmm(windows, rows.transpose(0, 1)).transpose(0, 1)
    # A view inside borders would slow down every later step.
    return y.contiguous(), frame, shared, windows, seen


class _Correlation(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kernels: Tensor, mask: Tensor | None, past: int, *sources: Tensor) -> Tensor:
        y, ctx.frame, ctx.shared, windows, seen = _summed(kernels, mask, past, sources)
        ctx.save_for_backward(kernels, mask, windows, *seen)
        return y

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        kernels, mask, windows, *seen = ctx.saved_tensors
        frame: _Frame = ctx.frame
        flat = grad.new_zeros(frame.lead + frame.size)
        frame.corner(flat[frame.lead :]).copy_(grad)
        row = flat[frame.lead :].unsqueeze(0)  # as a matrix of one row: on a CPU several times faster than `dot`
        kernel_grads: list[Tensor] = []
        source_grads: list[Tensor | None] = []
        for c, (kernel, one) in enumerate(zip(kernels, ctx.shared, strict=True)):
            source_grad = None
            if one:
                rows = torch.bmm(windows.transpose(1, 2), grad.transpose(0, 1))
                rows = rows.transpose(0, 1).reshape(frame.h, 1, -1)
                kernel_grads.append(torch.bmm(rows, seen[c].transpose(1, 2)).flatten())
                if ctx.needs_input_grad[3 + c]:
                    source_grad = frame.folded(rows, kernel)
            else:
                kernel_grads.append(torch.cat([torch.mv(row, tap) for tap in frame.taps(seen[c])]))
                if ctx.needs_input_grad[3 + c]:
                    sums = _weighted(frame.taps(flat)[::-1], kernel, onto=grad.new_zeros(0))
                    source_grad = frame.centre(sums.view(frame.shape)) * (1 if mask is None else mask)
            source_grads.append(source_grad)
        return torch.stack(kernel_grads).view(kernels.shape), None, None, *source_grads


def _weighted(taps: Sequence[Tensor], kernel: Tensor, onto: Tensor) -> Tensor:
    """Return `onto + Σ kernel_t · taps_t`, in place of `onto` unless it is empty."""
    weights = kernel.flatten().unbind()
    start = 0 if onto.numel() else 1
    sums = onto if onto.numel() else taps[0] * weights[0]
    for tap, weight in zip(taps[start:], weights[start:], strict=True):
        sums.addcmul_(tap, weight)
    return sums
