"""A fixed set of sentences whose predicted tokens are in slices, a slice per class of tokens."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch

from isoscope.data.token_classes import CLASSES, TokenClasses
from isoscope.data.tokens import Encoded
from isoscope.objectives import Batch, Indices
from isoscope.training.allocation_sets import PartedSet, fixed_rows, micro_batches
from isoscope.training.evaluation import to_device
from isoscope.training.ranks import Ranks


@runtime_checkable
class Sliced(Protocol):
    """An objective that predicts tokens and can predict only some of them; `objectives.language` describes both."""

    splits: Mapping[str, Encoded]

    def by_class(
        self, split: str, rows: Indices, numbers: Callable[[Indices, Indices], Indices]
    ) -> dict[int, Batch]: ...


class SliceSet(PartedSet):
    """The rows of `AllocationSet` with a part per class of predicted tokens; `weights` `[9]` are their tokens.

    A slice's loss is the summed loss of its tokens over the tokens of all slices. So slices add up to the set's mean
    loss, and their allocations to its allocation. Slices without tokens have loss 0.
    """

    def __init__(
        self,
        objective: Any,
        split: str,
        *,
        sentences: int,
        classes: TokenClasses,
        ranks: Ranks,
        device: torch.device,
    ) -> None:
        batches: list[list[Batch]] = [[] for _ in CLASSES]
        for rows in micro_batches(objective, split, fixed_rows(objective, split, sentences)):
            for number, batch in objective.by_class(split, rows, classes.numbers).items():
                batches[number].append(batch)
        tokens = [sum(len(batch["labels"]) for batch in own) for own in batches]
        super().__init__(objective, np.array(tokens, np.float64), ranks)
        self.inputs = {number: [to_device(batch, device) for batch in batches[number]] for number in self.own}
