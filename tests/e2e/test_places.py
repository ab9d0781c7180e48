"""What a project publishes holds no path, user or host of the machine: two folders give the same bytes."""

import getpass
import re
import socket
from pathlib import Path

import pytest

from pipeline_project import Finished, Project
from training_runs import files

PUBLISHED = ("data", "models", "reports")
TRAIN = ("train", "fusion", "conv2d", "--seed", "0")


@pytest.fixture(scope="module")
def elsewhere(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same project in a folder of another name and depth, without its outputs."""
    folder = tmp_path_factory.mktemp("moved") / "some one's projects" / "another-name"
    folder.parent.mkdir()
    return finished.project.copy(folder, without=(".isoscope", *PUBLISHED, "mlflow.db", "dvc.lock"), mirrored=False)


def named(folder: Path, project: Project) -> list[str]:
    """The files below a folder that hold the project's place, the user's home, or the host's name."""
    words = {str(project.folder), project.folder.parent.name, str(Path.home()), f"/home/{getpass.getuser()}"}
    host = socket.gethostname()
    words |= {host} if len(host) > 5 else set()
    found = re.compile(b"|".join(re.escape(word.encode()) for word in words if len(word) > 4))
    return [name for name, data in files(folder).items() if found.search(data)]


@pytest.mark.parametrize("top", PUBLISHED)
def test_a_finished_project_names_no_place(finished: Finished, top: str) -> None:
    assert files(finished.project.folder / top)
    assert named(finished.project.folder / top, finished.project) == []


def test_data_and_runs_of_two_folders_are_the_same_bytes(finished: Finished, elsewhere: Project) -> None:
    elsewhere.isoscope("prepare", "tiny")
    elsewhere.isoscope(*TRAIN)
    for part in ("data/processed/tiny", "models/fusion/conv2d/seed-0"):
        assert files(elsewhere.folder / part) == files(finished.project.folder / part)
    elsewhere.isoscope("train", "fusion", "additive", "--seed", "0", "-S", "training.epochs=1")
    assert not elsewhere.output("additive").exists(), "other settings leave the pipeline's place alone"


def test_pages_and_exports_of_two_folders_are_the_same_bytes(
    finished: Finished, elsewhere: Project, tmp_path: Path
) -> None:
    here = finished.project.copy(tmp_path / "here", without=(".isoscope", "mlflow.db"), mirrored=False)
    checkpoint = sorted((here.folder / "models/fusion/conv2d/seed-0/checkpoints").iterdir())[0].relative_to(here.folder)
    quick = ("--analysis", "measures", "--measure", "anisotropy", "--sentences", "40", "--draws", "3")
    for project in (here, elsewhere):
        project.isoscope("export", str(checkpoint), "exported")
        project.isoscope("geometry", str(checkpoint), "--text", "texts/order.jsonl", "--out", "page", *quick)
    for out in ("exported", "page"):
        assert files(here.folder / out) == files(elsewhere.folder / out)
        assert named(here.folder / out, here) == []
