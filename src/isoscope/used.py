"""Which modules a run's choices bring in: built-in kinds by name, loaded when they are used.

A run's code version covers the modules that it uses and no others: editing one penalty leaves runs with another alone.
"""

from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType

OBJECTIVES = {"classification": "isoscope.objectives.classification"}
PENALTIES = {
    "persistent_entropy": "isoscope.penalties.persistent_entropy",
    "cosine": "isoscope.penalties.cosine",
    "spectrum": "isoscope.penalties.spectrum",
    "isoscore": "isoscope.penalties.isoscore",
}
OBSERVERS = {
    "watch": "isoscope.training.observers.watch",
    "posthoc": "isoscope.training.observers.posthoc",
    "fusion_moved": "isoscope.training.observers.fusion_moved",
}
EVERY = tuple(name for registry in (OBJECTIVES, PENALTIES, OBSERVERS) for name in registry.values())


def load(registry: Mapping[str, str], kind: str) -> ModuleType:
    """The module of a built-in kind."""
    return import_module(registry[kind])


def observers(*, watched: bool) -> list[str]:
    """The built-in observers of a run, in the order of their metrics."""
    return [*(["watch", "posthoc"] if watched else []), "fusion_moved"]


def modules(*, objective: str, penalty: str, observers: Iterable[str]) -> tuple[str, ...]:
    """Dotted names of the built-in modules that these choices use; a plugin's code has a hash of its own."""
    asked = [(OBJECTIVES, objective), (PENALTIES, penalty), *((OBSERVERS, name) for name in observers)]
    return tuple(sorted(registry[kind] for registry, kind in asked if kind in registry))
