"""What the modules of fusions share: the order of the tables, their sum, unit length, activations, a bounded number."""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from isoscope.fusions.tables import Table

TABLES: tuple[Table, ...] = ("word", "token_type", "position")
"""BERT's order of addition, and the order of a kernel's channels."""
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor] | None] = MappingProxyType({"gelu": F.gelu, "none": None})


def added(word: Tensor, position: Tensor, token_type: Tensor) -> Tensor:
    """Return `(w + t) + p`, added in the order of Hugging Face's BertModel, so the result is bitwise equal."""
    return (word + token_type) + position


def unit(source: Tensor) -> Tensor:
    """Scale vectors to unit length; zero vectors (padding) stay zero, even where fp16 rounds PyTorch's 1e-12 to 0."""
    return F.normalize(source, dim=-1, eps=max(1e-12, torch.finfo(source.dtype).tiny))


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


class Sum(nn.Module):
    """`(word_factor · w + t) + position_factor · p`; a factor of None is 1. No parameters.

    `token_type`: whether t is added. `layer_norm`: whether a LayerNorm follows.
    """

    looks_around = False

    def __init__(
        self,
        word_factor: float | None = None,
        position_factor: float | None = None,
        *,
        token_type: bool = True,
        layer_norm: bool = True,
    ) -> None:
        super().__init__()
        self.factors = word_factor, position_factor
        self.uses_token_type, self.layer_norm = token_type, layer_norm

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        tables = zip(self.factors, (word, position), strict=True)
        word, position = (table if factor is None else factor * table for factor, table in tables)
        return added(word, position, token_type) if self.uses_token_type else word + position


class Sources(nn.Module):
    """A fusion of some of the tables, in the order of `TABLES`."""

    looks_around = False

    def __init__(self, sources: Sequence[str], token_type: str, normalisation: str, start: str = "random") -> None:
        super().__init__()
        self.start, self.normalisation = start, normalisation
        self.sources = tuple(table for table in TABLES if table in sources)
        self.adds_token_type = token_type == "add"
        self.uses_token_type = self.adds_token_type or "token_type" in sources or start == "residual"

    def chosen(self, word: Tensor, position: Tensor, token_type: Tensor) -> dict[Table, Tensor]:
        """Return the vectors of the sources by table."""
        tables: dict[Table, Tensor] = {"word": word, "token_type": token_type, "position": position}
        return {name: tables[name] for name in self.sources}

    def normalised(self, source: Tensor) -> Tensor:
        """Return a source vector, of unit length if the option `normalisation` is l2."""
        return unit(source) if self.normalisation == "l2" else source
