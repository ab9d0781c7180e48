"""A fixed set of sentences in folds: its mean loss and the gradient of each fold, without a trace in the training."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from isoscope.data.batches import drawn_rows, shuffled
from isoscope.errors import InputError
from isoscope.objectives import Indices, Numbers, Objective
from isoscope.training.determinism import restore_rng, rng_state
from isoscope.training.evaluation import to_device
from isoscope.training.ranks import Ranks

_KEY = 0xA110C
_MOST = 32
"""Rows of a backward pass: evaluation batches are larger, since they need no memory for it."""


class AllocationSet:
    """The same `sentences` rows of a split in every run, in `folds` random parts whose sizes differ by at most a row.

    Inputs are those of `objective.batch(split, rows, None)`: fixed masks. Each process evaluates every n-th fold whole,
    so a fold's numbers have the same bits for any number of processes. Raises `InputError` if the split has fewer rows
    than folds.
    """

    def __init__(
        self, objective: Objective, split: str, *, sentences: int, folds: int, ranks: Ranks, device: torch.device
    ) -> None:
        self.objective, self.split, self.folds = objective, split, folds
        rows = drawn_rows(objective.size(split), sentences, _KEY)
        if len(rows) < folds:
            raise InputError(
                f"training.allocation.folds: {folds}, but {split} has {len(rows)} rows; ask for at most as many folds"
            )
        order = rows[shuffled(len(rows), _KEY, 1)]
        self.parts = [np.sort(order[fold::folds]) for fold in range(folds)]
        self.weights = np.array([objective.weight(split, part, None) for part in self.parts])
        if not (self.weights > 0).all():
            raise InputError(f"training.allocation: a fold of {split} has nothing to predict; ask for fewer folds")
        self.own = range(folds)[ranks.rank :: ranks.size]
        self._inputs = {fold: [*self._batches(self.parts[fold], device)] for fold in self.own}

    def _batches(self, rows: Indices, device: torch.device) -> Iterator[dict[str, Tensor]]:
        for planned in self.objective.plan(self.split, None, rows):
            for part in np.array_split(planned, -(-len(planned) // _MOST)):
                yield to_device(self.objective.batch(self.split, part, None), device)

    def gradient(self, fold: int, model: Any, parameters: Sequence[Tensor]) -> tuple[float, list[Tensor | None]]:
        """Return a fold's summed loss and its gradient by each parameter (None where it has none).

        Call it inside `undisturbed`. The parameters' own `.grad` stays as it is.
        """
        loss = 0.0
        gradients: list[Tensor | None] = [None] * len(parameters)
        for inputs in self._inputs[fold]:
            summed = self.objective.forward(model, inputs).loss
            found = torch.autograd.grad(summed, parameters, allow_unused=True)
            loss += float(summed.detach())
            gradients = [_added(one, other) for one, other in zip(gradients, found, strict=True)]
        return loss, gradients

    def mean(self, losses: Numbers) -> float:
        """Return the set's mean loss in nats from its folds' summed losses `[F]`."""
        return float(losses.sum() / self.weights.sum())


def _added(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    return other if one is None else one if other is None else one + other


@contextmanager
def undisturbed(model: nn.Module, parameters: Sequence[Tensor]) -> Iterator[None]:
    """Evaluate without dropout and with gradients of all `parameters`; restore modes, flags and random generators.

    A parameter that is frozen now may move later on the same line, so it needs its gradient too.
    """
    modes = [(module, module.training) for module in model.modules()]
    flags = [(one, one.requires_grad) for one in parameters]
    draws = rng_state()
    model.eval()
    for one in parameters:
        one.requires_grad_()
    try:
        with torch.enable_grad():
            yield
    finally:
        restore_rng(draws)
        for one, flag in flags:
            one.requires_grad_(flag)
        for module, mode in modes:
            module.training = mode
