"""Compute the gradients of one update: the objective's loss, and a penalty on the points of the whole batch."""

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch import Tensor

from isoscope.objectives import Forward, Indices, Objective, Place, Tally
from isoscope.training.determinism import restore_rng, rng_state
from isoscope.training.evaluation import to_device
from isoscope.training.penalised import PenaltyResult, WeightedPenalty
from isoscope.training.ranks import Ranks


class GlobalPoints(NamedTuple):
    """Points `[n, d]` of a global batch in its order, their classes, and the positions of this process's points."""

    points: Tensor
    classes: Indices | None
    mine: Tensor


class Gradients(NamedTuple):
    """Result of `Backward.add`: this process's tally, the penalty's metrics, and the whole batch's points by place.

    Metrics and points are the same in every process.
    """

    tally: Tally
    metrics: dict[str, float]
    points: Mapping[Place, Tensor]


class Backward:
    """Compute the objective's mean loss over a global batch plus weight × penalty of its points, and their gradients.

    The penalty is a function of all points of the batch, over all processes and micro-batches. With several
    micro-batches, a first pass without graph collects the points and computes the penalty's gradient by the points.
    Each micro-batch then runs again from the same state of the random generators and sends its share back through its
    own graph. So the result equals that of a single large batch.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        *,
        accelerator: Accelerator,
        ranks: Ranks,
        accumulation: int,
        penalised: WeightedPenalty | None,
    ) -> None:
        self.model, self.objective = model, objective
        self.accelerator, self.ranks, self.accumulation = accelerator, ranks, accumulation
        self.penalised = penalised

    def add(self, rows: Indices, *, epoch: int, step: int, total: int, observed: Collection[Place] = ()) -> Gradients:
        """Add the gradients of the global batch `rows` at update `step` of `total`; return points at `observed`."""
        tally = self.objective.tally()
        micros = np.array_split(self.ranks.share(rows), self.accumulation)
        if self.ranks.size == 1:
            micros = [micro for micro in micros if len(micro)]
        penalty = None if self.penalised is None else self.penalised.place
        places = list(dict.fromkeys(([] if penalty is None else [penalty]) + list(observed)))
        ahead = bool(places) and len(micros) > 1
        states: list[dict[str, Tensor]] = []
        result = PenaltyResult(None, {})
        whole: dict[Place, GlobalPoints] = {}
        if ahead:
            clouds: dict[Place, list[Tensor]] = {place: [] for place in places}
            for micro in micros:
                states.append(rng_state())
                with torch.no_grad():
                    for place, points in self._forward(micro, rows, epoch, places).points.items():
                        clouds[place].append(points)
            result, whole = self._look({place: torch.cat(parts) for place, parts in clouds.items()}, rows, step, total)
        weight = self.objective.weight("train", rows, epoch)
        given = 0
        for number, micro in enumerate(micros, start=1):
            # Gradients are averaged over processes, so every process must take part. A process without rows runs a row
            # with weight 0.
            with self.ranks.hold_gradients(self.model, number < len(micros)):
                if ahead:
                    restore_rng(states[number - 1])
                forward = self._forward(micro, rows, epoch, places)
                if places and not ahead:
                    result, whole = self._look(forward.points, rows, step, total)
                minimised = forward.loss / (weight / self.ranks.size) if len(micro) else 0 * forward.loss
                if result.gradient is not None and penalty is not None:
                    points = forward.points[penalty]
                    gradient = result.gradient[given : given + len(points)]
                    given += len(points)
                    minimised = minimised + self.ranks.size * (points * gradient).sum()
                self.accelerator.backward(minimised)
            if len(micro):
                tally = tally + forward.tally
        return Gradients(tally, result.figures, {place: whole[place].points for place in observed})

    def _forward(self, micro: Indices, rows: Indices, epoch: int, places: Collection[Place]) -> Forward:
        """Run a micro-batch. A micro-batch without rows runs one row of the batch and returns no points."""
        used = micro if len(micro) else rows[:1]
        inputs = to_device(self.objective.batch("train", used, epoch), self.accelerator.device)
        found = self.objective.forward(self.model, inputs, places)
        return found if len(micro) else found._replace(points={place: one[:0] for place, one in found.points.items()})

    def _look(
        self, mine: Mapping[Place, Tensor], rows: Indices, step: int, total: int
    ) -> tuple[PenaltyResult, dict[Place, GlobalPoints]]:
        """Return this process's part of the penalty's gradient by the points, its metrics, and all points."""
        whole = {place: self._whole(points.detach(), rows, place) for place, points in mine.items()}
        if self.penalised is None:
            return PenaltyResult(None, {}), whole
        points, classes, own = whole[self.penalised.place]
        labels = torch.from_numpy(np.zeros(len(points), np.int64) if classes is None else classes).to(points.device)
        result = self.penalised.look(points, labels, step=step, total=total)
        gradient = None if result.gradient is None else result.gradient[own.to(points.device)]
        return PenaltyResult(gradient, result.figures), whole

    def _whole(self, points: Tensor, rows: Indices, place: Place) -> GlobalPoints:
        """Return all processes' points of the global batch."""
        shares = [np.arange(rank, len(rows), self.ranks.size) for rank in range(self.ranks.size)]  # see `Ranks.share`
        owners = [share[self.objective.owners("train", rows[share], place)[0]] for share in shares]
        if self.ranks.size > 1:
            padded = points.new_zeros((max(len(one) for one in owners), points.shape[1]))
            padded[: len(points)] = points
            every = self.ranks.gather({"points": padded})
            parts = [one["points"][: len(owner)] for one, owner in zip(every, owners, strict=True)]
            points = torch.cat(parts).to(points.device)
        joined = np.concatenate(owners)
        order = np.argsort(joined, kind="stable")
        begin = sum(len(one) for one in owners[: self.ranks.rank])
        mine = np.argsort(order, kind="stable")[begin : begin + len(owners[self.ranks.rank])]
        classes = self.objective.owners("train", rows, place)[1]
        return GlobalPoints(points[torch.from_numpy(order).to(points.device)], classes, torch.from_numpy(mine))
