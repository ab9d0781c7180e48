"""Check what a record or a published config.yaml says about its run, where it is read: files may come from elsewhere.

Names of a study, an arm or a task become parts of paths, so a name must not lead out of its folder.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from isoscope.base.errors import brief
from isoscope.base.paths import LONGEST

_HEX = re.compile(r"[0-9a-f]{64}")
_NO_PART = re.compile(r"[/\\\x00-\x1f\x7f]|^\.{0,2}$")


_Check = tuple[str, Callable[[Any], bool]]
"""What a field must be, in words, and whether a value is."""


def _or_none(check: _Check) -> _Check:
    expected, holds = check
    return f"{expected} or null", lambda value: value is None or holds(value)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and not _NO_PART.search(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_texts(value: Any) -> bool:
    return _is_mapping(value) and all(isinstance(text, str) for text in value.values())


_NAME: _Check = (f"a name of at most {LONGEST} characters without '/'", _is_name)
_CHECKS: dict[str, _Check] = {
    "digest": ("64 hexadecimal digits", lambda value: isinstance(value, str) and bool(_HEX.fullmatch(value))),
    "stage": _NAME,
    **dict.fromkeys(("study", "arm", "task"), _or_none(_NAME)),
    "seed": _or_none(("a whole number from 0", _is_count)),
    **dict.fromkeys(("code", "parent"), _or_none(("a text", lambda value: isinstance(value, str)))),
    "params": ("a mapping from names to values", _is_mapping),
    **dict.fromkeys(("axes", "inputs", "plugins", "tags"), ("a mapping from text to text", _is_texts)),
}
SEARCH = "isoscope.search"
"""Tag of a training run that a search has begun: the name of the search's experiment."""


def check_identity(fields: Mapping[str, Any]) -> None:
    """Raise `ValueError` for the first of `fields`, the entries about a run, that has a wrong type or form."""
    for name, value in fields.items():
        if name in _CHECKS:
            _check(name, value, _CHECKS[name])
    if SEARCH in fields.get("tags", {}):
        _check(f"tag {SEARCH}", fields["tags"][SEARCH], _NAME)


def _check(name: str, value: Any, check: _Check) -> None:
    expected, holds = check
    if not holds(value):
        raise ValueError(f"{name}: expected {expected}, got {brief(value)}")


def is_inside(path: str) -> bool:
    """Return whether a path that a file names stays in the folder that it is relative to."""
    parts = re.split(r"[/\\]", path)
    return not {"", "..", "."} & set(parts) and "\0" not in path


def check_point(fields: Mapping[str, Any]) -> None:
    """Raise `ValueError`, `TypeError` or `KeyError` unless `fields` are a point of a metric."""
    name, step, epoch = fields["name"], fields["step"], fields.get("epoch")
    float(fields["value"])
    if not (isinstance(name, str) and name):
        raise ValueError("name: expected a text")
    if not _is_count(step):
        raise ValueError("step: expected a whole number")
    if epoch is not None and epoch != int(epoch):
        raise ValueError("epoch: expected a whole number")
