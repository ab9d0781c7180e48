"""Cells of a study for the tests of clusters: their project, and what must be equal wherever they are trained."""

from pathlib import Path

from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import Finished, Project

CELLS = ("-S", "studies.fusion.seeds=[0, 1]", "-S", "training.epochs=20", "-S", "training.learning_rate=1e-3")


def untrained(finished: Finished, folder: Path) -> Project:
    """Return a copy of the finished project without its runs."""
    return finished.project.copy(folder / "project", without=(".isoscope", "models", "mlflow.db"), mirrored=False)


def outputs(project: Project) -> dict[str, dict[str, str]]:
    """Digest → file → md5 of every finished run."""
    found = sorted((project.folder / ".isoscope/runs").glob("*/output"))
    return {path.parent.name: file_md5s(path) for path in found}
