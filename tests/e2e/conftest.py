"""One pipeline run for all: a finished project that tests copy, whichever process makes it first."""

import json
from pathlib import Path

import pytest
from filelock import FileLock

from pipeline_project import Done, Finished, Project, make

# MLflow 3.17 itself uses what SQLAlchemy 2.1 deprecates; the warning comes up once, when its tables are first mapped.
NOLOAD = r"ignore:The ``noload`` loader strategy is deprecated:sqlalchemy.exc.SADeprecationWarning"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.filterwarnings(NOLOAD))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    """The project that all e2e tests start from: never changed, only copied."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "popen" in base.name else base  # of all processes of pytest-xdist
    folder, ended = shared / "finished", shared / "finished.json"
    with FileLock(shared / "finished.lock"):
        if not ended.exists():
            project = make(folder)
            first = project.cold.isoscope("repro")
            project.isoscope("mirror")  # what a loaded machine may have left
            project.commit("Results")
            ended.write_text(json.dumps(first))
    return Finished(Project(folder), Done(*json.loads(ended.read_text())))
