"""Freeze groups of parameters during some updates: for fine-tuning, or to test what an allocation of loss claims."""

from collections.abc import Sequence

from isoscope.base.errors import InputError
from isoscope.models.components import blocks
from isoscope.plugins import observer
from isoscope.training.observers import Context, Observer


@observer("freeze")
class Freeze(Observer):
    """Keep the parameters of `groups` as they are from update `after` to update `until`: neither moved nor decayed.

    Their gradients are removed before each of these updates, so the optimiser skips them, moments included. They have
    no part in the gradient norm, nor in its clipping. Until `after` the run is bitwise the run without `freeze`.
    Observers that are called earlier still see these gradients.

    `groups`: names of `models.components.blocks`, or their beginnings (`enc.0`: all of a layer; `enc`: the encoder).
    `until` None: to the end. Raises `InputError` for a group that the model does not have, and for an `after` beyond
    the run.
    """

    name = "freeze"

    def __init__(self, *, after: int, until: int | None, groups: Sequence[str]) -> None:
        self.after, self.until, self.groups = after, until, groups

    def begin(self, context: Context) -> None:
        if self.after >= context.updates:
            raise InputError(
                f"training.freeze.after: {self.after}, but the run has {context.updates} updates, so nothing is frozen"
            )
        known = blocks(context.model)
        self.parameters = []
        for group in self.groups:
            own = [name for name in known if f"{name}.".startswith(f"{group}.")]
            if not own:
                raise InputError(f"training.freeze.groups: no group {group!r}; the model has {', '.join(known)}")
            self.parameters += [one for name in own for one in known[name].values()]

    def before_update(self, step: int) -> dict[str, float]:
        if self.after < step and (self.until is None or step <= self.until):
            for one in self.parameters:
                one.grad = None
        return {}
