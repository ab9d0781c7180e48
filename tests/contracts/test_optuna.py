"""No code uses a private name of Optuna, which a later version may rename or drop."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

ROOT = Path(__file__).parents[2]
NAMED_TUPLE = {"_asdict", "_fields", "_make", "_replace"}
KEYS = {"fixed_params", "study:metric_names"}
"""Names under which Optuna stores what belongs to it."""


def private_names() -> set[str]:
    """Every name with a leading underscore in Optuna's source: modules, classes, functions and attributes."""
    files = [*Path(optuna.__file__).parent.rglob("*.py")]
    nodes = [node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8")))]
    found = {str(getattr(node, kind, "")) for node in nodes for kind in ("name", "attr", "id")}
    found |= {part for file in files for part in file.with_suffix("").parts}
    return {name for name in found if re.match(r"_[a-zA-Z]", name)} - NAMED_TUPLE


PRIVATE = private_names()


def modules(node: ast.AST) -> list[str]:
    """Full names that an import statement names."""
    if isinstance(node, ast.Import):
        return [one.name for one in node.names]
    if isinstance(node, ast.ImportFrom):
        return [f"{node.module}.{one.name}" for one in node.names]
    return []


def violations(source: str) -> Iterator[tuple[int, str]]:
    """Line and name of each private name of Optuna in Python source."""
    tree = ast.parse(source)
    imported = [(node, name) for node in ast.walk(tree) for name in modules(node)]
    if not any("optuna" in name or "search" in name for _, name in imported):
        return
    for node, name in imported:
        if re.match(r"optuna\..*\b_", name) or re.match(r"optuna\._", name):
            yield node.lineno, name
    theirs = {
        one.asname or one.name.partition(".")[0]
        for node, name in imported
        if name.startswith("optuna")
        for one in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in PRIVATE and not own(node.value):
            yield node.lineno, ast.unparse(node)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if node.value in PRIVATE | KEYS or re.search(r"\boptuna(\.\w+)*\._\w", node.value):
                yield node.lineno, node.value
        elif isinstance(node, ast.ClassDef) and any(root(base) in theirs for base in node.bases):
            for part in ast.walk(node):
                if isinstance(part, ast.FunctionDef) and part.name in PRIVATE:
                    yield part.lineno, f"{node.name}.{part.name}"
                elif isinstance(part, ast.Attribute) and part.attr in PRIVATE and own(part.value):
                    yield part.lineno, f"{node.name}.{part.attr}"


def own(node: ast.expr) -> bool:
    """Whether an attribute is the object's own."""
    return isinstance(node, ast.Name) and node.id in ("self", "cls")


def root(node: ast.expr) -> str:
    """The name that a dotted expression begins with."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def files(suffix: str, *folders: str) -> list[Path]:
    return [file for folder in folders for file in (ROOT / folder).rglob(f"*{suffix}") if file != Path(__file__)]


def test_no_private_name_of_optuna_is_used() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {name}"
        for file in files(".py", "src", "tests", "benchmarks")
        for line, name in violations(file.read_text("utf-8"))
    ]
    assert found == []


def test_no_page_names_one() -> None:
    pages = [*files(".md", "docs", "benchmarks"), ROOT / "README.md"]
    found = {(page.name, word) for page in pages for word in re.findall(r"\b\w+\b", page.read_text("utf-8"))}
    assert {(page, word) for page, word in found if word in PRIVATE | KEYS} == set()


@pytest.mark.parametrize(
    "line",
    [
        "from optuna.storages._rdb.models import TrialModel",
        "from optuna.study import _multi_objective",
        "import optuna._transform",
        "study._storage.get_trial(0)",
        "study._thread_local.cached_all_trials = None",
        "trials = storage.get_all_trials(study._study_id)",
        "number = trial._trial_id",
        "steps = trial._cached_frozen_trial.intermediate_values",
        "backend = getattr(study, '_storage')",
        "choices = trial.system_attrs['fixed_params']",
        "monkeypatch.setattr('optuna.storages._rdb.storage.RDBStorage', None)",
        "class Own(optuna.samplers.QMCSampler):\n    def _find_sample_id(self): ...",
        "class Own(QMCSampler):\n    def seed(self): return self._seed",
    ],
)
def test_a_private_name_is_found(line: str) -> None:
    header = "import optuna\nfrom optuna.samplers import QMCSampler\n"
    assert list(violations(header + line))


def test_our_own_names_and_public_ones_are_allowed() -> None:
    source = """
from optuna.samplers import BaseSampler
from optuna.study import Study
class Own(BaseSampler):
    def sample_independent(self, study, trial, name, distribution):
        return self._share_of_ours
class Ours:
    def _storage(self, one: Study):
        return self._storage, one.get_trials(deepcopy=False), one._replace(study=None)
"""
    assert list(violations(source)) == []
