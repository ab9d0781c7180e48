"""Hold groups of parameters from an update on, to test whether an allocation of loss says what a model needs."""

from collections.abc import Sequence

from isoscope.base.errors import InputError
from isoscope.models.blocks import blocks
from isoscope.plugins import observer
from isoscope.training.observers import Context, Observer


@observer("hold")
class Hold(Observer):
    """Keep the parameters of `groups` at their values of update `after`: neither moved nor decayed.

    Their gradients are removed before each later update, so the optimiser skips them, moments included. They have no
    part in the gradient norm, nor in its clipping. Until `after` the run is bitwise the run without `hold`. Observers
    that are called earlier still see these gradients.

    `groups`: names of `models.blocks`. Raises `InputError` for a group that the model does not have, for an `after`
    beyond the run, and for sharded weights, whose gradients the optimiser does not read from the parameters.
    """

    name = "hold"

    def __init__(self, *, after: int, groups: Sequence[str]) -> None:
        self.after, self.groups = after, groups

    def begin(self, context: Context) -> None:
        if context.ranks.sharding:
            raise InputError(f"training.hold: {context.ranks.sharding} shards the weights; use DDP or one process")
        if self.after >= context.updates:
            raise InputError(
                f"training.hold.after: {self.after}, but the run has {context.updates} updates, so nothing is held"
            )
        known = blocks(context.model)
        if unknown := [name for name in self.groups if name not in known]:
            raise InputError(f"training.hold.groups: no group {unknown[0]!r}; the model has {', '.join(known)}")
        self.parameters = [one for name in self.groups for one in known[name].values()]

    def before_update(self, step: int) -> dict[str, float]:
        if step > self.after:
            for one in self.parameters:
                one.grad = None
        return {}
