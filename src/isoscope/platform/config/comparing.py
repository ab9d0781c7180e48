"""Section `comparisons`: comparisons of several studies, which train nothing.

A kind of comparison is a folder, as a kind of study is: its `comparison.py` declares the options as `COMPARISON`.
"""

from abc import abstractmethod
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from types import GenericAlias, ModuleType
from typing import Annotated, Any, Literal, Union

from pydantic import Field, create_model

from isoscope.base.errors import InputError, brief
from isoscope.base.kind import kind, names
from isoscope.platform.config.base import Name, Section


class Comparison(Section):
    """What all kinds of comparison say of themselves, unless a kind says otherwise."""

    kind: str
    """Kind of comparison."""

    @property
    @abstractmethod
    def compared(self) -> tuple[str, ...]:
        """The studies that it reads."""

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks whose data it reads beside those of its studies."""
        return ()

    def shows(self, study: str, arm: str) -> bool:
        """Return whether it is about an arm of one of its studies."""
        return True

    def lacks(self, study: str, arms: Mapping[str, Any]) -> str | None:
        """Return what a study, by its arms' sections, lacks for this comparison; None if nothing is missing."""
        return None


def kinds() -> dict[str, str]:
    """Return the kinds of comparison: name → dotted name of the package in which `comparison` declares its options."""
    known = [kind(name) for name in names()]
    return {one.name: one.package for one in known if (one.folder / "comparison.py").is_file()}


def section() -> Any:
    """Return the type of the section, with the kinds of plugins."""
    found = [_of(name, import_module(f"{package}.comparison")) for name, package in kinds().items()]
    one: Any = Annotated[Union[tuple(found)], Field(discriminator="kind")]  # noqa: UP007 - known at run time only
    return GenericAlias(dict, (Name, one))


@cache
def _of(kind: str, module: ModuleType) -> type[Comparison]:
    declared = getattr(module, "COMPARISON", None)
    if not (isinstance(declared, type) and issubclass(declared, Comparison)):
        raise InputError(f"kind {kind!r}: COMPARISON is {brief(declared)}; expected a class of {Comparison.__module__}")
    named: dict[str, Any] = {"kind": (Literal[kind], ...)}
    return create_model(declared.__name__, __base__=declared, __doc__=declared.__doc__, **named)
