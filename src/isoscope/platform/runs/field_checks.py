"""Check what a record or a published config.yaml says about its run, where it is read: files may come from elsewhere.

Names of a study, an arm or a task become parts of paths, so a name must not lead out of its folder.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from isoscope.base.errors import brief
from isoscope.base.paths import LONGEST

_HEX = re.compile(r"[0-9a-f]{64}")
_NO_PART = re.compile(r"[/\\\x00-\x1f\x7f]|^\.{0,2}$")


class _Check(NamedTuple):
    """What a field must be."""

    expected: str
    holds: Callable[[Any], bool]

    def or_none(self) -> "_Check":
        return _Check(f"{self.expected} or null", lambda value: value is None or self.holds(value))


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= LONGEST and not _NO_PART.search(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def _is_texts(value: Any) -> bool:
    return _is_mapping(value) and all(isinstance(text, str) for text in value.values())


_NAME = _Check(f"a name of at most {LONGEST} characters without '/'", _is_name)
_TEXT = _Check("a text", lambda value: isinstance(value, str))
_TEXTS = _Check("a mapping from text to text", _is_texts)
_CHECKS = {
    "digest": _Check("64 hexadecimal digits", lambda value: isinstance(value, str) and bool(_HEX.fullmatch(value))),
    "stage": _NAME,
    **dict.fromkeys(("study", "arm", "task"), _NAME.or_none()),
    "seed": _Check("a whole number from 0", _is_count).or_none(),
    **dict.fromkeys(("code", "parent"), _TEXT.or_none()),
    "params": _Check("a mapping from names to values", _is_mapping),
    **dict.fromkeys(("axes", "inputs", "plugins", "tags"), _TEXTS),
}
SEARCH = "isoscope.search"
"""Tag of a training run that a search has begun: the name of the search's experiment."""


def check_identity(fields: Mapping[str, Any]) -> None:
    """Raise `ValueError` for the first of `fields`, the entries about a run, that has a wrong type or form."""
    for name, value in fields.items():
        check = _CHECKS.get(name)
        if check is not None and not check.holds(value):
            raise ValueError(f"{name}: expected {check.expected}, got {brief(value)}")
    tags: Mapping[str, str] = fields.get("tags", {})
    if SEARCH in tags and not _is_name(tags[SEARCH]):
        raise ValueError(f"tag {SEARCH}: expected {_NAME.expected}, got {brief(tags[SEARCH])}")


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
