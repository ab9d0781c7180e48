"""Pipeline runs for all tests: finished projects that tests copy; the first process that needs one creates it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock

from pipeline_project import Done, Finished, Project, make

WITH_SNAPSHOTS = (
    ("  epochs: 4\n", "  epochs: 2\n"),  # fewer snapshots to measure
    ("    steps: none\n    epochs: false\n", "    steps: powers\n    epochs: true\n"),
)


def ready(paths: pytest.TempPathFactory, name: str, begin: Callable[[Path], Project]) -> Finished:
    """A project that nobody changes: begun, run and committed by the first process that asks for it."""
    base = paths.getbasetemp()
    shared = base.parent if "popen" in base.name else base  # of all processes of pytest-xdist
    folder, ended = shared / name, shared / f"{name}.json"
    with FileLock(shared / f"{name}.lock"):
        if not ended.exists():
            project = begin(folder)
            first = project.isoscope("repro")
            project.isoscope("mirror")  # what a loaded machine may have left
            project.commit("Results")
            ended.write_text(json.dumps(first))
    return Finished(Project(folder), Done(*json.loads(ended.read_text())))


def with_snapshots(folder: Path) -> Project:
    project = make(folder, inside=True)
    for old, new in WITH_SNAPSHOTS:
        project.edit("profiles/tiny.yaml", old, new)
    project.isoscope("profile", "--reset")
    project.isoscope("profile", "tiny")
    project.commit("With snapshots")
    return project


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The project that most tests start from."""
    return ready(tmp_path_factory, "finished", make)


@pytest.fixture(scope="session")
def explored(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """A project after the hidden-state stages."""
    return ready(tmp_path_factory, "explored", with_snapshots)


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Project:
    """A copy of it for the tests of a file, in order; a file's `COPIED` says how (see `Project.copy`)."""
    return finished.project.copy(tmp_path_factory.mktemp("copy") / "project", **getattr(request.module, "COPIED", {}))
