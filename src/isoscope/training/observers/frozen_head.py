"""Score a baseline before the first update: the encoder as it starts, frozen, with a linear head."""

from collections.abc import Callable, Collection
from types import SimpleNamespace

import torch
from torch import Tensor

from isoscope.base.errors import InputError
from isoscope.data.batches import drawn_rows, shuffled
from isoscope.objectives import Place, Scored, vector_of
from isoscope.objectives.labelled import Labelled
from isoscope.plugins import observer
from isoscope.training.evaluation import evaluate
from isoscope.training.observers import Context, Observer, prefixed

PLACE = Place(-1, "mean")
STRENGTHS = (1.0, 1e-1, 1e-2, 1e-3, 1e-4)
HELD_OUT = 5
"""One in so many rows of train chooses the strength."""


@observer("frozen_head")
class FrozenHead(Observer):
    """Log `baseline/frozen_head/…` once: the test metrics of a linear head on vectors of the encoder at its start.

    A vector is the mean over the tokens of the last layer, special tokens included; a pair is read as one text, as in
    training. The head has the objective's loss: it is logistic regression, ridge regression, or logistic regression of
    each label. It is fitted on at most `most` rows of train (`fitted`). The strength of its penalty is the one of
    `STRENGTHS` with the least loss on a fifth of them, when fitted on the others. Raises `InputError` for an objective
    without a target.
    """

    name = "frozen_head"

    def __init__(self, *, most: int) -> None:
        self.most = most

    def begin(self, context: Context) -> None:
        if not isinstance(context.objective, Labelled):
            raise InputError(
                f"training.frozen_head: objective {type(context.objective).__name__} has no target to fit a head to; "
                "set training.frozen_head to null, or choose an objective with a target"
            )
        self.context, self.objective = context, context.objective

    def places(self, step: int | None) -> Collection[Place]:
        return [PLACE] if step is None else []

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        if scored.split != "validation" or epoch != 0:
            return {}
        context, objective = self.context, self.objective
        rows = drawn_rows(objective.size("train"), self.most)
        train = evaluate(context.model, objective, "train", context.ranks, places=[PLACE], rows=rows)
        test = evaluate(context.model, objective, "test", context.ranks, places=[PLACE])
        head = chosen(objective.loss, _points(train), self._targets("train")[rows], len(objective.labels))
        model = SimpleNamespace(config=SimpleNamespace())  # for what an evaluation of the validation split chooses
        for one in (scored, test):
            logits, targets = head(_points(one)), self._targets(one.split)
            counted = objective.tallied(objective.loss(logits, targets), logits, targets)
            tally = objective.tally(vector_of(counted, logits.device).numpy())
            predictions, true = objective.predicted(model, one._replace(columns={"logits": logits.numpy()}))
        found = tally.metrics() | getattr(objective, "row_scores", lambda *_: {})(true, predictions)
        return prefixed("baseline/frozen_head/", found)

    def _targets(self, split: str) -> Tensor:
        found = torch.tensor(self.objective.splits[split].labels)
        return found.double() if found.is_floating_point() else found


Loss = Callable[[Tensor, Tensor], Tensor]
Head = Callable[[Tensor], Tensor]


def chosen(loss: Loss, points: Tensor, targets: Tensor, outputs: int) -> Head:
    """Return the head of points `[n, d]` with the strength that a fifth of them chooses; see `FrozenHead`."""
    order = torch.from_numpy(shuffled(len(points)))
    held, rest = order[::HELD_OUT], order[torch.arange(len(order)) % HELD_OUT > 0]

    def missed(strength: float) -> float:
        head = fitted(loss, points[rest], targets[rest], outputs, strength)
        return float(loss(head(points[held]), targets[held]))

    return fitted(loss, points, targets, outputs, min(STRENGTHS, key=missed))


def fitted(loss: Loss, points: Tensor, targets: Tensor, outputs: int, strength: float) -> Head:
    """Return the linear head `[n, d]` → `[n, outputs]` with the least mean loss + strength · ‖weights‖² / 2.

    `loss`: summed over rows. Each dimension is first scaled to mean 0 and standard deviation 1; the intercept has no
    penalty. For three or more classes, this is scikit-learn's C = 1 / (n · strength); for two classes, twice that.
    """
    mean, spread = points.mean(0), points.std(0, correction=0)
    scale = torch.where(spread > 0, spread, 1.0)
    scaled = (points - mean) / scale
    weights = torch.zeros(points.shape[1] + 1, outputs, dtype=points.dtype, requires_grad=True)

    def value() -> Tensor:
        optimizer.zero_grad()
        missed = loss(scaled @ weights[:-1] + weights[-1], targets) / len(points)
        found = missed + strength * weights[:-1].square().sum() / 2
        found.backward()
        return found

    optimizer = torch.optim.LBFGS([weights], max_iter=1000, tolerance_grad=1e-6, line_search_fn="strong_wolfe")
    optimizer.step(value)
    best = weights.detach()
    return lambda cloud: (cloud - mean) / scale @ best[:-1] + best[-1]


def _points(scored: Scored) -> Tensor:
    return torch.from_numpy(scored.points[PLACE]).double()
