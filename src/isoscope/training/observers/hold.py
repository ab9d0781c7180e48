"""Hold groups of parameters from an update on, to test whether an allocation of loss says what a model needs."""

from collections.abc import Sequence

from torch import nn

from isoscope.config.training import Hold as Settings
from isoscope.errors import InputError
from isoscope.models.components import members
from isoscope.training.observers import Context, Observer


class Hold(Observer):
    """Keep the parameters of `groups` at their values of update `after`: neither moved nor decayed.

    Their gradients are removed before each later update, so the optimiser skips them, moments included. They have no
    part in the gradient norm, nor in its clipping. Until `after` the run is bitwise the run without `hold`. Observers
    that are called earlier see the removed gradients.

    `groups`: names of `held_blocks`. Raises `InputError` for a group that the model does not have, for an `after`
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
        known = held_blocks(context.model)
        if unknown := [name for name in self.groups if name not in known]:
            raise InputError(f"training.hold.groups: no group {unknown[0]!r}; the model has {', '.join(known)}")
        self.parameters = [one for name in self.groups for one in known[name]]

    def before_update(self, step: int) -> dict[str, float]:
        if step > self.after:
            for one in self.parameters:
                one.grad = None
        return {}


def held_blocks(model: nn.Module) -> dict[str, list[nn.Parameter]]:
    """Return the parameters of each stack × layer × component by name: `enc.0.W1`, outside the layers `enc.pos`.

    Every parameter is in one block (`models.components.Group`). A word table that an encoder and a decoder share is
    `shared.emb`, as in the tables of the study `dynamics`. Raises `InputError` for an unknown architecture.
    """
    found: dict[str, list[nn.Parameter]] = {}
    every = members(model, heads=False)
    both = {"enc", "dec"} <= {group.stack for one in every for group in one.groups}
    tables = {group.stack for one in every for group in one.groups if group.component == "emb"}
    for one in every:
        (group,) = one.groups
        stack = "shared" if both and tables == {"enc"} and group.component == "emb" else group.stack
        place = (stack, group.component) if group.layer is None else (stack, str(group.layer), group.component)
        found.setdefault(".".join(place), []).append(one.parameter)
    return found


def observer(settings: Settings) -> Hold:
    """Return the observer for the section `training.hold`."""
    return Hold(after=settings.after, groups=settings.groups)
