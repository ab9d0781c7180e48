"""What all objectives with a target per text share: an encoder with a head, batches, and a file of predictions."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from torch import Tensor, as_tensor, nn

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.batches import collate, draw_fraction
from isoscope.data.corpus import SPLITS
from isoscope.data.tokens import Encoded
from isoscope.models import build, published
from isoscope.objectives import Batch, Forward, Indices, Numbers, Place, Scored, Tally, Task, as_vector, points_at
from isoscope.objectives.planned import Planned, check_start, sizes


class Losses(NamedTuple):
    """The tally of an objective whose other metrics need all predictions of a split: summed loss, and rows."""

    loss: float
    rows: float

    def __add__(self, other: "Losses") -> "Losses":  # type: ignore[override]
        return Losses(self.loss + other.loss, self.rows + other.rows)

    def vector(self) -> Numbers:
        return np.array(self, np.float64)

    def metrics(self) -> dict[str, float]:
        """Return the mean loss."""
        return {"loss": self.loss / self.rows}


class Labelled(Planned):
    """An objective whose tasks have a target per text. `splits`: texts with targets `[N]` or `[N, L]` as `labels`."""

    problem: ClassVar[build.Problem]
    """The head's name in transformers."""

    def __init__(
        self, splits: Mapping[str, Encoded], *, labels: list[str], pad_id: int, vocab_size: int, task: Task
    ) -> None:
        super().__init__(task, splits)
        self.labels, self.pad_id, self.vocab_size = labels, pad_id, vocab_size
        self.types, self.keeps_head = True, False

    @classmethod
    def read(cls, task: Task) -> Self:
        """Read a prepared task: its splits as token ids, with their targets."""
        tokenizer, splits = tokens.load(task.tokenizer), dict[str, Encoded]()
        names = cls.names(task.manifest)
        for split in SPLITS:
            table = pq.read_table(task.folder / f"{split}.parquet")
            found = tokens.encode(tokenizer, table, max_length=task.max_length)
            if len(empty := np.flatnonzero(found.lengths == 0)):
                raise InputError(
                    f"{split}.parquet, row {empty[0] + 1}: the text is empty, and the tokenizer adds no token to it "
                    f"({len(empty)} of {len(found.lengths)} rows); remove it from the data"
                )
            splits[split] = found._replace(labels=cls.targets(table, len(names)))
        strata = splits["train"].labels
        strata = strata if strata.dtype == np.int64 else np.zeros(len(strata), np.int64)
        splits["train"] = splits["train"].take(draw_fraction(strata, task.fraction, seed=task.seed))
        return cls(splits, labels=names, pad_id=tokenizer.pad_id, vocab_size=tokenizer.vocab_size, task=task)

    @staticmethod
    def names(manifest: Mapping[str, Any]) -> list[str]:
        """Return a name per output of the head."""
        return list(manifest["labels"])

    @staticmethod
    def targets(table: pa.Table, outputs: int) -> Any:
        """Return the target of each row of a split of a task."""
        raise NotImplementedError

    def loss(self, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the summed loss of a batch."""
        raise NotImplementedError

    def tallied(self, loss: Tensor, logits: Tensor, targets: Tensor) -> Tensor:
        """Return the vector of the tally of a batch with this summed loss."""
        return as_vector(loss, len(targets))

    def tally(self, vector: Numbers | None = None) -> Tally:
        return Losses(0.0, 0.0) if vector is None else Losses(*map(float, vector))

    def predicted(self, model: Any, scored: Scored) -> tuple[Any, Any]:
        """Return predictions and targets of an evaluated split, as the metrics module takes them."""
        raise NotImplementedError

    @staticmethod
    def columns(references: Any, predictions: Any, outputs: Any) -> Mapping[str, Any]:
        """Return the columns of the file of predictions after `row`, of targets, predictions and logits."""
        raise NotImplementedError

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        shared: dict[str, Any] = {"labels": self.labels, "seed": self.task.seed, "problem": self.problem}
        if checkpoint is not None and model["encoder"]["kind"] == "run":
            built, self.keeps_head = published.continued(checkpoint, pad_id=self.pad_id, **shared)
            check_start(built, checkpoint, model, self.task)
        elif checkpoint is not None:
            built = published.classifier(checkpoint, pad_id=self.pad_id, fusion=model["fusion"], **shared)
            published.check_fits(built, self.task.max_length)
        else:
            shared |= {"vocab_size": self.vocab_size, "pad_id": self.pad_id, "fusion": model["fusion"]}
            built = build.from_scratch(**shared, **sizes(model))
        self.types = bool(getattr(built.config, "type_vocab_size", 0))
        self._check_tables(built.config)
        return built

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        found = collate(self.splits[split], rows, pad_id=self.pad_id)._asdict()
        return found if self.types else {name: one for name, one in found.items() if name != "token_type_ids"}

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        return float(len(rows))

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        output, targets = model(**inputs, output_hidden_states=bool(places)), batch["labels"]
        logits = output.logits.float()
        loss = self.loss(logits, targets)
        tally = self.tallied(loss.detach(), logits.detach(), targets)
        layers = output.get("encoder_hidden_states") or output.get("hidden_states")
        points = points_at(layers, inputs["attention_mask"], places)
        return Forward(loss, tally, points, {"logits": logits.detach()} if columns else {})

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write predictions.parquet: a row per example, with what is true, what is predicted, and the logits."""
        predictions, targets = self.predicted(model, scored)
        row = np.arange(len(targets), dtype=np.int64)
        columns = self.columns(targets, predictions, scored.columns["logits"])
        pq.write_table(pa.table({"row": row, **columns}), folder / "predictions.parquet")
        return {}

    def _check_tables(self, config: Any) -> None:
        """Check that every token and every segment has its row in the embedding tables."""
        splits, tables = self.splits.values(), [("token", "ids", config.vocab_size)]
        tables += [("segment", "type_ids", config.type_vocab_size)] if self.types else []
        for what, field, rows in tables:
            most = max(int(array.max()) for split in splits for array in getattr(split, field))
            if most >= rows:
                raise InputError(
                    f"model.encoder: the tokenizer gives {what} {most}, but the encoder's table has {rows} rows; use "
                    "the tokenizer that it was trained with"
                )


def head(model: Any) -> Any:
    """Return the last linear layer of a classifier, which gives its logits."""
    encoder = f"{model.base_model_prefix}."
    own = [part for name, part in model.named_modules() if isinstance(part, nn.Linear) and not name.startswith(encoder)]
    return own[-1]


def set_bias(model: Any, bias: Any) -> None:
    """Set the bias of the head, if it has one, so that training starts from the best constant prediction."""
    if (own := head(model).bias) is not None:
        own.data.copy_(as_tensor(bias))
