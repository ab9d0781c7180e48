"""Modules of built-in kinds, by name, loaded when a run uses them.

A run's code version covers only the modules that it uses: editing a penalty does not affect runs with another penalty.
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
OBSERVERS = {"watch": "isoscope.training.observers.watch"}
EVERY = tuple(name for registry in (OBJECTIVES, PENALTIES, OBSERVERS) for name in registry.values())


def load(registry: Mapping[str, str], kind: str) -> ModuleType:
    """Import and return the module of a built-in kind."""
    return import_module(registry[kind])


def observers(*, watched: bool) -> list[str]:
    """Return the built-in observers that a run has by choice."""
    return ["watch"] if watched else []


def modules(*, objective: str, penalty: str, observers: Iterable[str]) -> tuple[str, ...]:
    """Return the dotted names of the built-in modules that these choices use; a plugin's code has its own hash."""
    asked = [(OBJECTIVES, objective), (PENALTIES, penalty), *((OBSERVERS, name) for name in observers)]
    return tuple(sorted(registry[kind] for registry, kind in asked if kind in registry))
