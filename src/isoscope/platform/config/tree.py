"""Plain configuration trees: read YAML, merge overlays, track the origin file of each leaf."""

import copy
import io
import json
import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap
from ruamel.yaml.error import YAMLError
from ruamel.yaml.representer import SafeRepresenter

from isoscope.base.errors import InputError, disk_trouble
from isoscope.platform.config.explain import nearest

Tree = dict[str, Any]

DEEPEST, MOST = 32, 100_000
"""Maximum levels and values of a YAML file: more is a mistake or an alias bomb."""
_BRACKETS = re.compile(rf"(?:[\[{{]\s*){{{DEEPEST + 1}}}")  # ruamel takes seconds on thousands of brackets


def parse_yaml(text: str, name: str, *, most: int | None = MOST) -> Any:
    """Return the plain data of YAML 1.2 text, parsed as DVC does, up to `most` values. Errors name `name`."""
    return _unshared(_parsed(text, name, most))


def _unshared(node: Any) -> Any:
    """Return a copy in which no two places are one object, as an alias makes them: a change is of its place alone."""
    if isinstance(node, dict):
        return {key: _unshared(value) for key, value in node.items()}
    return [*map(_unshared, node)] if isinstance(node, list) else copy.deepcopy(node)


@lru_cache(maxsize=128)  # ruamel takes milliseconds per file, and every profile is merged over the same overlays
def _parsed(text: str, name: str, most: int | None) -> Any:
    deep = f"{name}: nested too deeply, or an anchor contains itself; the maximum is {DEEPEST} levels"
    if _BRACKETS.search(text):
        raise InputError(deep)
    try:
        found = YAML(typ="safe").load(text)
    except RecursionError:
        raise InputError(deep) from None
    except (YAMLError, ValueError, TypeError) as error:  # TypeError: a mapping as a key
        where = getattr(error, "problem_mark", None)
        line = f" line {where.line + 1}:" if where else ""
        problem = getattr(error, "problem", None) or error
        raise InputError(f"{name}:{line} not YAML: {' '.join(str(problem).split())}") from error
    level, count = [found], 0
    for _ in range(DEEPEST):
        level = [one for node in level for one in _inside(node)]
        if not level:
            return found
        count += len(level)
        if most is not None and count > most:
            raise InputError(f"{name}: more than {most:,} values after expanding aliases; write fewer")
    raise InputError(deep)


def _inside(node: Any) -> Iterable[Any]:
    if isinstance(node, Mapping):
        return node.values()
    return node if isinstance(node, list | tuple | set) else ()


def entries(tree: Mapping[str, Any], name: str) -> Tree:
    """Return the mapping below `name`; an empty mapping if there is none: its type is the fault of another check."""
    return found if isinstance(found := tree.get(name), dict) else {}


def read_yaml(folder: Path, name: Path, *, most: int | None = MOST) -> Tree:
    """Return the mapping in a YAML file below `folder`, up to `most` values. Raises `InputError` if there is none."""
    path = folder / name
    try:
        if not path.exists():
            known = sorted(path.stem for path in path.parent.glob("*.yaml"))
            raise InputError(f"{name}: no such file{_untracked(folder, name) or nearest(name.stem, known)}")
        if not path.is_file():  # a fifo would block
            raise InputError(f"{name}: not a regular file; replace it with a YAML file")
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{name}: not UTF-8 at byte {error.start}") from error
    except OSError as error:
        if disk_trouble(error):
            raise
        raise InputError(f"{name}: cannot be read: {error.strerror}") from error
    tree = parse_yaml(text, str(name), most=most)
    if not isinstance(tree, dict):
        raise InputError(f"{name}: expected a mapping of sections, got {type(tree).__name__}")
    return tree


def _untracked(folder: Path, name: Path) -> str:
    """Return why a copy of the project (`dvc exp run --temp` or `--queue`) lacks a file that the project has."""
    home = Path(os.environ.get("DVC_ROOT") or folder)
    if home.resolve() == folder.resolve() or not (home / name).is_file():
        return ""
    return f" in this copy of the project, since git does not track it; run in {home}: git add {name}"


def merge(base: Tree, overlay: Mapping[str, Any]) -> None:
    """Merge `overlay` into `base` in place; a node whose overlay sets `kind` is replaced completely.

    `base` may be a tree of ruamel, with comments.
    """
    for key, value in overlay.items():
        if isinstance(value, Mapping) and "kind" not in value and isinstance(base.get(key), dict):
            merge(base[key], value)
            continue
        if isinstance(base, CommentedMap) and (places := base.ca.items.get(key)):
            places[3] = None  # the layout of a block list (as DVC writes it): ruamel would expect a list there
        base[key] = copy.deepcopy(value)


