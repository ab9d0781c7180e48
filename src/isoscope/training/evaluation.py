"""Loss and confusion of a classifier on a split, as sums that can be added up and saved."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional as F

from isoscope.corpora.batches import Batch, collate, evaluation_batches
from isoscope.corpora.tokens import Encoded
from isoscope.metrics.classification import SCORES, confusion_matrix
from isoscope.training.ranks import Ranks
from isoscope.training.representations import points_of


class Sums(NamedTuple):
    """Summed loss and counts of (true class, predicted class); `+` joins two parts of a split."""

    loss: float
    confusion: np.ndarray

    @classmethod
    def zero(cls, classes: int) -> "Sums":
        return cls(0.0, np.zeros((classes, classes), np.int64))

    def __add__(self, other: "Sums") -> "Sums":  # type: ignore[override]
        return Sums(self.loss + other.loss, self.confusion + other.confusion)

    def figures(self) -> dict[str, float]:
        """Mean loss in nats, accuracy, F1 (of class 1 if there are two, else the classes' mean) and Matthews."""
        loss = self.loss / int(self.confusion.sum())
        return {"loss": loss, **{name: score(self.confusion) for name, score in SCORES.items()}}


def sums(loss: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor, classes: int) -> Sums:
    """What one batch adds: its summed loss, and the classes its scores `[B, C]` predict."""
    predicted = scores.detach().argmax(-1)
    return Sums(float(loss.detach()), confusion_matrix(labels.cpu(), predicted.cpu(), classes))


def joined(ranks: Ranks, part: Sums, stop: bool = False) -> tuple[Sums, bool]:
    """The sums over all processes, and whether one of them was told to stop."""
    if ranks.size == 1:
        return part, stop
    loss, stops, *counts = ranks.sum(np.array([part.loss, stop, *part.confusion.ravel()], np.float64))
    return Sums(float(loss), np.array(counts, np.int64).reshape(part.confusion.shape)), bool(stops)


def to_device(batch: Batch, device: torch.device) -> dict[str, torch.Tensor]:
    """A batch's arrays as tensors on `device`, by the names a model's forward takes."""
    return {name: torch.from_numpy(array).to(device, non_blocking=True) for name, array in batch._asdict().items()}


class Evaluation(NamedTuple):
    """Sums over a split and, in the split's own order, its logits (rows, classes) and its points (rows, width), if
    asked for; float32.
    """

    sums: Sums
    logits: np.ndarray
    points: np.ndarray | None


class Place(NamedTuple):
    """Where a point per sentence is taken from: the layer (-1: the last) and the kind of vector (see `points_of`)."""

    layer: int
    vectors: str


def evaluate(
    model: Any,
    split: Encoded,
    *,
    batch_size: int,
    pad_id: int,
    device: torch.device,
    ranks: Ranks,
    place: Place | None = None,
) -> Evaluation:
    """Run a classifier over a whole split without dropout; nothing is dropped or seen twice.

    Rank r scores every world_size-th batch, so batches and their padding are the same for any number of processes.
    """
    classes = int(model.config.num_labels)
    lengths = split.lengths
    logits = np.zeros((len(lengths), classes), np.float32)
    points = None if place is None else np.zeros((len(lengths), int(model.config.hidden_size)), np.float32)
    total = Sums.zero(classes)
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        for rows in evaluation_batches(lengths, batch_size=batch_size)[ranks.rank :: ranks.size]:
            inputs = to_device(collate(split, rows, pad_id=pad_id), device)
            labels = inputs.pop("labels")
            output = model(**inputs, output_hidden_states=place is not None)
            scores = output.logits.float()
            if place is not None and points is not None:
                found = points_of(output.hidden_states, inputs["attention_mask"], **place._asdict())
                points[rows] = found.cpu().numpy()
            loss = F.cross_entropy(scores, labels, reduction="sum")
            total += sums(loss, scores, labels, classes)
            logits[rows] = scores.cpu().numpy()
    model.train(was_training)
    if ranks.size > 1:  # each has its own rows and zeros elsewhere
        logits = ranks.sum(logits.astype(np.float64)).astype(np.float32)
        points = None if points is None else ranks.sum(points.astype(np.float64)).astype(np.float32)
    return Evaluation(joined(ranks, total)[0], logits, points)
