"""Explain each configuration fault in one line: file, dotted path, expected value, "did you mean"."""

import difflib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from isoscope.base.errors import InputError


class Faults:
    """Distinct lines of every `InputError` raised within `each()`, in order."""

    def __init__(self) -> None:
        self.lines: tuple[str, ...] = ()

    @contextmanager
    def each(self) -> Iterator[None]:
        """Collect the `InputError` of the block and continue after it."""
        try:
            yield
        except InputError as error:
            self.keep(*error.lines)

    def keep(self, *lines: str) -> None:
        """Add the lines that are new."""
        self.lines = tuple(dict.fromkeys((*self.lines, *lines)))

    def stop(self) -> None:
        """Raise `InputError` if there are faults."""
        if self.lines:
            raise InputError(*self.lines)


_KIND = "kind"
Value = TypeVar("Value")


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name closest to a misspelt `name`; None if no name is close."""
    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def nearest(name: str, known: Iterable[str]) -> str:
    """Return `"; did you mean 'x'?"`, or the known names if no name is close, or `""` if there are no names."""
    names = [str(one) for one in known]
    if close := closest(str(name), names):
        return f"; did you mean {close!r}?"
    return f"; known: {', '.join(names)}" if names else ""


def find(name: str, known: Mapping[str, Value], line: str) -> Value:
    """Return the known value of that name. Raises `InputError`: the line, and the name that was meant."""
    if name not in known:
        raise InputError(f"{line}{nearest(name, known)}")
    return known[name]


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
        if path[-1:] == ("[key]",):  # the name itself is wrong
            path = path[:-1]
            node = path[-1]
        dotted = ".".join(map(str, path))
        lines.append(f"{origin(dotted)}: {dotted or 'top'}: {_said(kind, tree, faults, [*path], node)}")
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


def _said(kind: type[BaseModel], tree: Any, faults: list[Any], path: list[Any], node: Any) -> str:
    """Return what is wrong with a node and what was expected."""
    context = faults[0].get("ctx", {})
    named = str(context.get("expected_tags", context.get("expected", ""))).replace(" or ", ",")
    tags = [tag.strip(" '") for tag in named.split(",")]
    match faults[0]["type"] if len(faults) == 1 else "several":
        case "extra_forbidden":
            return f"unknown key{nearest(str(path[-1]), _fields(kind, tree, path[:-1]))}"
        case "missing":
            return "missing"
        case "union_tag_invalid":
            return f"kind {context['tag']!r} is unknown{nearest(context['tag'], tags)}"
        case "union_tag_not_found" if isinstance(node, dict):
            return f"no key 'kind' among {', '.join(map(repr, node))}"
        case "union_tag_not_found":
            return f"expected a mapping, got {node!r}"
        case "value_error":
            return str(context["error"])
        case "literal_error":
            return f"expected {context['expected']}, got {node!r}{nearest(str(node), tags).partition('; known')[0]}"
    wanted = [_wanted(fault) for fault in faults]
    return f"expected {' or '.join(dict.fromkeys(wanted))}, got {node!r}"


def _wanted(fault: Any) -> str:
    """Return what was expected of a node, without the names of pydantic's and Python's types."""
    context = fault.get("ctx", {})
    match fault["type"]:
        case "too_short":
            return f"at least {context['min_length']} item{'s' * (context['min_length'] != 1)}"
        case "too_long":
            return f"at most {context['max_length']} item{'s' * (context['max_length'] != 1)}"
        case "dict_type" | "model_type" | "model_attributes_type":
            return "a mapping"
        case "tuple_type" | "list_type":
            return "a list"
        case "string_pattern_mismatch":
            signs = re.sub(r"\w-\w", "", context["pattern"].replace(r"\w", "_"))
            return f"a name of letters, digits and {', '.join(repr(one) for one in '_.-/' if one in signs)}"
    return str(fault["msg"]).removeprefix("Input should be ").removeprefix("Value should ")


def _fields(kind: Any, tree: Any, path: list[Any]) -> list[str]:
    """Return the field names that a node of the tree may have."""
    for part in path:
        tree = tree[part] if isinstance(tree, dict | list) else None
        fields = getattr(kind, "model_fields", None)
        if fields is None:  # dict[str, X] or tuple[X, ...]
            kind = _member((None, *get_args(kind))[-1], tree)
        else:
            kind = _member(fields[part].annotation if part in fields else None, tree)
    return list(getattr(kind, "model_fields", ()))


def _member(annotation: Any, tree: Any) -> Any:
    """Return the union member that a node's `kind` names, or the annotation itself."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    for member in get_args(annotation) if get_origin(annotation) in (Union, UnionType) else ():
        fields = getattr(member, "model_fields", None)
        tag = tree.get(_KIND) if isinstance(tree, dict) else None
        if fields and (_KIND not in fields or tag in get_args(fields[_KIND].annotation)):
            return member
    return annotation
