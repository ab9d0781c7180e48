"""Code version of a stage: a hash of all sources that its function imports, and of the built-in kinds that a run uses.

A module that imports a registry (`isoscope.base.registry`) may load every built-in kind of it. A run names the kinds
that it uses: editing a penalty does not affect runs with another penalty.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from isoscope.base import built_in
from isoscope.base.built_in import LOADS, MEASURED, METRICS, STAGES
from isoscope.base.metric import DRAWN, Metric

PACKAGE = Path(__file__).parents[1]

# These modules affect a run's numbers only through its resolved parameters and inputs, or not at all.
INERT = (
    "__init__.py",
    "base/atomic_files.py",
    "base/code_closure.py",
    "base/entry.py",
    "base/environment.py",
    "base/errors.py",
    "base/kind.py",
    "base/metric.py",
    "base/parquet.py",
    "base/paths.py",
    "base/processes.py",
    "base/built_in.py",
    "base/registry.py",
    "base/symlinks.py",
    "base/view.py",
    "platform/cli",
    "platform/config",
    "platform/executor",
    "platform/mirror",
    "platform/runs",
    "plugins.py",
)

_INERT_PLACES = tuple(f"{part}/" for part in INERT)
_REGISTRY = "isoscope.base.registry."
_NOTHING = "pass"
NUMBERS = "published.yaml"
"""Published numbers of a package, which are part of its code."""
SHOWN = (".html", ".css", ".js")
"""Files of the report page, which lie beside the modules that read them."""


def stripped(source: str, *, drawn: bool = False) -> str:
    """Return `source` without comments, docstrings, layout and types of arguments: it changes only with the code.

    `drawn`: with what only drawings show of a `Metric`, such as its title.
    """
    return _written(ast.parse(source), drawn=drawn)


def _written(tree: ast.Module, *, drawn: bool = False) -> str:
    """Remove docstrings, types of arguments and, unless they are `drawn`, titles of metrics; return the text."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.Call) and not drawn and ast.unparse(node.func).split(".")[-1] == Metric.__name__:
            named = zip(Metric._fields, node.args, strict=False)
            node.args = [one for field, one in named if field not in DRAWN]
            node.keywords = [one for one in node.keywords if one.arg not in DRAWN]
        elif (
            isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and ast.get_docstring(node, clean=False) is not None
        ):
            node.body[:1] = [] if len(node.body) > 1 else [ast.Pass()]
    return ast.unparse(tree)


