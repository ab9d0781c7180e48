"""The learning rate over the steps, and the learning rate of each parameter."""

import math
from types import SimpleNamespace

import pytest
import torch
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from isoscope.training.optim import parameter_groups, schedule_factor

PEERS = {"linear": get_linear_schedule_with_warmup, "cosine": get_cosine_schedule_with_warmup}


@pytest.mark.parametrize("kind", ["linear", "cosine"])
@pytest.mark.parametrize("warmup", [0.0, 0.1, 0.25])
def test_decay_equals_the_library_and_warm_up_starts_above_zero(kind: str, warmup: float) -> None:
    """The peer's first update has rate 0 and changes nothing; ours begins its climb at once. Decay is the same."""
    total = 40
    rising = math.floor(warmup * total)
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    peer = PEERS[kind](optimizer, rising, total)
    for step in range(total):
        ours = schedule_factor(kind, step, total=total, warmup=warmup)
        if step >= rising:
            assert ours == pytest.approx(peer.get_last_lr()[0], abs=1e-12)
        else:
            assert ours == pytest.approx((step + 1) / rising)
        optimizer.step()
        peer.step()


def test_groups_part_the_parameters_by_rate_and_decay() -> None:
    model = torch.nn.ModuleDict({"fusion": torch.nn.Linear(2, 2), "rest": torch.nn.Linear(2, 2)})
    settings = SimpleNamespace(learning_rate=1e-4, fusion_lr=1e-2, weight_decay=0.1)
    groups = parameter_groups(model, {"fusion.weight", "fusion.bias"}, settings)
    found = {(group["peak"], group["weight_decay"]): len(group["params"]) for group in groups}
    assert found == {(1e-2, 0.0): 2, (1e-4, 0.1): 1, (1e-4, 0.0): 1}
