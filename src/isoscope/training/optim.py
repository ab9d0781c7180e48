"""Build AdamW's parameter groups and compute the learning rate as a pure function of the step."""

import math
from collections.abc import Collection, Iterable

import torch


def parameter_groups(
    named: Iterable[tuple[str, torch.nn.Parameter]],
    *,
    fusion: Collection[str],
    learning_rate: float,
    fusion_lr: float | None,
    weight_decay: float,
) -> list[dict[str, object]]:
    """Return AdamW's parameter groups: the fusion's parameters have their own peak rate; only matrices decay.

    `fusion` holds the names of the fusion's parameters. Each group stores its peak rate as `peak`.
    """
    groups: dict[tuple[float, float], list[torch.nn.Parameter]] = {}
    for name, parameter in named:
        peak = fusion_lr if name in fusion and fusion_lr is not None else learning_rate
        decay = weight_decay if parameter.ndim >= 2 and name not in fusion else 0.0
        groups.setdefault((peak, decay), []).append(parameter)
    return [
        {"params": parameters, "peak": peak, "lr": peak, "weight_decay": decay}
        for (peak, decay), parameters in groups.items()
    ]


def schedule_factor(kind: str, step: int, *, total: int, warmup: float) -> float:
    """Return the learning rate of update `step` (from 0) as a share of its peak.

    Linear warmup over the first `floor(warmup · total)` updates, then linear or cosine decay to 0.
    """
    rising = math.floor(warmup * total)
    if step < rising:
        return (step + 1) / rising
    left = (total - step) / max(1, total - rising)
    return left if kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * (1.0 - left)))
