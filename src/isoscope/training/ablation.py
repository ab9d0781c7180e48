"""Remove groups of parameters from a trained model and measure by how much the loss rises."""

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn

from isoscope.models.components import blocks

ZERO, START = "zero", "start"


class Damage(NamedTuple):
    """The loss without a group, and by how much it is above the whole model's, in the unit of the loss."""

    group: str
    kind: str
    """`zero`: the group's parameters are 0; `start`: they have their values from before training."""
    parameters: int
    loss: float
    damage: float


@torch.no_grad()
def damages(model: nn.Module, start: Mapping[str, Tensor], loss: Callable[[], float]) -> Iterator[Damage]:
    """Yield the damage of each block of `models.components.blocks`, of both kinds; the model is as before after each.

    `start`: name of each parameter → its value before training. `loss`: returns the loss of the model as it is then. A
    LayerNorm is not set to 0: a layer's output would be 0 whatever its other parameters are. Source of the question:
    Molchanov et al. 2017 (https://arxiv.org/abs/1611.06440), who call the rise the oracle of pruning.
    """
    whole = loss()
    for group, parameters in blocks(model).items():
        trained = {name: one.detach().clone() for name, one in parameters.items()}
        size = sum(one.numel() for one in parameters.values())
        for kind in (START,) if group.endswith(".LayerNorm") else (ZERO, START):
            try:
                for name, one in parameters.items():
                    one.zero_() if kind == ZERO else one.copy_(start[name])
                without = loss()
            finally:
                for name, one in parameters.items():
                    one.copy_(trained[name])
            yield Damage(group, kind, size, without, without - whole)
