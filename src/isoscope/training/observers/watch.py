"""Log anisotropy during training: of the batch at every logged update, of a fixed sample at every evaluation.

At the end, log the effect of post-hoc whitening and all-but-the-top on the test split.
"""

from collections.abc import Collection, Mapping

import numpy as np
from torch import Tensor

from isoscope.data.batches import drawn_rows
from isoscope.objectives import Place, Scored
from isoscope.plugins import observer
from isoscope.training.anisotropy import batch_metrics, posthoc_metrics, sample_metrics
from isoscope.training.observers import Context, Observer, prefixed


class Watch(Observer):
    """Log `step/a_1` … of the batch, and `validation/a_1` … of `sample` validation rows, the same in every run.

    At the end, log `posthoc/…` of the test split, for an objective with classes.
    """

    name = "watch"

    def __init__(self, place: Place, *, sample: int, clusters: int) -> None:
        self.place, self.sample, self.clusters = place, sample, clusters

    def begin(self, context: Context) -> None:
        self.objective, self.log_every = context.objective, context.log_every
        self.rows = drawn_rows(self.objective.size("validation"), self.sample)
        labels = self.objective.owners("validation", self.rows, self.place)[1]
        self.labels = np.zeros(len(self.rows), np.int64) if labels is None else labels

    def places(self, step: int | None) -> Collection[Place]:
        return [self.place] if step is None or step % self.log_every == 0 else []

    def after_update(self, step: int, points: Mapping[Place, Tensor]) -> dict[str, float]:
        if step % self.log_every != 0:
            return {}
        return prefixed("step/", batch_metrics(points[self.place].double().cpu().numpy()))

    def evaluated(self, scored: Scored, epoch: int | None) -> dict[str, float]:
        points = scored.points[self.place]
        if scored.split == "validation":
            return prefixed("validation/", sample_metrics(points[self.rows], self.labels, clusters=self.clusters))
        labels = self.objective.owners("test", np.arange(self.objective.size("test")), self.place)[1]
        return {} if labels is None else prefixed("posthoc/", posthoc_metrics(points, labels))


@observer("watch")
def watch(layer: int, vectors: str, sample: int, clusters: int) -> Watch:
    """Return the observer for the section `training.watch`."""
    return Watch(Place(layer, vectors), sample=sample, clusters=clusters)
