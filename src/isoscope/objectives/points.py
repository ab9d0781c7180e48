"""Take points from a model's hidden states, for penalties and observers."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from torch import Tensor, einsum

from isoscope.errors import InputError
from isoscope.objectives.protocol import Indices, Place


def points_of(hidden_states: Sequence[Tensor], mask: Tensor, place: Place) -> Tensor:
    """Return the points `[n, d]` of a batch, from its layers `[B, T, d]` and its mask `[B, T]`, in row order.

    `mean` averages over a row's tokens, special tokens included. Raises `InputError` if the layer does not exist.
    """
    if place.layer >= len(hidden_states):
        raise InputError(f"layer {place.layer}: the encoder has layers 0 to {len(hidden_states) - 1} (-1 for the last)")
    states = hidden_states[place.layer]
    states = states.float() if states.dtype.itemsize < 4 else states
    if place.vectors == "first":
        return states[:, 0]
    if place.vectors == "mean":
        weight = (mask / mask.sum(1, keepdim=True)).to(states.dtype)
        return einsum("btd,bt->bd", states, weight)
    return states[mask.bool()]


def points_at(hidden_states: Sequence[Tensor], mask: Tensor, places: Collection[Place]) -> Mapping[Place, Tensor]:
    """Return the points of a batch at several places."""
    return {place: points_of(hidden_states, mask, place) for place in places}


def owners_of(lengths: Indices, place: Place) -> Indices:
    """Return the position of each point's row, for rows of these lengths in tokens."""
    rows = np.arange(len(lengths))
    return np.repeat(rows, lengths) if place.vectors == "tokens" else rows
