"""What masked, causal and translation models share: counts of predicted tokens, the tokens' texts, the forward pass."""

from collections.abc import Callable, Collection, Mapping
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
from isoscope.data.tokens import Encoded, WordPieces
from isoscope.metrics.token_counts import METRICS, TokenCounts
from isoscope.models import language_models
from isoscope.models.encoder import positions
from isoscope.models.language_models import Specials, Wiring
from isoscope.objectives import Batch, Forward, Indices, Numbers, Place, Scored, Task, points_at
from isoscope.objectives.planned import Planned, sizes


class Sides(NamedTuple):
    """The texts of a task as tokens, by split: source and target. A task of single sentences has one side, twice."""

    source: Mapping[str, Encoded]
    target: Mapping[str, Encoded]
    tokenizer: WordPieces
    specials: Specials
    mask_id: int

    @property
    def ordinary(self) -> Indices:
        """Ids of all tokens without the special tokens."""
        special = [
            number for number, token in self.tokenizer.backend.get_added_tokens_decoder().items() if token.special
        ]
        return np.setdiff1d(np.arange(self.tokenizer.vocab_size), special)


def sides(task: Task) -> Sides:
    """Read a prepared task's texts; the share `task.fraction` of its train split is drawn by the seed.

    Raises `InputError` if the tokenizer lacks one of the special tokens, or does not put them around a text.
    """
    tokenizer = tokens.load(task.tokenizer)
    tables = {split: pq.read_table(task.folder / f"{split}.parquet") for split in SPLITS}
    rows = draw_fraction(np.zeros(tables["train"].num_rows, np.int64), task.fraction, seed=task.seed)
    tables["train"] = tables["train"].take(rows)
    columns = PAIR if PAIR[0] in tables["train"].column_names else SINGLE
    encoded = [
        {
            split: tokens.encode_column(tokenizer, table, column, max_length=task.max_length)
            for split, table in tables.items()
        }
        for column in columns
    ]
    begin, end, mask = (
        _special(tokenizer, names, task) for names in (("[CLS]", "<s>"), ("[SEP]", "</s>"), ("[MASK]", "<mask>"))
    )
    first = encoded[0]["train"].ids[0]
    if (first[0], first[-1]) != (begin, end):
        raise InputError(f"{task.tokenizer.name}: it does not put its special tokens before and after a text")
    return Sides(encoded[0], encoded[-1], tokenizer, Specials(tokenizer.pad_id, begin, end), mask)


def _special(tokenizer: WordPieces, names: tuple[str, str], task: Task) -> int:
    for name in names:
        if (number := tokenizer.backend.token_to_id(name)) is not None:
            return int(number)
    raise InputError(f"{task.tokenizer.name}: its vocabulary has neither {names[0]} nor {names[1]}")


class LanguageModel(Planned):
    """Base class: a subclass says what a batch is, and how many tokens of it are predicted.

    A batch has the model's inputs, `predicted` `[P]` (indices of the predicted tokens' places, in the batch's tokens in
    row order) and `labels` `[P]` (the tokens to predict there).
    """

    metrics = METRICS
    wiring: Wiring
    states = "hidden_states"
    """Field of the model's output with the layers that points are taken from."""
    predicted, given = "predicted", "input_ids"
    """Keys of a batch: the places of the predicted tokens, and the tokens whose places these are."""

    def __init__(self, texts: Sides, task: Task, *splits: Mapping[str, Encoded], tied: bool, **lengths: Any) -> None:
        """The first of `splits` has the texts whose tokens are predicted; `lengths` as in `Planned`."""
        super().__init__(task, *splits, **lengths)
        self.texts, self.tied = texts, tied

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        if checkpoint is not None:
            return continued(self.wiring, checkpoint, model, self.texts.tokenizer, self.task)
        return language_models.from_scratch(
            self.wiring,
            fusion=model["fusion"],
            tied=self.tied,
            vocab_size=self.texts.tokenizer.vocab_size,
            specials=self.texts.specials,
            seed=self.task.seed,
            **sizes(model),
        )

    def tally(self, vector: Numbers | None = None) -> TokenCounts:
        loss, count, right = np.zeros(3) if vector is None else vector
        return TokenCounts(float(loss), int(count), int(right))

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        inputs = {name: value for name, value in batch.items() if name != "labels"}
        output = model(**inputs, output_hidden_states=bool(places))
        logits, labels = output.logits.float(), batch["labels"]
        losses = F.cross_entropy(logits, labels, reduction="none")
        right = logits.detach().argmax(-1) == labels
        loss = losses.sum()
        counts = TokenCounts(float(loss.detach()), len(labels), int(right.sum()))
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


def continued(wiring: Wiring, checkpoint: Path, model: Mapping[str, Any], tokenizer: WordPieces, task: Task) -> Any:
    """Load the model of another run to train it on.

    Raises `InputError` if it is of another kind, has another tokenizer than the task or another fusion than `model`
    says, or has too few positions.
    """
    kind, asked = model["encoder"]["kind"], model["fusion"]
    if kind == "pretrained":
        raise InputError(f"model.encoder.kind: 'pretrained'; objective {wiring!r} trains from scratch: set 'scratch'")
    found = language_models.from_run(wiring, checkpoint)
    parts = [getattr(found.config, name, found.config) for name in ("encoder", "decoder")]
    if other := [part.fusion for part in parts if part.fusion != asked]:
        raise InputError(f"model.fusion: {asked}, but the model to start from has {other[0]}; set it")
    if tokens.load(checkpoint).backend.get_vocab() != tokenizer.backend.get_vocab():
        raise InputError(f"task {task.folder.name!r}: its tokenizer is not that of the model to start from")
    if (most := positions(found)) < task.max_length:
        raise InputError(f"model.max_length: {task.max_length}, but the model to start from takes {most} tokens")
    return found


def padded(rows: list[Indices], pad_id: int) -> tuple[Indices, Indices]:
    """Return rows of token ids padded to the longest, `[B, L]`, and the attention mask."""
    width = max(map(len, rows), default=0)
    ids = np.full((len(rows), width), pad_id, np.int64)
    mask = np.zeros_like(ids)
    for place, row in enumerate(rows):
        ids[place, : len(row)] = row
        mask[place, : len(row)] = 1
    return ids, mask
