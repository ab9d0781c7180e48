"""How a model under training does: figures of the validation split, and of the sample whose anisotropy is watched."""

from typing import Any

import torch

from isoscope.config.training import Watch
from isoscope.corpora.batches import drawn_rows
from isoscope.corpora.tokens import Encoded
from isoscope.training.anisotropy import sample_figures
from isoscope.training.evaluation import Evaluation, Place, evaluate
from isoscope.training.ranks import Ranks

_LEAST = 64
"""Sentences of a batch, however small those of training are: nothing is kept for a backward pass."""


class Scorer:
    """Scores splits with the weights the model holds at the time."""

    def __init__(
        self,
        model: Any,
        validation: Encoded,
        *,
        batch_size: int,
        pad_id: int,
        device: torch.device,
        ranks: Ranks,
        watch: Watch | None,
    ) -> None:
        self.model, self.validation, self.watch = model, validation, watch
        self.batch_size, self.pad_id, self.device, self.ranks = max(batch_size, _LEAST), pad_id, device, ranks
        self.sample = None if watch is None else drawn_rows(len(validation.labels), watch.sample)

    def evaluate(self, split: Encoded, place: Place | None = None) -> Evaluation:
        """Sums, logits and, where `place` says of what, points of a split."""
        return evaluate(
            self.model,
            split,
            batch_size=self.batch_size,
            pad_id=self.pad_id,
            device=self.device,
            ranks=self.ranks,
            place=place,
        )

    @property
    def place(self) -> Place | None:
        """What is watched, if anything is."""
        return None if self.watch is None else Place(self.watch.layer, self.watch.vectors)

    def validate(self) -> dict[str, float]:
        """Figures of the validation split, and of the watched sample of it."""
        found = self.evaluate(self.validation, self.place)
        if self.watch is None or found.points is None:
            return found.sums.figures()
        points, labels = found.points[self.sample], self.validation.labels[self.sample]
        return found.sums.figures() | sample_figures(points, labels, clusters=self.watch.clusters)

    def points(self, split: Encoded, place: Place) -> torch.Tensor:
        """Points of a split, `[n, d]`, on the model's device."""
        return torch.from_numpy(self.evaluate(split, place).points).to(self.device)
