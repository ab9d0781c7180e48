"""What a task decides where the configuration leaves it open."""

from collections.abc import Mapping
from typing import Any

from isoscope.base import built_in
from isoscope.platform.config.load import ResolvedCell


def completed(found: ResolvedCell, manifest: Mapping[str, Any]) -> ResolvedCell:
    """Return a cell with the options of its objective that its task decides; `manifest`: the task's."""
    options = built_in.load(built_in.GIVEN, "train").decided(found.cell.objective, manifest)
    cell = found.cell.model_copy(update={"objective": found.cell.objective.model_copy(update=options)})
    return found._replace(cell=cell, tree=found.tree | {"objective": found.tree["objective"] | options})
