"""transformers' own common model tests, from its source package, for any family of classes.

The package on PyPI is read where `make hf` puts it; nothing of it is copied into the project. It lacks
the tests of `generate` and of exporters: stand-ins without a test take their places.
"""

import hashlib
import importlib
import re
import sys
import tarfile
import unittest
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pytest
import transformers

SOURCES = Path(sys.prefix) / "src"
REQUIREMENT = Path(__file__).with_name("transformers-source.txt")
PACKAGE = "transformers_own"
LACKING = {"exporters.test_export": "ExportTesterMixin", "generation.test_utils": "GenerationTesterMixin"}


class Outcome(NamedTuple):
    """Names of tests, and of those that failed, why."""

    passed: set[str]
    failed: dict[str, str]


def load(folder: Path, config: pytest.Config) -> ModuleType:
    """The module `test_modeling_common` of the installed version, unpacked in `folder`; skips where it is not there."""
    pytest.importorskip("parameterized", reason="parameterized is not installed: make hf")
    archive = SOURCES / f"transformers-{transformers.__version__}.tar.gz"
    if not archive.is_file():
        pytest.skip(f"the source package of transformers {transformers.__version__} is not there: make hf")
    (pinned,) = REQUIREMENT.read_text().split("--hash=sha256:")[1:]
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == pinned.strip(), f"{archive} is not what was published"
    with tarfile.open(archive) as packed:
        # Python 3.11.2 has no filter for extraction.
        within = f"{archive.name.removesuffix('.tar.gz')}/tests/"
        for member in packed.getmembers():
            if member.name.startswith(within) and member.name.endswith(".py"):
                source, file = packed.extractfile(member), folder / PACKAGE / member.name.removeprefix(within)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(source.read() if source else b"")
    for path, name in LACKING.items():
        file = folder / PACKAGE / f"{path.replace('.', '/')}.py"
        file.parent.mkdir()
        file.write_text(f"class {name}:\n    pass\n")
    for mark in set(
        re.findall(r"@(?:pytest\.)?mark\.(\w+)", (folder / PACKAGE / "test_modeling_common.py").read_text())
    ):
        config.addinivalue_line("markers", f"{mark}: of transformers' own tests")
    with _importable(folder), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return importlib.import_module(f"{PACKAGE}.test_modeling_common")


@contextmanager
def _importable(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        sys.path.remove(str(folder))


def introduce(common: ModuleType, task: str, name: str) -> None:
    """Let the tests know which targets the class `name` takes, as they know the library's own by their names."""
    names = f"MODEL_{task}MAPPING_NAMES"
    setattr(common, names, {**getattr(common, names), name: name})


def run(common: ModuleType, kinds: list[Any], inputs: Any, *, all_learn: bool = True) -> Outcome:
    """Each test over the model classes `kinds`; `inputs` is what the library calls a model tester.

    `all_learn`: each parameter has a gradient.
    """
    generates = all(kind.can_generate() for kind in kinds)
    mixins = (common.ModelTesterMixin, common.GenerationTesterMixin) if generates else (common.ModelTesterMixin,)
    says = {"all_model_classes": tuple(kinds), "model_tester": inputs, "test_all_params_have_gradient": all_learn}
    case = type("Tests", (*mixins, unittest.TestCase), says)
    result = unittest.TestResult()
    tests = unittest.TestLoader().loadTestsFromTestCase(case)
    names = {test.id().rsplit(".", 1)[1] for test in tests}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's tests do what the library warns of
        tests.run(result)
    failed = {_name(test): why for test, why in result.failures + result.errors}
    return Outcome(names - failed.keys() - {_name(test) for test, _ in result.skipped}, failed)


def _name(test: Any) -> str:
    return str(getattr(test, "test_case", test).id()).rsplit(".", 1)[1]  # of a sub-test, the test
