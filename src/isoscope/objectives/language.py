"""What masked, causal and translation models share: counts of predicted tokens, the tokens' texts, the forward pass."""

from collections.abc import Callable, Collection, Mapping
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import torch
from torch import Tensor
from torch.nn import functional as F

from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.data import tokens
from isoscope.data.batches import draw_fraction
from isoscope.data.corpus import PAIR, SINGLE, SPLITS
from isoscope.data.special_tokens import Specials, framed, mask_of, specials
from isoscope.data.tokens import Encoded, Tokenizer
from isoscope.metrics.token_counts import METRICS, TokenCounts
from isoscope.models import language_models, published
from isoscope.models.language_models import Wiring
from isoscope.objectives import Batch, Forward, Indices, Numbers, Place, Scored, Task, as_vector, points_at
from isoscope.objectives.planned import Planned, check_start, sizes


class Sides(NamedTuple):
    """The texts of a task as tokens, by split: source and target. A task of single sentences has one side, twice."""

    source: Mapping[str, Encoded]
    target: Mapping[str, Encoded]
    tokenizer: Tokenizer
    specials: Specials
    mask_id: int
    drawn: Indices
    """Rows of the file of the train split."""

    @property
    def ordinary(self) -> Indices:
        """Ids of all tokens without the special tokens."""
        special = [
            number for number, token in self.tokenizer.backend.get_added_tokens_decoder().items() if token.special
        ]
        return np.setdiff1d(np.arange(self.tokenizer.vocab_size), special)


def sides(task: Task, *, masks: bool = True, frames: bool = False) -> Sides:
    """Read a prepared task's texts; the share `task.fraction` of its train split is drawn by the seed.

    `masks`: with the tokenizer's mask. `frames`: put the tokens before and after a text where the tokenizer does not,
    as that of a decoder. Raises `InputError` if the tokenizer lacks one of these, or does not put them around a text.
    """
    tokenizer = tokens.load(task.tokenizer)
    marks = specials(tokenizer, task.tokenizer)
    tables = {split: pq.read_table(task.folder / f"{split}.parquet") for split in SPLITS}
    rows = draw_fraction(np.zeros(tables["train"].num_rows, np.int64), task.fraction, seed=task.seed)
    tables["train"] = tables["train"].take(rows)
    columns = PAIR if PAIR[0] in tables["train"].column_names else SINGLE
    around = tokenizer.backend.encode(str(tables["train"][columns[0]][0])).ids or [-1]
    lacking = (around[0] != marks.begin) + (around[-1] != marks.end)
    if lacking and not frames:
        raise InputError(f"{task.tokenizer.name}: it does not put its special tokens before and after a text")
    encoded = [
        {
            split: tokens.encode_column(tokenizer, table, column, max_length=task.max_length - lacking)
            for split, table in tables.items()
        }
        for column in columns
    ]
    if lacking:
        encoded = [{split: framed(one, marks) for split, one in side.items()} for side in encoded]
    mask = mask_of(tokenizer, task.tokenizer) if masks else 0
    return Sides(encoded[0], encoded[-1], tokenizer, marks, mask, rows)


