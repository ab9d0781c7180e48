"""What a penalty and the watch over anisotropy look at: points taken from a model's hidden states."""

from collections.abc import Sequence

import torch
from torch import Tensor

from isoscope.errors import InputError


def points_of(hidden_states: Sequence[Tensor], mask: Tensor, *, layer: int, vectors: str) -> Tensor:
    """Points `[n, d]` of a batch, from its layers `[B, T, d]` and its mask `[B, T]`, sentences in their order.

    `vectors`: `first`, `mean` (over tokens, special ones included) or `tokens`. Raises `InputError` for a layer beyond
    the last one.
    """
    if layer >= len(hidden_states):
        raise InputError(f"layer {layer}: the encoder has layers 0 to {len(hidden_states) - 1} (-1 for the last)")
    states = hidden_states[layer]
    states = states.float() if states.dtype.itemsize < 4 else states
    if vectors == "first":
        return states[:, 0]
    if vectors == "mean":
        weight = (mask / mask.sum(1, keepdim=True)).to(states.dtype)
        return torch.einsum("btd,bt->bd", states, weight)
    return states[mask.bool()]


def points_per_sentence(lengths: Sequence[int], vectors: str) -> list[int]:
    """How many points sentences of these lengths give."""
    return [int(length) if vectors == "tokens" else 1 for length in lengths]
