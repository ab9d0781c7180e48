"""A registered kind: a factory, the options that its signature declares, and the rules between them."""

import inspect
import operator
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import MappingProxyType, NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from isoscope.base.errors import InputError
from isoscope.base.metric import Metric

_BOUNDS = {
    "gt": (operator.gt, "greater than {}"),
    "ge": (operator.ge, "greater than or equal to {}"),
    "lt": (operator.lt, "less than {}"),
    "le": (operator.le, "less than or equal to {}"),
    "min_length": (lambda value, least: len(value) >= least, "at least {} items"),
    "func": (lambda value, holds: holds(value), "{.__doc__}"),
}


@dataclass(frozen=True, eq=False)
class Entry:
    """A kind of a registry: built-in, or of a plugin file.

    - `given`: parameters of the factory that the program passes; all others are options.
    - `metrics`: what its numbers mean, of a measure or an objective.
    - `check`: raises `ValueError` for options, as attributes, that do not agree.
    - `of`: what a measure measures: `points`, or `pairs` of sentences with people's scores.
    - `earlier`: options that the configurations of earlier checkpoints lack, with the values that they had.
    """

    name: str
    factory: Callable[..., Any]
    file: Path
    built_in: bool
    given: Collection[str] = ()
    metrics: tuple[Metric, ...] = ()
    of: str = "points"
    check: Callable[[Any], None] | None = None
    earlier: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def title(self) -> str:
        """Name of the kind in errors."""
        return f"plugin {self.name!r} ({self.file})"

    @cached_property
    def options(self) -> dict[str, inspect.Parameter]:
        """The parameters of the factory that are options."""
        parameters = inspect.signature(self.factory, eval_str=True).parameters
        return {name: one for name, one in parameters.items() if name not in self.given}

    @property
    def descriptions(self) -> dict[str, str]:
        """What each option means: a text in its annotation, or a line of the factory's docstring: ``- `scale`: …``."""
        parts = [part.partition("`: ") for part in (inspect.getdoc(self.factory) or "").split("\n- `")[1:]]
        told = {name: " ".join(text.partition("\n\n")[0].split()) for name, _, text in parts}
        notes = {name: getattr(one.annotation, "__metadata__", ()) for name, one in self.options.items()}
        return {name: note for name, given in notes.items() for note in given if isinstance(note, str)} | told

    def make(self, options: Mapping[str, Any], **given: Any) -> Any:
        """Call the factory with these options, and with those of the `given` values that it takes."""
        takes = inspect.signature(self.factory).parameters
        return self.factory(**options, **{name: value for name, value in given.items() if name in takes})

    def checked(self, options: Mapping[str, Any], title: str) -> dict[str, Any]:
        """Return options completed by `earlier`; raise `InputError`, with `title`, if the signature refuses them."""
        defaults = {name: one.default for name, one in self.options.items() if one.default is not one.empty}
        complete = {**defaults, **self.earlier, **options}
        try:
            refuse(*((name not in self.options, f"{name}: unknown key") for name in complete))
            refuse(*((name not in complete, f"{name}: missing") for name in self.options))
            fault = _first(misfit(value, self.options[name].annotation, name) for name, value in options.items())
            refuse((fault is not None, str(fault)))
            if self.check is not None:
                self.check(SimpleNamespace(**complete))
        except ValueError as error:
            raise InputError(f"{title}: {error}") from None
        return complete


def refuse(*conflicts: tuple[bool, str]) -> None:
    """Raise `ValueError` with the message of the first conflict that occurs."""
    for occurs, message in conflicts:
        if occurs:
            raise ValueError(message)


def misfit(value: Any, kind: Any, name: str) -> str | None:
    """Return why a value is not of a type, with its bounds; None if it is, or if the type is no plain one.

    Plain types: int, float, str, bool, None; literals; tuples (a list is one), mappings, unions and `Annotated` of
    plain types. Bounds are those of `annotated_types`, or alike; the docstring of a predicate says what is expected.
    """
    origin, inner = get_origin(kind) or kind, get_args(kind)
    if origin is Annotated:
        return misfit(value, inner[0], name) or _first(_out(value, bound, name) for bound in inner[1:])
    if origin in (Union, UnionType):
        found = [misfit(value, one, name) for one in inner]
        return None if None in found else found[0]
    if origin is Literal:
        fits, wanted = value in inner, " or ".join(", ".join(map(repr, inner)).rsplit(", ", 1))
    elif inner and origin is tuple and isinstance(value, list | tuple):
        kinds = inner[:1] * len(value) if inner[-1] is Ellipsis else inner
        each = (misfit(one, of, f"{name}.{number}") for number, (one, of) in enumerate(zip(value, kinds, strict=False)))
        if fault := _first(each):
            return fault
        fits, wanted = len(kinds) == len(value), f"{len(kinds)} items"
    elif origin is Mapping and isinstance(value, Mapping):
        pairs = ((misfit(key, inner[0], name), misfit(one, inner[1], f"{name}.{key}")) for key, one in value.items())
        return _first(chain.from_iterable(pairs))
    else:
        fits, wanted = _fits(value, origin), "null" if origin is NoneType else getattr(origin, "__name__", origin)
    return None if fits else f"{name}: expected {wanted}, got {value!r}"


def check_fields(one: Any) -> None:
    """Raise `InputError` if a field of a dataclass is not of its type; call it in `__post_init__`."""
    kinds = get_type_hints(type(one), include_extras=True)
    if fault := _first(misfit(getattr(one, field.name), kinds[field.name], field.name) for field in fields(one)):
        raise InputError(f"{type(one).__name__}: {fault}")


def _first(faults: Iterable[str | None]) -> str | None:
    return next(filter(None, faults), None)


def _fits(value: Any, kind: Any) -> bool:
    if kind is float:
        kind = int | float
    elif kind not in (int, str, bool, NoneType, tuple, Mapping):
        return True
    return isinstance(value, kind) and (kind is bool or not isinstance(value, bool))


def _out(value: Any, bound: Any, name: str) -> str | None:
    for key, (keeps, wanted) in _BOUNDS.items():
        limit = getattr(bound, key, None)
        if limit is not None and not keeps(value, limit):
            return f"{name}: expected {wanted.format(limit)}, got {value!r}"
    return None
