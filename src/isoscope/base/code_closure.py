"""Code version of a stage: a hash of all sources that its function imports, and of the built-in kinds that a run uses.

Modules of built-in kinds are loaded when a run uses them: editing a penalty does not affect runs with another penalty.
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from isoscope.base.built_in import LOADED, STAGES

PACKAGE = Path(__file__).parents[1]

# These modules affect a run's numbers only through its resolved parameters and inputs, or not at all.
INERT = (
    "__init__.py",
    "base/atomic_files.py",
    "base/code_closure.py",
    "base/environment.py",
    "base/errors.py",
    "base/paths.py",
    "base/processes.py",
    "base/built_in.py",
    "base/symlinks.py",
    "platform/cli",
    "platform/config",
    "platform/executor",
    "platform/mirror",
    "platform/runs",
    "plugins.py",
    "renamed.py",
)

_NOTHING = "pass"
NUMBERS = "published.yaml"
"""Published numbers of a package, which are part of its code."""
SHOWN = (".html", ".css", ".js")
"""Files of the report page, which lie beside the modules that read them."""


def stripped(source: str) -> str:
    """Return `source` without comments, docstrings and layout, so that it changes only when code changes."""
    return _written(ast.parse(source))


def _written(tree: ast.Module) -> str:
    """Remove the docstrings of `tree` and return it as text."""
    for node in ast.walk(tree):
        if (
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


def _files(name: str) -> list[Path]:
    """Return the files behind the dotted `name`: the __init__ and the `NUMBERS` of each package, then the module."""
    parts = name.split(".")[1:]
    folders = [PACKAGE.joinpath(*parts[:depth]) for depth in range(len(parts) + 1)]
    files = [folder / name for folder in folders for name in ("__init__.py", NUMBERS)]
    return [file for file in (*files, PACKAGE.joinpath(*parts).with_suffix(".py")) if parts and file.is_file()]


def inert(file: Path) -> bool:
    """Return whether a source file belongs to `INERT`, or has nothing but a docstring."""
    return any(file.is_relative_to(PACKAGE / part) for part in INERT) or _read(file)[1] == _NOTHING


@cache
def closure(stage: str, used: tuple[str, ...] = ()) -> frozenset[Path]:
    """Return every source file that a stage's function and the modules `used` import, except inert files."""
    seen: set[Path] = set()
    todo = [file for name in (STAGES[stage], *used) for file in _files(name)]
    while todo:
        file = todo.pop()
        if file in seen or inert(file):
            continue
        seen.add(file)
        todo.extend(found for name in _read(file)[0] for found in _files(name))
    return frozenset(seen)


@cache
def code_version(stage: str, used: tuple[str, ...] = ()) -> str:
    """Return the sha256 of the stripped sources, with their names, that a stage and its `used` modules import."""
    digest = hashlib.sha256()
    for file in sorted(closure(stage, used)):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0{_read(file)[1]}\0".encode())
    return digest.hexdigest()


def stage_closure(stage: str) -> frozenset[Path]:
    """Return every source file that a DVC stage can import, whatever kinds its runs use."""
    return closure(stage, LOADED.get(stage, ()))


def stage_version(stage: str) -> str:
    """Return the sha256 of all code that can change a DVC stage's outputs: its `stage_closure` and files of the page.

    It is equal for a checkout and an installed wheel of the same sources.
    """
    digest = hashlib.sha256(code_version(stage, LOADED.get(stage, ())).encode())
    folders = {file.parent for file in stage_closure(stage)}
    for file in sorted(file for folder in folders for file in folder.iterdir() if file.suffix in SHOWN):
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0".encode() + file.read_bytes())
    return digest.hexdigest()
