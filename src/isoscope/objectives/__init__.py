"""Training objectives: one file per kind of task; the training loop uses only the interface defined here.

The interface covers a task's data, loss, tally, metrics, and points in hidden states.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, einsum

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric as Metric

Indices = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Batch = Mapping[str, npt.NDArray[Any]]


class Place(NamedTuple):
    """Where points are taken from: the layer (0: after the embedding block, -1: the last) and the kind of vector.

    `vectors`: `first` or `mean`, with one point per example, or `tokens`, with one point per token.
    """

    layer: int
    vectors: str


class Tally(Protocol):
    """Sums over examples: the summed loss, and whatever the metrics need. `+` joins two parts of a split."""

    @property
    def loss(self) -> float:
        """The summed loss in nats. Divided by the weight of the examples, it is their mean loss."""

    def __add__(self, other: Self) -> Self: ...

    def vector(self) -> Numbers:
        """Return the tally as float64 numbers of fixed length and order, for other processes and checkpoints."""

    def metrics(self) -> dict[str, float]:
        """Return the metrics that the objective declares, by name."""


class Forward(NamedTuple):
    """Result of a forward pass: summed loss and points by place (both with graph), tally, columns per example.

    The tally may be its `vector` as a float64 tensor on the model's device: then no update waits for a GPU.
    """

    loss: Tensor
    tally: Tally | Tensor
    points: Mapping[Place, Tensor]
    columns: Mapping[str, Tensor]


class Scored(NamedTuple):
    """Result of an evaluation of a split or some of its rows: points and columns are in the order of the rows."""

    split: str
    tally: Tally
    points: Mapping[Place, npt.NDArray[np.float32]]
    columns: Mapping[str, npt.NDArray[Any]]


class Task(NamedTuple):
    """Inputs of an objective: a prepared task, its tokenizer, and the run's numbers that concern it."""

    folder: Path
    manifest: Mapping[str, Any]
    """The task's manifest, written by `prepare`: labels, counts, source."""
    tokenizer: Path
    max_length: int
    fraction: float
    """Share of the train split to use, drawn by `seed`."""
    batch_size: int
    """Examples per update."""
    bucket: int
    """Number of batches that are sorted by length together."""
    seed: int


class Objective(Protocol):
    """A task's data, loss and metrics. Splits are `train`, `validation` and `test`; rows are their examples."""

    metrics: Sequence[Metric]
    """Every metric of `Tally.metrics` and `row_scores`, most important first; `loss` is among them."""
    generated: Sequence[Metric]
    """The further metrics of the test split that `finish` returns; a plugin may leave it out.

    So may it `predicted(model, scored)`, which returns predictions and targets of the rows of an evaluated split, and
    `row_scores(targets, predictions)`, the metrics that a tally cannot hold, such as ranks. With `chooses` true, an
    evaluation of the validation split chooses something for the test split, such as a threshold. With
    `same_in_any_batch` false, a row's input without an epoch depends on the other rows of its batch.
    """
    classes: int
    """Number of classes that `owners` can return; 1 if it returns none."""
    notes: list[str]
    """Lines that a user should read before training, e.g. how many texts were cut."""

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        """Return the model before training: from `checkpoint`, or with random weights.

        A function of its arguments and the seed. `model` is the section `model` of the parameters. Raises `InputError`
        if the model does not fit the data.
        """

    def size(self, split: str) -> int:
        """Return the number of rows of a split."""

    def tokens(self, split: str, rows: Indices) -> int:
        """Return the number of tokens that the model reads for these rows."""

    def tally(self, vector: Numbers | None = None) -> Tally:
        """Return the tally that `Tally.vector` encoded, or an empty tally."""

    def plan(self, split: str, epoch: int | None, rows: Indices | None = None) -> list[Indices]:
        """Return batches of row numbers: for training in `epoch`, or (None) to evaluate all rows or `rows`."""

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        """Return these rows' padded model input. `epoch` seeds random parts; None gives the same input every time."""

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        """Return the divisor of the summed loss of these rows; it is known before the forward pass."""

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        """Return, for each point of these rows at `place`, the position of its row in `rows`, and its class, if any."""

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        """Run the model on a batch. `columns` asks for the columns that `finish` writes."""

    def finish(self, model: Any, scored: Scored, folder: Path) -> Mapping[str, float]:
        """Write the files of the evaluated test split into the run's output folder.

        Return further metrics of the test split by name, such as those of generated text.
        """


def vector_of(tally: Tally | Tensor, device: torch.device) -> Tensor:
    """Return the tally of a forward pass as a vector on `device`."""
    return tally if isinstance(tally, Tensor) else torch.from_numpy(tally.vector()).to(device)


def as_vector(*numbers: Tensor | float) -> Tensor:
    """Return numbers, the first a tensor, as a float64 vector on its device; nothing waits for the device."""
    first = numbers[0]
    assert isinstance(first, Tensor)
    new = first.detach().double().new_full
    return torch.stack([one.detach().double() if isinstance(one, Tensor) else new((), one) for one in numbers])


def points_at(hidden_states: Sequence[Tensor], mask: Tensor, places: Collection[Place]) -> Mapping[Place, Tensor]:
    """Return the points `[n, d]` of a batch by place, from its layers `[B, T, d]` and its mask `[B, T]`, in row order.

    `mean` averages over a row's tokens, special tokens included. Raises `InputError` if a layer does not exist.
    """
    return {place: _points(hidden_states, mask, place) for place in places}


def _points(hidden_states: Sequence[Tensor], mask: Tensor, place: Place) -> Tensor:
    if not -len(hidden_states) <= place.layer < len(hidden_states):
        raise InputError(f"layer {place.layer}: the encoder has layers 0 to {len(hidden_states) - 1} (-1 for the last)")
    states = hidden_states[place.layer]
    states = states.float() if states.dtype.itemsize < 4 else states
    if place.vectors == "mean":
        return einsum("btd,bt->bd", states, (mask / mask.sum(1, keepdim=True)).to(states.dtype))
    return states[:, 0] if place.vectors == "first" else states[mask.bool()]


def owners_of(lengths: Indices, place: Place) -> Indices:
    """Return the position of each point's row, for rows of these lengths in tokens."""
    rows = np.arange(len(lengths))
    return np.repeat(rows, lengths) if place.vectors == "tokens" else rows