class LanguageModel(Planned):
    """Base class: a subclass says what a batch is, and how many tokens of it are predicted.

    A batch has the model's inputs, `predicted` `[P]` (indices of the predicted tokens' places, in the batch's tokens in
    row order) and `labels` `[P]` (the tokens to predict there).
    """

    metrics = METRICS
    wiring: Wiring
    states = "hidden_states"
    """Field of the model's output with the layers that points are taken from."""
    whole = False
    """Whether the model gives logits at all tokens, and not at the predicted tokens alone."""
    predicted, given = "predicted", "input_ids"
    """Keys of a batch: the places of the predicted tokens, and the tokens whose places these are."""

    def __init__(self, texts: Sides, task: Task, *splits: Mapping[str, Encoded], tied: bool, **lengths: Any) -> None:
        """The first of `splits` has the texts whose tokens are predicted; `lengths` as in `Planned`."""
        super().__init__(task, *splits, **lengths)
        self.texts, self.tied = texts, tied

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        given = {"fusion": model["fusion"], "seed": self.task.seed}
        if checkpoint is None:
            built = language_models.from_scratch(
                self.wiring,
                tied=self.tied,
                vocab_size=self.texts.tokenizer.vocab_size,
                specials=self.texts.specials,
                **given,
                **sizes(model),
            )
        elif model["encoder"]["kind"] == "pretrained":
            built = language_models.from_checkpoint(self.wiring, checkpoint, pad_id=self.texts.specials.pad, **given)
            language_models.check_direction(built, self.wiring)
            published.check_fits(built, self.task.max_length, self.texts.tokenizer.vocab_size)
        else:
            built = language_models.from_run(self.wiring, checkpoint)
            check_start(built, checkpoint, model, self.task)
        if checkpoint is not None and (ties := bool(built.config.tie_word_embeddings)) != self.tied:
            raise InputError(f"objective.tied: {self.tied}, but the model to start from has {ties}; set it")
        self.whole = "predicted" not in signature(built.forward).parameters
        return built

    def tally(self, vector: Numbers | None = None) -> TokenCounts:
        loss, count, right = np.zeros(3) if vector is None else vector
        return TokenCounts(float(loss), int(count), int(right))

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        predicted = inputs.pop(self.predicted) if self.whole else None
        output = model(**inputs, output_hidden_states=bool(places))
        logits, labels = output.logits, batch["labels"]
        logits = (logits if predicted is None else logits.flatten(0, 1)[predicted]).float()
        losses = F.cross_entropy(logits, labels, reduction="none")
        right = logits.detach().argmax(-1) == labels
        loss = losses.sum()
        counts = as_vector(loss, len(labels), right.sum())
        points = points_at(getattr(output, self.states), inputs["attention_mask"], places)
        return Forward(loss, counts, points, self._by_row(batch, losses.detach(), right) if columns else {})

    def _by_row(self, batch: Mapping[str, Tensor], losses: Tensor, right: Tensor) -> dict[str, Tensor]:
        """Return each row's summed loss, predicted tokens and right predictions."""
        of = self.row_of_predicted(batch)
        parts = {"loss": losses.double(), "tokens": torch.ones_like(losses).double(), "right": right.double()}
        empty = losses.new_zeros(len(batch["input_ids"]), dtype=torch.float64)
        return {name: empty.clone().index_add_(0, of, values) for name, values in parts.items()}

    def row_of_predicted(self, batch: Mapping[str, Tensor]) -> Tensor:
        """Return the row of each predicted token."""
        return batch[self.predicted] // batch[self.given].shape[1]

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        """Return the batch of `rows`, as `Objective.batch`; a subclass says what it is."""
        raise NotImplementedError

    def by_class(self, split: str, rows: Indices, numbers: Callable[[Indices, Indices], Indices]) -> dict[int, Batch]:
        """Return the evaluation batch of `rows` once per class of predicted tokens, each with its class's tokens only.

        `numbers(previous, tokens)` returns the number of each token's class, from the token and the token before it in
        its text. Summed losses of the classes add up to the loss of the batch.
        """
        batch = self.batch(split, rows, None)
        of = numbers(self.preceding(split, rows, batch), batch["labels"])
        own = (self.predicted, "labels")
        return {int(number): {**batch, **{name: batch[name][of == number] for name in own}} for number in np.unique(of)}

    def preceding(self, split: str, rows: Indices, batch: Batch) -> Indices:
        """Return the token before each predicted token in its text; `batch` is the evaluation batch of `rows`."""
        found: Indices = batch[self.given].ravel()[batch[self.predicted]]
        return found

    def finish(self, model: Any, scored: Scored, folder: Path) -> dict[str, float]:
        """Write predictions.parquet: a row per example with its summed loss, predicted tokens and right predictions."""
        table = pd.DataFrame({"row": np.arange(self.size(scored.split)), **scored.columns})
        write_parquet(table.astype({"tokens": "int64", "right": "int64"}), folder / "predictions.parquet")
        return {}


def padded(rows: list[Indices], pad_id: int) -> tuple[Indices, Indices]:
    """Return rows of token ids padded to the longest, `[B, L]`, and the attention mask."""
    width = max(map(len, rows), default=0)
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask = np.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return ids, mask
