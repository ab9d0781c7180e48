"""What limits the states of a model: whether a sentence's states depend on its batch, and where the last layer ends."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.data.tokens import Encoded
from isoscope.states.hidden_states import layers_of

COMPARED = 4
"""Number of sentences that are run in a batch and alone, from the shortest to the longest."""
Norms = dict[str, tuple[Tensor, Tensor]]
"""Name of a norm outside the layers → its input and its output."""


class ModelFacts(NamedTuple):
    """Facts of a model, a line each, and a warning, or an empty text."""

    lines: list[str]
    warning: str


@torch.no_grad()
def model_facts(model: Any, encoded: Encoded, *, pad_id: int, bf16: bool, name: str) -> ModelFacts:
    """Return the precision of a model's weights, its final norm, and a warning if batches change its states.

    The warning is also printed on stderr, with the model's `name`.
    """
    model.eval()
    kinds = {value.dtype for value in model.parameters()}
    low = torch.bfloat16 in kinds
    with norms_outside_layers(model) as norms:
        layers, _ = layers_of(model, encoded, [int(np.argmax(encoded.lengths))], pad_id, bf16)
    lines = [f"weights: {'bf16, as stored' if low else 'fp32'}", f"last layer: {_end(norms, layers[-1])}"]
    away = difference_in_batch(model, encoded, pad_id=pad_id, bf16=bf16)
    bound = max(1e-4, 8 * torch.finfo(torch.bfloat16).eps * (low or bf16))
    if away <= bound:
        return ModelFacts(lines, "")
    warning = (
        f"{name}: a sentence's states depend on the other sentences of its batch: alone they differ by up to "
        f"{away:.2g} of the largest value; check the model's attention mask, position ids and normalisation"
    )
    print(f"warning: {warning}", file=sys.stderr)
    return ModelFacts(lines, warning)


@torch.no_grad()
def difference_in_batch(model: Any, encoded: Encoded, *, pad_id: int, bf16: bool) -> float:
    """Return how far the states of sentences in a batch are from those of each alone, over a layer's largest value.

    The largest such difference of `COMPARED` sentences, over all layers and tokens.
    """
    order = np.argsort(encoded.lengths, kind="stable")
    rows = order[np.unique(np.linspace(0, len(order) - 1, COMPARED).astype(int))]
    together, _ = layers_of(model, encoded, rows, pad_id, bf16)
    worst = 0.0
    for place, row in enumerate(rows):
        alone = layers_of(model, encoded, [int(row)], pad_id, bf16)[0][:, 0]
        away = (together[:, place, : alone.shape[1]] - alone).abs().amax((1, 2))
        worst = max(worst, float((away / alone.abs().amax((1, 2)).clamp_min(1e-30)).max()))
    return worst


@contextmanager
def norms_outside_layers(model: nn.Module) -> Iterator[Norms]:
    """Capture input and output of each normalisation that is in no numbered layer, such as a final norm."""
    seen: Norms = {}

    def keep(name: str) -> Any:
        return lambda _, inputs, output: seen.update({name: (inputs[0].detach(), output.detach())})

    hooks = [
        module.register_forward_hook(keep(name))
        for name, module in model.named_modules()
        if not any(part.isdigit() for part in name.split(".")) and _normalises(module)
    ]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def final_norm(norms: Norms, last: Tensor) -> str | None:
    """Return the name of the norm whose output is the last layer `[B, T, D]`; None if there is none.

    A model may have such a norm for something else, as DeBERTa for its relative positions.
    """
    return next((name for name, (_, output) in norms.items() if _equal(output, last)), None)


def _end(norms: Norms, last: Tensor) -> str:
    if name := final_norm(norms, last):
        return f"after the final norm ({name})"
    before = next((name for name, (given, _) in norms.items() if _equal(given, last)), None)
    return f"before the final norm ({before})" if before else "the model has no final norm"


def _equal(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and torch.equal(one.float(), other)


def _normalises(module: nn.Module) -> bool:
    own = [*module.parameters()]
    return not [*module.children()] and (
        "norm" in type(module).__name__.lower() or (bool(own) and all(one.dim() == 1 for one in own))
    )
