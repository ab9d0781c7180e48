"""The seam between the training loop and a task: its data, its loss, what is counted, and its metrics."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

Indices = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]
Batch = Mapping[str, npt.NDArray[Any]]
Direction = Literal["maximise", "minimise"]


class Place(NamedTuple):
    """Where points are taken from: the layer (0: after the embedding block, -1: the last) and the kind of vector.

    `vectors`: `first` or `mean`, one point per example, or `tokens`, one per token.
    """

    layer: int
    vectors: str


class Tally(Protocol):
    """What is counted over examples: a summed loss, and whatever the metrics need. `+` joins two parts of a split."""

    @property
    def loss(self) -> float:
        """The summed loss, in nats; divided by the weight of the examples it is their mean."""
        ...

    def __add__(self, other: Self) -> Self: ...

    def vector(self) -> Numbers:
        """All of it as float64 numbers of a fixed length and order, as it crosses processes and checkpoints."""
        ...

    def metrics(self) -> dict[str, float]:
        """The metrics that the objective declares, by name."""
        ...


class Forward(NamedTuple):
    """One forward pass: the summed loss (with graph), its tally, points by place (with graph), columns per example."""

    loss: Tensor
    tally: Tally
    points: Mapping[Place, Tensor]
    columns: Mapping[str, Tensor]


class Scored(NamedTuple):
    """A split, or some rows of it, evaluated: points and columns are in the order of the rows."""

    split: str
    tally: Tally
    points: Mapping[Place, npt.NDArray[np.float32]]
    columns: Mapping[str, npt.NDArray[Any]]


class Task(NamedTuple):
    """What an objective is made from: a prepared task, its tokenizer, and the numbers of the run that concern it."""

    folder: Path
    manifest: Mapping[str, Any]
    """What `prepare` wrote of the task: labels, counts, source."""
    tokenizer: Path
    max_length: int
    fraction: float
    """Share of the train split to use, drawn by `seed`."""
    batch_size: int
    """Examples per update."""
    bucket: int
    """Batches that are sorted by length together."""
    seed: int


class Objective(Protocol):
    """A task's data, loss and metrics. Splits are `train`, `validation` and `test`; rows are their examples."""

    metrics: Mapping[str, Direction]
    """Every metric of `Tally.metrics`, with the direction that is better, most important first; `loss` is one."""
    classes: int
    """Number of classes that `owners` can name; 1 where it names none."""
    notes: list[str]
    """Lines that a user should read before training, such as how many texts were cut."""

    def build(self, model: Mapping[str, Any], checkpoint: Path | None) -> Any:
        """The model before training: of `checkpoint`, or random weights. A function of its arguments and the seed.

        `model` is the section `model` of the parameters. Raises `InputError` where the model does not fit the data.
        """
        ...

    def size(self, split: str) -> int:
        """Number of rows of a split."""
        ...

    def tally(self, vector: Numbers | None = None) -> Tally:
        """The tally that `Tally.vector` gave, or an empty one."""
        ...

    def plan(self, split: str, epoch: int | None, rows: Indices | None = None) -> list[Indices]:
        """Batches of row numbers: of training in `epoch`, or (None) of an evaluation of all rows or of `rows`."""
        ...

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        """The model's input for these rows, padded. `epoch` draws what is random in it; None: the same every time."""
        ...

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        """What the summed loss of these rows is divided by; known before the forward pass."""
        ...

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        """Of each point that these rows give at `place`: the position in `rows` of its row, and its class, if any."""
        ...

    def forward(
        self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = (), columns: bool = False
    ) -> Forward:
        """Run the model on a batch. `columns` asks for what `finish` writes of each row."""
        ...

    def finish(self, scored: Scored, folder: Path) -> None:
        """Write what is kept of the evaluated test split into the run's output folder."""
        ...
