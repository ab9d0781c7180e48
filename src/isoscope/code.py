"""What a stage's numbers depend on in the code: the sources it can import, as one hash."""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent

# These act on a run's numbers only through its resolved parameters and inputs, or not at all.
INERT = (
    "config",
    "paths",
    "runs",
    "mirror",
    "executor",
    "cli",
    "errors",
    "plugins",
    "code",
    "guard",
    "launched",
    "links",
    "renamed",
    "sealing",
    "used",
)


def stripped(source: str) -> str:
    """`source` without comments, docstrings and layout, so that only a change of code changes it."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list) and body and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
            text = body[0].value if isinstance(body[0], ast.Expr) else None
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                body[:1] = [] if len(body) > 1 else [ast.Pass()]
    return ast.unparse(tree)


def _imports(source: Path) -> set[str]:
    """Dotted names that a file of the package imports from the package, inside functions too."""
    names: set[str] = set()
    for node in _executed(ast.parse(source.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "isoscope":
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names if alias.name.split(".")[0] == "isoscope")
    return names


def _executed(tree: ast.AST) -> Iterator[ast.AST]:
    """Every node that can run: without the imports that only type checkers read."""
    for node in ast.iter_child_nodes(tree):
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"):
            yield node
            yield from _executed(node)


def _files(name: str) -> list[Path]:
    """The files that importing the dotted `name` runs: each package's __init__ on the way, then the module."""
    parts = name.split(".")[1:]
    packages = [PACKAGE.joinpath(*parts[:depth], "__init__.py") for depth in range(len(parts) + 1)]
    return [file for file in (*packages, PACKAGE.joinpath(*parts).with_suffix(".py")) if parts and file.is_file()]


def inert(file: Path) -> bool:
    """Whether a source file is on the list of those that cannot change a number by themselves."""
    return file.relative_to(PACKAGE).parts[0].removesuffix(".py") in INERT


@cache
def closure(stage: str, used: tuple[str, ...] = ()) -> frozenset[Path]:
    """Every source file that a stage and the modules `used` can import, directly or not, without the inert ones."""
    seen: set[Path] = set()
    todo = [PACKAGE / "stages" / f"{stage}.py", *(file for name in used for file in _files(name))]
    while todo:
        file = todo.pop()
        if file in seen or inert(file) or file == PACKAGE / "__init__.py":
            continue
        seen.add(file)
        todo.extend(found for name in _imports(file) for found in _files(name))
    return frozenset(seen)


@cache
def code_version(stage: str, used: tuple[str, ...] = ()) -> str:
    """sha256 over the stripped sources, with their names, that a stage and the modules it uses can import."""
    digest = hashlib.sha256()
    for file in sorted(closure(stage, used)):
        text = stripped(file.read_text("utf-8"))
        digest.update(f"{file.relative_to(PACKAGE).as_posix()}\0{text}\0".encode())
    return digest.hexdigest()
