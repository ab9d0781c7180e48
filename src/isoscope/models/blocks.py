"""A model's parameters by stack × layer × component: the groups that are frozen, and that are removed from a model."""

from torch import nn

from isoscope.models.components import members


def blocks(model: nn.Module) -> dict[str, dict[str, nn.Parameter]]:
    """Return block → name → parameter: `enc.0.W1`, `cross.1.value`, outside the layers `enc.pos`.

    Every parameter is in one block (`models.components.Group`). A word table that an encoder and a decoder share is
    `shared.emb`, as in the tables of the study `dynamics`. Raises `InputError` for an unknown architecture.
    """
    every = members(model, heads=False)
    both = {"enc", "dec"} <= {group.stack for one in every for group in one.groups}
    tables = {group.stack for one in every for group in one.groups if group.component == "emb"}
    found: dict[str, dict[str, nn.Parameter]] = {}
    for one in every:
        (group,) = one.groups
        stack = "shared" if both and tables == {"enc"} and group.component == "emb" else group.stack
        place = (stack, group.component) if group.layer is None else (stack, str(group.layer), group.component)
        found.setdefault(".".join(place), {})[one.name] = one.parameter
    return found
