"""What observers of loss change allocation share: intervals of updates, and the straight line along each of them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.models.components import members
from isoscope.objectives import Place
from isoscope.training.allocation import NATS, Integral, integrate, interval_ends
from isoscope.training.allocation_sets import PartedSet
from isoscope.training.allocation_tables import IntervalRows
from isoscope.training.observers import Context, Observer
from isoscope.training.packed import Packed


class IntervalObserver(Observer):
    """Base class: a subclass has `rows` and `paths`, made in `begin`, and adds an interval to the rows in `measure`.

    Weights, gradients, modes and random generators must be left as they were; the weights are written back here.
    The interval in which training stops early is left out: an interval ends at an update of the schedule. Arguments are
    those of the section `training.allocation`; `heads`: split attention by head. Raises `InputError` for sharded
    or half-precision weights, and for an unknown architecture.
    """

    rows: IntervalRows
    paths: Sequence[PartedSet]

    def __init__(
        self,
        *,
        sentences: int,
        estimator: str,
        tolerance: float | None,
        most_splits: int,
        dense: int,
        chords: int,
        heads: bool,
    ) -> None:
        self.sentences, self.estimator = sentences, estimator
        self.tolerance, self.most_splits = tolerance, most_splits
        self.dense, self.chords, self.heads = dense, chords, heads

    def begin(self, context: Context) -> None:
        if context.objective is None:
            raise InputError(f"{self.name} needs evaluation data; give the Trainer an eval_dataset")
        self.model = context.model
        self.packed = Packed(members(context.model, heads=self.heads))
        self.line = self.packed, self.model, context.ranks
        self.parameters = [one.parameter for one in self.packed.members]
        self.ends = interval_ends(context.updates, dense=self.dense, chords=self.chords)
        self.snapshot: Tensor | None = None

    def before_update(self, step: int) -> dict[str, float]:
        if self.snapshot is None:
            if step > 1:
                raise InputError(
                    f"{self.name}: training resumes at update {step} from a checkpoint without its state; resume a "
                    "checkpoint that was saved with it, or start again"
                )
            self.snapshot = self.packed.read()
        return {}

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        if len(self.rows) < len(self.ends) and step == self.ends[len(self.rows)]:
            start, end = self.snapshot, self.packed.read()
            assert start is not None
            try:
                self.measure(step, start, end)
            finally:
                self.packed.write(end)
            self.snapshot = end
        return {}

    def measure(self, step: int, start: Tensor, end: Tensor) -> None:
        """Add the interval that ends with update `step`, from the weights `start` to `end`, to the rows."""
        raise NotImplementedError

    def integrated(self, path: PartedSet, start: Tensor, end: Tensor) -> Integral:
        """Return the path integrals of `path.at` over the line from `start` to `end`."""
        path.begin(start, end)
        found = integrate(
            path.at,
            self.estimator,
            change=path.change,
            tolerance=self.tolerance,
            carried=path.gap,
            allowed=NATS * (len(self.rows) + 1) / len(self.ends),  # its share of the bound on all intervals together
            most_splits=self.most_splits,
        )
        path.gap += float(found.values[0].sum()) - path.change()
        return found

    def state(self) -> dict[str, Tensor]:
        if self.snapshot is None:
            return {}
        gaps = torch.tensor([path.gap for path in self.paths], dtype=torch.float64)
        return {"snapshot": self.snapshot, "gaps": gaps} | self.rows.state()

    def restore(self, state: Mapping[str, Tensor]) -> None:
        self.snapshot = state["snapshot"].to(self.parameters[0].device)
        for path, gap in zip(self.paths, state["gaps"].tolist(), strict=True):
            path.gap = gap
        self.rows.restore(state)
