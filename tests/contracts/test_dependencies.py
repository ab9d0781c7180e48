"""Imports, pyproject.toml, DECISIONS.md and requirements.lock name the same dependencies."""

import ast
import re
import sys
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

# Used without being imported: dvc is run as a command; ruamel.yaml and DVC parse with libyaml where it is installed.
COMMANDS = {"dvc", "ruamel-yaml-clib"}
OPTIONAL = ("postgresql", "cluster", "segment", "convert")
# Of the extra `cluster`: big, and nothing that is computed depends on it, so requirements.lock leaves it out;
# `make cluster` names the version that the tests ran with.
UNPINNED = {"ray"}


def declared(*extras: str) -> dict[str, Requirement]:
    """Direct requirements by canonical name: the product's, or those of the extras."""
    lines = [line for extra in extras for line in PROJECT["optional-dependencies"][extra]]
    requirements = map(Requirement, lines if extras else PROJECT["dependencies"])
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def imported() -> set[str]:
    """Distributions that the package's sources import, at any depth of the code."""
    modules = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                modules.add(str(node.module).split(".")[0])
    providers = packages_distributions()
    names = set()
    for module in modules - sys.stdlib_module_names - {"isoscope"}:
        # mlflow's module comes from three distributions; use the distribution with the module's name
        # without an extra, its module is its distribution
        candidates = {canonicalize_name(name) for name in providers.get(module, [module])}
        names |= {canonicalize_name(module)} & candidates or candidates
    return names


def pins() -> dict[str, str]:
    lines = [
        line for line in (ROOT / "requirements.lock").read_text().splitlines() if line and not line.startswith("#")
    ]
    return {canonicalize_name(name): version for name, _, version in (line.partition("==") for line in lines)}


def test_what_is_imported_is_declared() -> None:
    assert imported() - declared().keys() - declared(*OPTIONAL).keys() == set()


def test_what_is_declared_is_used() -> None:
    assert declared().keys() - imported() - COMMANDS == set()


def test_each_dependency_has_its_reason() -> None:
    tables = (ROOT / "DECISIONS.md").read_text().split("## Tools")[0]
    reasons = {canonicalize_name(name) for name in re.findall(r"^\| ([\w.-]+) \|", tables, re.MULTILINE)} - {"package"}
    assert reasons == (declared().keys() | declared("test", "docs", "dev", *OPTIONAL).keys()) - {"isoscope"}


@pytest.mark.parametrize(
    "extras",
    [(), ("test",), ("docs",), ("dev",), ("postgresql",), ("cluster",), ("segment",), ("convert",)],
    ids=str,
)
def test_the_lock_pins_each_dependency_within_its_range(extras: tuple[str, ...]) -> None:
    locked = pins()
    for name, requirement in declared(*extras).items():
        if name not in {"isoscope", *UNPINNED}:
            assert requirement.specifier.contains(locked[name], prereleases=True), f"{requirement} but {locked[name]}"


def test_what_the_lock_leaves_out_is_tested_within_its_range() -> None:
    assert pins().keys() & UNPINNED == set()
    version = re.search(r"ray\[client\]==([\w.]+)", (ROOT / "Makefile").read_text())
    assert version is not None
    assert declared("cluster")["ray"].specifier.contains(version[1])


def test_the_lock_holds_for_every_machine() -> None:
    """No local builds (`+cpu`), no paths or addresses, and setuptools, which the build without isolation needs."""
    locked = pins()
    assert "setuptools" in locked
    for name, version in locked.items():
        assert re.fullmatch(r"[\w.]+", version), f"{name}=={version}"