@cache
def _read(source: Path) -> tuple[frozenset[str], str]:
    """Return the dotted names that a file imports from the package, also inside functions, and its stripped text."""
    names: set[str] = set()
    if source.name == NUMBERS:
        return frozenset(), source.read_text("utf-8")
    tree = ast.parse(source.read_text("utf-8"))
    for node in _executed(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "isoscope":
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.split(".")[0] == "isoscope")
    return frozenset(names), _written(tree)


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield every node that can import: no expressions, and no imports for type checkers."""
    for node in ast.iter_child_nodes(tree):
        for_types = isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        if not (for_types or isinstance(node, ast.expr)):
            yield node
            yield from _executed(node)


@cache
def _files(name: str) -> tuple[Path, ...]:
    """Return the files behind the dotted `name`: the __init__ and the `NUMBERS` of each package, then the module."""
    parts = name.split(".")[1:]
    folders = [PACKAGE.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    files = [folder / name for folder in folders for name in ("__init__.py", NUMBERS)]
    return tuple(file for file in (*files, PACKAGE.joinpath(*parts).with_suffix(".py")) if parts and file.is_file())


def inert(file: Path) -> bool:
    """Return whether a source file belongs to `INERT`, or has nothing but a docstring."""
    place = f"{file.relative_to(PACKAGE).as_posix()}/"
    return place.startswith(_INERT_PLACES) or _read(file)[1] == _NOTHING


@cache
def closure(stage: str, used: tuple[str, ...] | None = None, loads: tuple[str, ...] | None = None) -> frozenset[Path]:
    """Return every source file that a stage's function imports, except inert files.

    `used`: modules of the kinds of registries that a run names; None: those of every built-in kind of the registries
    that are imported. `loads`: other modules that it loads by name, as those of its kind of study; None: `LOADS`.
    """
    seen: set[Path] = set()
    start = STAGES.get(stage, f"isoscope.platform.stages.{stage}")
    by_name = LOADS.get(stage, ()) if loads is None else loads
    todo = [file for name in (start, *by_name, *(used or ())) for file in _files(name)]
    while todo:
        file = todo.pop()
        if file in seen or inert(file):
            continue
        seen.add(file)
        names = _read(file)[0]
        kinds = [_kinds(name) for name in names if used is None and name.startswith(_REGISTRY)]
        todo.extend(found for name in names.union(*kinds) for found in _files(name))
    return frozenset(seen)


def _kinds(registry: str) -> frozenset[str]:
    """Return the modules of the built-in kinds of a registry by its dotted name."""
    return frozenset(getattr(built_in, registry.removeprefix(_REGISTRY), {}).values())


@cache
def code_version(stage: str, used: tuple[str, ...] | None = None, loads: tuple[str, ...] | None = None) -> str:
    """Return the sha256 of the stripped sources, with their names, of a stage's `closure`."""
    digest = hashlib.sha256()
    for file in sorted(closure(stage, used, loads)):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0{_read(file)[1]}\0".encode())
    return digest.hexdigest()


def functions(source: str) -> dict[str, str]:
    """Return name → hash of each function and method of a stripped source.

    What else a class has stands under the class's name, and what else the module has under "".
    """
    texts: dict[str, str] = {}

    def visit(body: list[ast.stmt], inside: str, head: str = "") -> None:
        rest = [head]
        for node in body:
            name = inside + getattr(node, "name", "")
            if isinstance(node, ast.ClassDef):
                visit(
                    node.body,
                    f"{name}.",
                    " ".join(map(ast.unparse, [*node.decorator_list, *node.bases, *node.keywords])),
                )
            elif isinstance(node, ast.FunctionDef):
                texts[name] = texts.get(name, "") + ast.unparse(node)  # a property and its setter have one name
            else:
                rest.append(ast.unparse(node))
        texts[inside.removesuffix(".")] = "\n".join(rest)

    visit(ast.parse(source).body, "")
    return {name: hashlib.sha256(text.encode()).hexdigest()[:16] for name, text in texts.items()}


@cache
def code_of(
    stage: str, used: tuple[str, ...] | None = None, loads: tuple[str, ...] | None = None
) -> dict[str, dict[str, str]]:
    """Return file → `functions` of what `code_version` hashes; of published numbers, one hash of the file."""
    found = {file.relative_to(PACKAGE).as_posix(): _read(file)[1] for file in sorted(closure(stage, used, loads))}
    return {name: functions(text if name.endswith(".py") else repr(text)) for name, text in found.items()}


def titles(stage: str) -> list[Path]:
    """Return the files whose metrics a stage may draw, with their titles; none of a stage that does not draw."""
    draws = any(file.is_relative_to(PACKAGE / "platform/figures") for file in closure(stage))
    return [_files(name)[-1] for name in sorted({*METRICS.values(), *MEASURED})] if draws else []


def stage_version(stage: str) -> str:
    """Return the sha256 of all code that can change a DVC stage's outputs: its `closure` and files of the page.

    It is equal for a checkout and an installed wheel of the same sources.
    """
    digest = hashlib.sha256(code_version(stage).encode())
    for file in titles(stage):
        digest.update(stripped(file.read_text("utf-8"), drawn=True).encode())
    folders = {file.parent for file in closure(stage)}
    for file in sorted(file for folder in folders for file in folder.iterdir() if file.suffix in SHOWN):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()
