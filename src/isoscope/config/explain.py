"""Explain each configuration fault in one line: file, dotted path, expected value, "did you mean"."""

import difflib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from isoscope.errors import InputError, InputsError


class Faults:
    """Distinct lines of every `InputError` raised within `each()`, in order. `known` lines are not kept again."""

    def __init__(self, known: "Faults | None" = None, place: str = "") -> None:
        self._known, self._place = known, place
        self._lines: dict[str, None] = {}

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(self._lines)

    @contextmanager
    def each(self) -> Iterator[None]:
        """Collect the `InputError` of the block and continue after it."""
        try:
            yield
        except InputError as error:
            self.keep(*error.lines)

    def keep(self, *lines: str) -> list[str]:
        """Add lines; return the new lines."""
        known = self._known.lines if self._known else ()
        new = [line for line in lines if line not in known and f"{self._place}{line}" not in self._lines]
        self._lines |= dict.fromkeys(f"{self._place}{line}" for line in new)
        return new

    def stop(self) -> None:
        """Raise `InputsError` if there are faults."""
        if self._lines:
            raise InputsError(self._lines)


_KIND = "kind"


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt `name`; None if no name is close."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"`, or the known names if no name is close, or `""` if there are no names."""
    names = [str(one) for one in known]
    if close := closest(str(name), names):
        return f"; did you mean {close!r}?"
    return f"; known: {', '.join(names)}" if names else ""


def explain(kind: type[BaseModel], tree: Any, error: ValidationError, origin: Callable[[str], str]) -> list[str]:
    """Return one line per fault of `error`; misspelt keys first, because the user can see them."""
    by_path: dict[tuple[Any, ...], list[Any]] = {}  # a union has a fault for each of its members
    for fault in sorted(error.errors(include_url=False), key=lambda fault: fault["type"] != "extra_forbidden"):
        by_path.setdefault(tuple(_user_path(fault["loc"], tree)[0]), []).append(fault)
    lines, meant = [], set()
    for path, faults in by_path.items():
        if path in meant and faults[0]["type"] == "missing":  # the key is there, but misspelt
            continue
        if faults[0]["type"] == "extra_forbidden" and (
            name := closest(str(path[-1]), _fields(kind, tree, [*path[:-1]]))
        ):
            meant.add((*path[:-1], name))
        node = _user_path(faults[0]["loc"], tree)[1]
        said = _expected(kind, tree, faults[0], [*path], node) if len(faults) == 1 else _either(faults, node)
        dotted = ".".join(map(str, path))
        lines.append(f"{origin(dotted)}: {dotted or 'top'}: {said}")
    return lines


def _user_path(loc: tuple[Any, ...], tree: Any) -> tuple[list[Any], Any]:
    """Return `loc` without union tags, and the value at that path (None if missing)."""
    path: list[Any] = []
    node = tree
    for part in loc:
        inside = (isinstance(node, dict) and part in node) or (isinstance(node, list | tuple) and isinstance(part, int))
        if not inside and isinstance(node, dict) and node.get(_KIND) == part:
            continue
        if path and not inside and not isinstance(node, dict | list | tuple):
            continue  # a union tag
        path.append(part)
        node = node[part] if inside and (isinstance(node, dict) or part < len(node)) else None
    return path, node


def _expected(kind: type[BaseModel], tree: Any, fault: Any, path: list[Any], node: Any) -> str:
    match fault["type"]:
        case "extra_forbidden":
            siblings = _fields(kind, tree, path[:-1])
            return f"unknown key{nearest(str(path[-1]), siblings)}"
        case "missing":
            return "missing"
        case "union_tag_invalid":
            tags = [tag.strip(" '") for tag in fault["ctx"]["expected_tags"].split(",")]
            return f"kind {fault['ctx']['tag']!r} is unknown{nearest(fault['ctx']['tag'], tags)}"
        case "union_tag_not_found":
            return (
                f"no key 'kind' among {', '.join(map(repr, node))}"
                if isinstance(node, dict)
                else f"expected a mapping, got {node!r}"
            )
        case "value_error":
            return str(fault["ctx"]["error"])
        case "literal_error":
            choices = fault["ctx"]["expected"]
            tags = [tag.strip(" '") for tag in choices.replace(" or ", ",").split(",")]
            return f"expected {choices}, got {node!r}{nearest(str(node), tags).partition('; known')[0]}"
        case _:
            return f"expected {_wanted(fault)}, got {node!r}"


def _either(faults: list[Any], node: Any) -> str:
    return f"expected {' or '.join(dict.fromkeys(map(_wanted, faults)))}, got {node!r}"


def _wanted(fault: Any) -> str:
    return str(fault["msg"]).removeprefix("Input should be ").removeprefix("Value should ")


def _fields(kind: Any, tree: Any, path: list[Any]) -> list[str]:
    """Return the field names that a node of the tree may have."""
    for part in path:
        tree = tree[part] if isinstance(tree, dict | list) else None
        kind = _member(_annotation(kind, part), tree)
    return list(kind.model_fields) if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def _annotation(kind: Any, part: Any) -> Any:
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        field: FieldInfo | None = kind.model_fields.get(part)
        return field.annotation if field else None
    return get_args(kind)[-1] if get_args(kind) else None  # dict[str, X] or tuple[X, ...]


def _member(annotation: Any, tree: Any) -> Any:
    """Return the union member that a node's `kind` names, or the annotation itself."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    for member in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ():
        if isinstance(member, type) and issubclass(member, BaseModel):
            tag = member.model_fields.get(_KIND)
            if tag is None or (isinstance(tree, dict) and tree.get(_KIND) in get_args(tag.annotation)):
                return member
    return annotation
