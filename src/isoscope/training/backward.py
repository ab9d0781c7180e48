"""Compute the gradients of one update: the objective's loss, and a penalty on the points of the whole batch."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from isoscope.objectives import Forward, Indices, Objective, Place, vector_of
from isoscope.training.determinism import restore_rng, rng_state
from isoscope.training.evaluation import to_device
from isoscope.training.penalised import PenaltyResult, WeightedPenalty
from isoscope.training.ranks import Ranks


class Gradients(NamedTuple):
    """Result of `Backward.add`: this process's tally as a vector, the penalty's metrics, the whole batch's points.

    Metrics and points by place are the same in every process. All may be on the device.
    """

    tally: Tensor
    metrics: dict[str, Any]
    points: Mapping[Place, Tensor]


class Backward:
    """Compute the objective's mean loss over a global batch plus weight × penalty of its points, and their gradients.

    The penalty is a function of all points of the batch, over all processes and micro-batches. With several
    micro-batches, a first pass without graph collects the points and computes the penalty's gradient by the points.
    Each micro-batch then runs again from the same state of the random generators and sends its share back through its
    own graph. So the result equals that of a single large batch.
    """

    def __init__(
        self, model: Any, objective: Objective, ranks: Ranks, accumulation: int, penalised: WeightedPenalty | None
    ) -> None:
        self.model, self.objective, self.ranks = model, objective, ranks
        self.accumulation, self.penalised = accumulation, penalised

    def add(self, rows: Indices, *, epoch: int, step: int, total: int, observed: Collection[Place] = ()) -> Gradients:
        """Add the gradients of the global batch `rows` at update `step` of `total`; return points at `observed`."""
        tally = torch.zeros(len(self.objective.tally().vector()), dtype=torch.float64, device=self.ranks.device)
        micros = np.array_split(self.ranks.share(rows), self.accumulation)
        if self.ranks.size == 1:
            micros = [micro for micro in micros if len(micro)]
        penalty = None if self.penalised is None else self.penalised.place
        places = list(dict.fromkeys(([] if penalty is None else [penalty]) + list(observed)))
        single = len(micros) == 1
        states: list[dict[str, Tensor]] = []
        first: list[Forward] = []
        result = PenaltyResult(None, {})
        whole: Mapping[Place, Tensor] = {}
        if places:
            for micro in micros:
                if not single:
                    states.append(rng_state())
                with torch.set_grad_enabled(single):  # a single forward pass has its graph and serves below
                    first.append(self._forward(micro, rows, epoch, places))
            mine = {place: torch.cat([one.points[place] for one in first]) for place in places}
            result, whole = self._look(mine, rows, step, total)
        weight = self.objective.weight("train", rows, epoch)
        given = 0
        for number, micro in enumerate(micros):
            # Gradients are averaged over processes, so every process must take part. A process without rows runs a row
            # with weight 0.
            with self.ranks.hold_gradients(self.model, number + 1 < len(micros)):
                if states:
                    restore_rng(states[number])
                forward = first[0] if single and first else self._forward(micro, rows, epoch, places)
                minimised = forward.loss / (weight / self.ranks.size) if len(micro) else 0 * forward.loss
                if result.gradient is not None and penalty is not None:
                    points = forward.points[penalty]
                    gradient = result.gradient[given : given + len(points)]
                    given += len(points)
                    minimised = minimised + self.ranks.size * (points * gradient).sum()
                self.ranks.backward(minimised)
            if len(micro):
                tally = tally + vector_of(forward.tally, self.ranks.device)
        return Gradients(tally, result.metrics, {place: whole[place] for place in observed})

    def _forward(self, micro: Indices, rows: Indices, epoch: int, places: Collection[Place]) -> Forward:
        """Run a micro-batch. A micro-batch without rows runs one row of the batch and returns no points."""
        used = micro if len(micro) else rows[:1]
        inputs = to_device(self.objective.batch("train", used, epoch), self.ranks.device)
        found = self.objective.forward(self.model, inputs, places)
        return found if len(micro) else found._replace(points={place: one[:0] for place, one in found.points.items()})

    def _look(
        self, mine: Mapping[Place, Tensor], rows: Indices, step: int, total: int
    ) -> tuple[PenaltyResult, dict[Place, Tensor]]:
        """Return this process's part of the penalty's gradient by the points, its metrics, and all points."""
        whole = {place: self._whole(points.detach(), self._ranks_of(rows, place)) for place, points in mine.items()}
        if self.penalised is None:
            return PenaltyResult(None, {}), whole
        points = whole[self.penalised.place]
        classes = self.objective.owners("train", rows, self.penalised.place)[1]
        own = np.flatnonzero(self._ranks_of(rows, self.penalised.place) == self.ranks.rank)
        numbers = {"own": own, "labels": np.zeros(len(points), np.int64) if classes is None else classes}
        there = to_device(numbers, points.device)
        result = self.penalised.look(points, there["labels"], step=step, total=total)
        gradient = None if result.gradient is None else result.gradient[there["own"]]
        return PenaltyResult(gradient, result.metrics), whole

    def _ranks_of(self, rows: Indices, place: Place) -> Indices:
        """Return the process that computes each point of the global batch (see `Ranks.share`)."""
        return self.objective.owners("train", rows, place)[0] % self.ranks.size

    def _whole(self, points: Tensor, ranks: Indices) -> Tensor:
        """Return all processes' points in the order of the global batch; `ranks` computed them."""
        if self.ranks.size == 1:
            return points
        counts = np.bincount(ranks, minlength=self.ranks.size)
        padded = points.new_zeros((counts.max(), points.shape[1]))
        padded[: len(points)] = points
        every = self.ranks.gather({"points": padded})
        parts = [one["points"][:count] for one, count in zip(every, counts, strict=True)]
        order = np.argsort(np.argsort(ranks, kind="stable"), kind="stable")
        return torch.cat(parts)[torch.from_numpy(order)].to(points.device)
