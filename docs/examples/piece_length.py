"""An objective, an observer and a view from a plugin: predict the number of characters of every token."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pydantic import PositiveInt
from torch import Tensor

from isoscope.data import tokens
from isoscope.models import FusionBertForTokenClassification, build
from isoscope.objectives import Forward, Metric, Scored, Task, points_at
from isoscope.objectives.classification import Classification
from isoscope.platform.figures.line_form import Curves
from isoscope.plugins import View, objective, observer, view
from isoscope.training.observers import Context, Observer


class Errors(NamedTuple):
    """The tally: summed squared error, and tokens."""

    loss: float
    count: float

    def __add__(self, other: "Errors") -> "Errors":
        return Errors(self.loss + other.loss, self.count + other.count)

    def vector(self) -> np.ndarray:
        return np.array(self)

    def metrics(self) -> dict[str, float]:
        loss = self.loss / self.count
        return {"loss": loss, "rmse": loss**0.5}


class PieceLength(Classification):
    """Predict a number per token; the loss is the squared error per token of the batch."""

    metrics = (
        Metric("rmse", "Error of a token's length", "characters", better="minimise", low=0.0),
        Metric("loss", "Loss", "squared characters", better="minimise", low=0.0),
    )
    classes = 1

    def build(self, model: dict[str, Any], checkpoint: Any) -> Any:
        config = super().build(model, checkpoint).config
        config.num_labels = 1
        with build.seeded(self.task.seed):
            return FusionBertForTokenClassification(config)

    def tally(self, vector: np.ndarray | None = None) -> Errors:
        return Errors(0.0, 0.0) if vector is None else Errors(*map(float, vector))

    def batch(self, split: str, rows: np.ndarray, epoch: int | None) -> dict[str, np.ndarray]:
        found = super().batch(split, rows, epoch)
        return {**found, "lengths": self.characters[found["input_ids"]]}

    def weight(self, split: str, rows: np.ndarray, epoch: int | None) -> float:
        return float(self.lengths[split][rows].sum())

    def owners(self, split: str, rows: np.ndarray, place: Any) -> tuple[np.ndarray, None]:
        return super().owners(split, rows, place)[0], None

    def forward(self, model: Any, batch: dict[str, Any], places: Any = (), columns: bool = False) -> Forward:
        names = ("input_ids", "token_type_ids", "attention_mask")
        output = model(**{name: batch[name] for name in names}, output_hidden_states=True)
        errors = (output.logits[..., 0].float() - batch["lengths"]).square() * batch["attention_mask"]
        loss, count = errors.sum(), float(batch["attention_mask"].sum())
        points = points_at(output.hidden_states, batch["attention_mask"], places)
        kept = {"squared_error": errors.detach().sum(1)} if columns else {}
        return Forward(loss, Errors(float(loss.detach()), count), points, kept)

    def finish(self, model: Any, scored: Scored, folder: Any) -> dict[str, float]:
        columns = {"row": np.arange(self.size(scored.split)), **scored.columns}
        pq.write_table(pa.table(columns), folder / "errors.parquet")
        return {}


@objective("piece_length")
def piece_length(task: Task) -> PieceLength:
    """Build the objective with the number of characters of each token of the tokenizer."""
    found = PieceLength.read(task)
    vocabulary = tokens.load(task.tokenizer).backend.get_vocab()
    found.characters = np.zeros(max(vocabulary.values()) + 1, np.float32)
    for token, number in vocabulary.items():
        found.characters[number] = len(token.removeprefix("##"))
    return found


class Norms(Observer):
    """Log the mean gradient norm of the word table over all updates so far; a resumed run continues the same sum."""

    def __init__(self, every: int) -> None:
        self.every, self.total = every, 0.0

    def begin(self, context: Context) -> None:
        self.table = context.model.get_input_embeddings().weight

    def before_update(self, step: int) -> dict[str, float]:
        norm = float(self.table.grad.norm())
        self.total += norm
        return {"step/word_gradient_mean": self.total / step} if step % self.every == 0 else {}

    def state(self) -> dict[str, Tensor]:
        return {"total": torch.tensor(self.total, dtype=torch.float64)}

    def restore(self, state: dict[str, Tensor]) -> None:
        self.total = float(state["total"])


@observer("norms")
def norms(every: PositiveInt) -> Norms:
    """Log the mean gradient norm of the word table at every `every`-th update."""
    return Norms(every)


def of_lengths(bands: pd.DataFrame) -> tuple[pd.DataFrame]:
    """Select the rows with this metric, with their interval; without rows nothing is drawn."""
    own = bands[bands["metric"] == "validation/rmse"]
    return (own.assign(low=own["mean"] - own["sd"], high=own["mean"] + own["sd"]),)


@view("length_error")
def length_error() -> View:
    """Return a figure of the report, drawn for every study with the table `bands`: a line per arm."""
    form = Curves(x="epoch", y="mean", labels=("Epoch", "Error (characters)"), scales=("linear", "linear"))
    caption = "Root mean squared error of a token's length, validation split: mean ± sd over seeds."
    return View(name="length_error", needs=("bands",), rows=of_lengths, form=form, caption=caption)
