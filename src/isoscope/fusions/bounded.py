"""A learned number that stays between 0 and 1."""

from typing import Any

import torch
from torch import Tensor


class Bounded(torch.autograd.Function):
    """Clamp a parameter to [0, 1]; beyond a bound, only a gradient that leads back passes, so that none is stuck."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value)
        return value.clamp(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (value,) = ctx.saved_tensors
        return grad * ((value > 0) | (grad < 0)) * ((value < 1) | (grad > 0))
