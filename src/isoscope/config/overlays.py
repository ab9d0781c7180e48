"""Overlays: the sections they may set, and the minimal overlay between two trees."""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from isoscope import paths
from isoscope.config.explain import Faults, nearest
from isoscope.config.project import Cell
from isoscope.config.tree import Tree

CELL_SECTIONS = tuple(Cell.model_fields)
_ABSENT = object()


def difference(base: Mapping[str, Any], tree: Mapping[str, Any]) -> Tree:
    """Return the minimal overlay that, merged over `base`, gives `tree`.

    It contains a node of another `kind` completely, because `merge` replaces such a node. Below a node of the same
    kind, `tree` must have every name of `base`.
    """
    found: Tree = {}
    for name, value in tree.items():
        before = base.get(name, _ABSENT)
        if before == value:
            continue
        same = isinstance(before, Mapping) and isinstance(value, Mapping) and before.get("kind") == value.get("kind")
        found[name] = difference(before, value) if same else _plain(value)
    return found


def _plain(value: Any) -> Any:
    """Return a copy with lists instead of tuples, as in YAML."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else copy.deepcopy(value)


def check_sections(file: Path, overlay: Tree) -> None:
    """Refuse an overlay that sets a section it may not set, or that sets `data` and is not a task's."""
    found = Faults()
    for key in overlay:
        if key not in CELL_SECTIONS:
            found.keep(f"{file}: {key}: not a section an overlay may set{nearest(str(key), CELL_SECTIONS)}")
        elif key == "data" and file.parent != paths.VARIANTS / "task":
            found.keep(
                f"{file}: data: all arms of a task share its data; set it in an overlay of {paths.VARIANTS}/task/"
            )
    found.stop()
