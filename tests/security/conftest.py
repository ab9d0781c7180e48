"""A small project with prepared data, for attacks on it."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from pipeline_project import Project, make


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    project = make(tmp_path_factory.mktemp("attacked") / "project")
    project.isoscope("prepare", "tiny")
    return project


@pytest.fixture
def project(prepared: Project, tmp_path: Path) -> Project:
    return prepared.copy(tmp_path / "project")
