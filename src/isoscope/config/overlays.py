"""Overlays made by the program: what to lay over one tree to get another."""

import copy
from collections.abc import Mapping
from typing import Any

from isoscope.config.tree import Tree

_ABSENT = object()


def difference(base: Mapping[str, Any], tree: Mapping[str, Any]) -> Tree:
    """The least overlay that, merged over `base`, gives `tree`.

    A node of another `kind` stands in it whole, as `merge` replaces it whole. `tree` must have every name of `base`
    below a node of the same kind.
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
    """Copied, with lists for tuples, as YAML has them."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list | tuple) else copy.deepcopy(value)
