"""One pipeline run for all tests: a finished project that tests copy; the first process creates it."""

import json

import pytest
from filelock import FileLock

from pipeline_project import Done, Finished, Project, make


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The project that all e2e tests start from: never changed, only copied."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "popen" in base.name else base  # of all processes of pytest-xdist
    folder, ended = shared / "finished", shared / "finished.json"
    with FileLock(shared / "finished.lock"):
        if not ended.exists():
            project = make(folder)
            first = project.isoscope("repro")
            project.isoscope("mirror")  # what a loaded machine may have left
            project.commit("Results")
            ended.write_text(json.dumps(first))
    return Finished(Project(folder), Done(*json.loads(ended.read_text())))


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Project:
    """A copy of it for the tests of a file, in order; a file's `COPIED` says how (see `Project.copy`)."""
    return finished.project.copy(tmp_path_factory.mktemp("copy") / "project", **getattr(request.module, "COPIED", {}))
