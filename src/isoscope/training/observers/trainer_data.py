"""A Trainer's data as the parts of an objective that observers use."""

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.objectives import Batch, Forward, Indices, Place, owners_of, points_at

_IGNORED = -100
"""Label of a token without a loss, in transformers."""
_SEED = 0xDA7A
_MOST = 32
"""Rows of a batch: a backward pass may run over it."""


class TrainerData:
    """The Trainer's evaluation data as split `validation`, its training data as `train`.

    Points and owners are those of the evaluation data, in the loader's order. Batches are collated once, by the
    Trainer's own collator under a fixed seed, so that random masks are the same at every evaluation.
    """

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self._batches: dict[tuple[str, bytes], dict[str, np.ndarray[Any, Any]]] = {}
        self._known: tuple[Indices, Indices | None] | None = None

    def size(self, split: str) -> int:
        return len(self._rows(split)) if hasattr(self._rows(split), "__len__") else len(self._read()[0])

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        lengths, labels = self._read()
        owners = owners_of(lengths[rows], place)
        return owners, None if labels is None else labels[rows[owners]]

    def plan(self, split: str, epoch: int | None, rows: Indices) -> list[Indices]:
        return np.array_split(rows, -(-len(rows) // min(_MOST, self.trainer.args.eval_batch_size)))

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        key = split, rows.tobytes()
        if key not in self._batches:
            subset = torch.utils.data.Subset(self._rows(split), rows.tolist())
            with _seeded():
                (found,) = self.trainer.get_eval_dataloader(subset)
            self._batches[key] = {name: value.cpu().numpy() for name, value in found.items()}
        return self._batches[key]

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        """Return the number of labels that have a loss."""
        return sum(self._labels(self.batch(split, part, None)) for part in self.plan(split, epoch, rows))

    def forward(self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = ()) -> Forward:
        """Return the summed loss: the model's own mean loss times the number of labels that it is the mean of."""
        loss = model(**batch).loss * self._labels({name: value.cpu().numpy() for name, value in batch.items()})
        nothing: Any = SimpleNamespace(loss=float(loss.detach()))
        return Forward(loss, nothing, {}, {})

    @torch.no_grad()
    def points(self, places: list[Place]) -> dict[Place, Any]:
        """Return the points `[n, d]` of the evaluation data by place."""
        model = self.trainer.model.eval()
        found: dict[Place, list[Any]] = {place: [] for place in places}
        for batch in self.trainer.get_eval_dataloader() if places else ():
            batch = {name: value.to(model.device) for name, value in batch.items()}
            states = model(**batch, output_hidden_states=True).hidden_states
            for place, points in points_at(states, batch["attention_mask"], places).items():
                found[place].append(points.float().cpu().numpy())
        return {place: np.concatenate(parts) for place, parts in found.items()}

    def _rows(self, split: str) -> Any:
        rows = self.trainer.train_dataset if split == "train" else self.trainer.eval_dataset
        if rows is None or isinstance(rows, dict):
            raise InputError(f"the Trainer has no single {split} data set, which this observer needs")
        if split == "train" and not hasattr(rows, "__len__"):
            raise InputError("the Trainer's train_dataset has no length; allocation needs a data set with rows")
        return rows

    def _labels(self, batch: Batch) -> float:
        if "labels" not in batch:
            raise InputError("a batch has no `labels`; allocation needs a model that returns its loss")
        labels = batch["labels"]
        if labels.ndim == 1 or labels.dtype.kind == "f":  # of texts; several numbers per text have a mean over all
            return float(labels.size)
        if type(self.trainer.model).__name__.endswith(("ForCausalLM", "LMHeadModel")):
            labels = labels[:, 1:]  # these models predict the next token
        return float((labels != _IGNORED).sum())

    def _read(self) -> tuple[Indices, Indices | None]:
        """Return lengths in tokens and, for one label per text, the labels of the evaluation data."""
        if self._known is None:
            loader = self.trainer.get_eval_dataloader()
            batches = [(batch["attention_mask"].sum(1), batch.get("labels")) for batch in loader]
            lengths = np.concatenate([lengths.cpu().numpy() for lengths, _ in batches])
            labels = [labels.cpu().numpy() for _, labels in batches if labels is not None and labels.ndim == 1]
            self._known = lengths, np.concatenate(labels) if labels else None
        return self._known


@contextmanager
def _seeded() -> Iterator[None]:
    """Draw from fixed seeds, and restore the generators that a collator may use."""
    python, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 - transformers' collators use it
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(_SEED)
        random.seed(_SEED)
        np.random.seed(_SEED)  # noqa: NPY002
        try:
            yield
        finally:
            random.setstate(python)
            np.random.set_state(numbers)  # noqa: NPY002
