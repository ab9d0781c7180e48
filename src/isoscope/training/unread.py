"""Numbers of updates that are still on the device: read together, so that an update does not wait for a GPU."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Objective, Tally
from isoscope.training.progress import DivergedError
from isoscope.training.ranks import Ranks


class Update(NamedTuple):
    """Numbers of an update: this process's tally as a vector, the divisor of its loss, gradient norm, penalty.

    `stop`: whether this process was told to stop.
    """

    step: int
    tally: Tensor
    weight: float
    norm: Tensor
    penalty: Mapping[str, Any]
    stop: bool


class Read(NamedTuple):
    """Numbers of an update over all processes: tally, mean loss, gradient norm, and the metrics of the penalty."""

    part: Tally
    loss: float
    norm: float
    penalty: dict[str, float]


class Unread:
    """Updates since the last reading. `told`: whether, by then, any process was told to stop."""

    def __init__(self, ranks: Ranks, objective: Objective) -> None:
        self.ranks, self.objective = ranks, objective
        self.told = False
        self._updates: list[Update] = []

    def add(self, update: Update) -> None:
        """Keep an update's numbers where they are."""
        self._updates.append(update)

    def read(self) -> Iterator[Read]:
        """Yield the numbers of all updates since the last call.

        Raises `DivergedError`, which names the first update whose loss, gradient norm or penalty is not finite.
        """
        updates, self._updates = self._updates, []
        if not updates:
            return
        tallies = torch.stack([one.tally for one in updates]).cpu().numpy()
        norms = torch.stack([one.norm for one in updates]).tolist()
        told, *flat = self.ranks.sum(np.array([any(one.stop for one in updates), *tallies.ravel()], np.float64))
        self.told, tallies = bool(told), np.array(flat).reshape(tallies.shape)
        for one, vector, norm in zip(updates, tallies, norms, strict=True):
            part = self.objective.tally(vector)
            if not np.isfinite(loss := part.loss / one.weight):
                raise DivergedError(f"loss is {loss} at step {one.step}: try a lower learning rate")
            penalty = {name: float(value) for name, value in one.penalty.items()}
            if penalty.get("penalty_weight") and not np.isfinite(penalty["penalty"]):
                raise DivergedError(
                    f"penalty is {penalty['penalty']} at step {one.step}: the penalty is not defined for this batch"
                )
            if not np.isfinite(norm):  # of a finite loss: this update has made the weights NaN
                raise DivergedError(f"gradient norm is {norm} at step {one.step}: try a lower learning rate")
            yield Read(part, loss, norm, penalty)
