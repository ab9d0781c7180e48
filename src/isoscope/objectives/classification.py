"""Classify sentences and pairs: mean cross-entropy, accuracy, F1 and Matthews correlation."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor
from torch.nn import functional as F

from isoscope import plugins
from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.batches import collate, draw_fraction
from isoscope.data.corpus import SPLITS
from isoscope.data.tokens import Encoded
from isoscope.metrics.matrix_scores import METRICS, SCORES, confusion_matrix
from isoscope.models import build
from isoscope.objectives import Batch, Forward, Indices, Numbers, Place, Scored, Task, points_at
from isoscope.objectives.planned import Planned, sizes


class Counts(NamedTuple):
    """The tally: summed loss, and counts of (true class, predicted class)."""

    loss: float
    confusion: npt.NDArray[np.int64]

    def __add__(self, other: "Counts") -> "Counts":  # type: ignore[override]
        return Counts(self.loss + other.loss, self.confusion + other.confusion)

    def vector(self) -> Numbers:
        return np.array([self.loss, *self.confusion.ravel()], np.float64)

    def metrics(self) -> dict[str, float]:
        """Return mean loss in nats, accuracy, F1 (of class 1 for two classes, else the classes' mean), Matthews."""
        scores = {name: score(self.confusion) for name, score in SCORES.items()}
        return {"loss": self.loss / int(self.confusion.sum()), **scores}


class Classification(Planned):
    """Classification objective: one label per example, cross-entropy of a classifier's logits."""

    metrics = METRICS

    def __init__(
        self, splits: Mapping[str, Encoded], *, labels: list[str], pad_id: int, vocab_size: int, task: Task
    ) -> None:
        super().__init__(task, splits)
        self.labels, self.classes = labels, len(labels)
        self.pad_id, self.vocab_size = pad_id, vocab_size

    @classmethod
    def read(cls, task: Task) -> Self:
        """Read a prepared task: its splits as token ids, with the column `label`."""
        tokenizer, splits = tokens.load(task.tokenizer), dict[str, Encoded]()
        for split in SPLITS:
            table = pq.read_table(task.folder / f"{split}.parquet")
            splits[split] = tokens.encode(tokenizer, table, max_length=task.max_length)
        splits["train"] = splits["train"].take(draw_fraction(splits["train"].labels, task.fraction, seed=task.seed))
        pad_id, vocab_size = tokenizer.pad_id, tokenizer.vocab_size
        return cls(splits, labels=task.manifest["labels"], pad_id=pad_id, vocab_size=vocab_size, task=task)

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        shared = {"fusion": model["fusion"], "labels": self.labels, "seed": self.task.seed}
        if checkpoint is not None:
            built = build.from_checkpoint(checkpoint, **shared)
        else:
            built = build.from_scratch(vocab_size=self.vocab_size, pad_id=self.pad_id, **shared, **sizes(model))
        self._check_tables(built.config)
        return built

    def tally(self, vector: Numbers | None = None) -> Counts:
        loss, *counts = np.zeros(1 + self.classes**2) if vector is None else vector
        return Counts(float(loss), np.array(counts, np.int64).reshape(self.classes, self.classes))

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        return collate(self.splits[split], rows, pad_id=self.pad_id)._asdict()

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        return float(len(rows))

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices]:
        owners, _ = super().owners(split, rows, place)
        return owners, self.splits[split].labels[rows[owners]]

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        labels = batch["labels"]
        output = model(**inputs, output_hidden_states=bool(places))
        logits = output.logits.float()
        loss = F.cross_entropy(logits, labels, reduction="sum")
        predicted = logits.detach().argmax(-1)
        counts = Counts(float(loss.detach()), confusion_matrix(labels.cpu(), predicted.cpu(), self.classes))
        points = points_at(output.hidden_states, inputs["attention_mask"], places)
        return Forward(loss, counts, points, {"logits": logits.detach()} if columns else {})

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write predictions.parquet: a row per example, with its label, the predicted class and the logits."""
        labels, logits = self.splits[scored.split].labels, scored.columns["logits"]
        columns: dict[str, Any] = {
            "row": np.arange(len(labels), dtype=np.int64),
            "label": labels.astype(np.int64),
            "predicted": logits.argmax(-1).astype(np.int64),
            **{f"logit_{index}": values for index, values in enumerate(logits.T)},
        }
        pq.write_table(pa.table(columns), folder / "predictions.parquet")
        return {}

    def _check_tables(self, config: Any) -> None:
        """Check that every token and every segment has its row in the embedding tables."""
        splits = self.splits.values()
        for what, field, rows in (("token", "ids", config.vocab_size), ("segment", "type_ids", config.type_vocab_size)):
            most = max(int(array.max()) for split in splits for array in getattr(split, field))
            if most >= rows:
                raise InputError(
                    f"model.encoder: the tokenizer gives {what} {most}, but the encoder's table has {rows} rows; use "
                    "the tokenizer that it was trained with"
                )


@plugins.objective("classification")
def objective(task: Task) -> Classification:
    """Return the objective of a prepared task."""
    return Classification.read(task)
