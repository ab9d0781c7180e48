"""Settings of the command line: `-S [file:]name=value`."""

import re
from collections import Counter
from collections.abc import Container, Iterable
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.base.paths import PARAMS
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.tree import Origin, Tree, parse_yaml

# The boundary between two settings: before a dotted name, or before a section that is a list.
_NEXT_SETTING = re.compile(r"\s+(?=(?:[^\s=:]+:)?(?:\w+(?:\.\w+)+|plugins|tasks)=)")
_QUOTED = re.compile(r"""[=:,\[{]\s*(?:"(?:\\.|[^"\\])*"|'(?:''|[^'])*')""")
"""A quoted text of YAML, after what begins a value; an apostrophe in a word begins none."""


class Override(NamedTuple):
    """One `-S [file:]name=value`."""

    file: str | None
    name: str
    value: Any

    @property
    def section(self) -> str:
        return self.name.split(".")[0]

    def reaches(self, sections: Container[str]) -> bool:
        """Whether it sets one of `sections` of params.yaml, whatever overlays say."""
        return self.file in (None, str(PARAMS)) and self.section in sections

    def apply(self, tree: Tree, where: str, origin: Origin | None = None) -> None:
        """Set the value in `tree`, with `where` as its origin; refuse a name whose parent does not exist."""
        *parents, last = self.name.split(".")
        node: Any = tree
        for depth, key in enumerate(parents):
            if not isinstance(node, dict) or key not in node:
                path = ".".join(parents[: depth + 1])
                raise InputError(f"{where}: {path}: no such name{nearest(key, node if isinstance(node, dict) else ())}")
            node = node[key]
        if not isinstance(node, dict):
            raise InputError(f"{where}: {self.name}: {'.'.join(parents)} is a value, not a section")
        node[last] = self.value
        if origin is not None:
            origin.replace(self.name, self.value, where)


def split_overrides(text: str) -> list[str]:
    """Split an `-S` into its settings: MLproject passes several (`a.b=1 c.d=2`) or none. A quoted value stays whole."""
    text = text.strip()
    quoted = [found.span() for found in _QUOTED.finditer(text)]
    ends = [one for one in _NEXT_SETTING.finditer(text) if not any(a < one.start() < b for a, b in quoted)]
    starts = [0, *(one.end() for one in ends)]
    return [text[a:b] for a, b in zip(starts, [*(one.start() for one in ends), len(text)], strict=True) if a < b]


def check_once(overrides: Iterable[str]) -> None:
    """Raise `InputError` if several `-S` set one name: only the last would count."""
    names = Counter(one.partition("=")[0].strip() for text in overrides for one in split_overrides(text) if "=" in one)
    for name, times in names.items():
        if times > 1:
            raise InputError(f"-S {name}: given {times} times; give it once")


def parse_override(text: str) -> Override:
    """Parse `[file:]name=value`, where the value is YAML. Raises `InputError` on any other form."""
    name, sign, value = text.partition("=")
    file, colon, dotted = name.rpartition(":")
    if not sign or not dotted.strip():
        raise InputError(f"-S {text}: expected name=value, such as training.epochs=2")
    return Override(file if colon else None, dotted.strip(), parse_yaml(value, f"-S {name}") if value.strip() else None)