def difference(base: Mapping[str, Any], tree: Mapping[str, Any]) -> Tree:
    """Return the minimal overlay that, merged over `base`, gives `tree`.

    It contains a node of another `kind` completely, because `merge` replaces such a node. Below a node of the same
    kind, `tree` must have every name of `base`.
    """
    found: Tree = {}
    for name, value in tree.items():
        if name not in base or base[name] != value:
            old: Any = base.get(name)
            nodes = isinstance(old, Mapping) and isinstance(value, Mapping)
            same = nodes and old.get("kind") == value.get("kind")
            found[name] = difference(old, value) if same else json.loads(json.dumps(value))  # lists, as in YAML
    return found


def flatten(tree: Any, prefix: str = "") -> dict[str, Any]:
    """Return dotted name → leaf; a list is a leaf."""
    if not isinstance(tree, Mapping):
        return {prefix: tree}
    return {
        name: leaf
        for key, value in tree.items()
        for name, leaf in flatten(value, f"{prefix}.{key}".lstrip(".")).items()
    }


def differing(params: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of a run, by dotted name, that `now` has with another value; names of its digest only."""
    return {
        name: value
        for name, value in params.items()
        if name not in NOT_IN_DIGEST and name in now and json.dumps(value) != json.dumps(now[name])
    }


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, str]:
    """Return name → `name old → new` of each value that differs, by name."""
    pairs = {one: (before.get(one, "absent"), now.get(one, "absent")) for one in sorted(before.keys() | now.keys())}
    return {name: f"{name} {old} → {new}" for name, (old, new) in pairs.items() if old != new}


def as_text(value: Any) -> str:
    """Return a value as YAML and JSON write it; a string unchanged."""
    return value if isinstance(value, str) else json.dumps(value)


_WORD = re.compile(r"y|n|yes|no|on|off", re.IGNORECASE)
_BASE_SIXTY = re.compile(r"[-+]?\d[\d_]*(:[0-5]?\d)+(\.[\d_]*)?")


def represent_float(to: Any, value: float) -> Any:
    """Return the node of a float: `1.0e-08`, which in YAML 1.1 would be text without the point."""
    node = to.represent_float(value)
    node.value = re.sub(r"^(-?\d+)e", r"\1.0e", node.value)
    return node


def _text(to: Any, value: str) -> Any:
    """Return the node of a text, quoted if YAML 1.1 reads another value: `no` is false there, and `1:30` is 90."""
    node = to.represent_str(value)
    if _WORD.fullmatch(value) or _BASE_SIXTY.fullmatch(value):
        node.style = "'"
    return node


class _Plain(SafeRepresenter):
    """Represents scalars for readers of YAML 1.1, too."""


_Plain.add_representer(float, represent_float)
_Plain.add_representer(str, _text)


def dump_yaml(tree: Any) -> str:
    """Return readable YAML text of plain data, keys in their order; readers of YAML 1.1 and 1.2 get equal values."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = _Plain
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    stream = io.StringIO()
    yaml.dump(tree, stream)
    return stream.getvalue()


class Origin:
    """The file that set each leaf of a merged tree."""

    def __init__(self, tree: Tree, file: str) -> None:
        self._files = {"": file}
        self.lay(tree, file)

    def lay(self, tree: Tree, file: str) -> None:
        """Note the origin of a merged overlay's values; a node whose overlay sets `kind` was replaced completely."""
        for name in flatten(tree):
            *parents, last = name.split(".")
            if last == "kind":
                self._forget(".".join(parents))
        for name in flatten(tree):
            parts = name.split(".")
            self._files.update({".".join(parts[:n]): file for n in range(1, len(parts) + 1)})

    def replace(self, name: str, value: Any, where: str) -> None:
        """Note the origin of a value that has replaced a whole node."""
        self._forget(name)
        self.lay({name: value}, where)

    def _forget(self, name: str) -> None:
        self._files = {path: file for path, file in self._files.items() if not path.startswith(f"{name}.")}

    def __call__(self, path: str) -> str:
        while path not in self._files:
            path = path.rpartition(".")[0]
        return self._files[path]


# Device, threads and checkpoint interval are in the record, not in the digest: they do not define the run, and neither
# does what is kept of it.
NOT_IN_DIGEST = frozenset(
    {
        *("training.device", "training.threads", "training.checkpoint_every", "training.keep_state"),
        *("extraction.device", "extraction.threads"),
        *("measures.device", "measures.processes", "measures.threads"),
        # Names of the run to start from, whose digest is an input.
        *(f"model.encoder.{part}{name}" for part in ("", "encoder.", "decoder.") for name in ("study", "arm", "seed")),
    }
)
