"""Bad input ends with one line and exit code 2, and leaves no run behind."""

import shutil

import pytest

from pipeline_project import Finished, Project


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Configured, but nothing is prepared; the task `absent` is of the hub, and a hub is a folder that lacks it."""
    folder = tmp_path_factory.mktemp("bad-input") / "project"
    project = finished.project.copy(folder, without=(".isoscope", "data", "models", "reports", "mlflow.db"))
    project.edit("params.yaml", "\n- tiny\n", "\n- tiny\n- absent\n")
    text = project.text("variants/task/sst2.yaml").replace("name: sst2_sentence", "name: no_such_set")
    (folder / "variants/task/absent.yaml").write_text(text, "utf-8")
    (folder / "hub").mkdir()
    return project


TRAIN = ("train", "fusion", "additive", "--seed", "0")


@pytest.mark.parametrize(
    "command, said",
    [
        (("train", "fusion", "conv3d", "--seed", "0"), ("params.yaml", "no arm 'conv3d'", "did you mean 'conv2d'?")),
        (("train", "fusoin", "conv2d", "--seed", "0"), ("params.yaml", "fusoin", "did you mean 'fusion'?")),
        (("prepare", "tinny"), ("params.yaml", "no task 'tinny'", "did you mean 'tiny'?")),
        (("analyse", "fussion"), ("params.yaml", "fussion", "did you mean 'fusion'?")),
        ((*TRAIN, "-S", "training.epoch=2"), ("training.epoch", "did you mean 'epochs'?")),
        ((*TRAIN, "-S", "training.epochs=two"), ("training.epochs", "integer", "'two'")),
        ((*TRAIN, "--plugin", "none.py"), ("none.py", "no such file")),
        (TRAIN, ("data/processed/tiny", "not prepared", "run: isoscope prepare tiny")),
        (("analyse", "fusion"), ("2 of 2 runs are missing", "run: isoscope train fusion")),
        (("report",), ("run: isoscope",)),
        (("prepare", "absent"), ("no_such_set", "ISOSCOPE_HUB")),
        (("repro", "-S", "training.epoch=2"), ("training.epoch", "did you mean 'epochs'?")),
    ],
    ids=lambda value: " ".join(value) if value[0] in ("train", "prepare", "analyse", "report", "repro") else None,
)
def test_one_line_says_what_is_wrong(project: Project, command: tuple[str, ...], said: tuple[str, ...]) -> None:
    done = project.isoscope(*command, code=2, ISOSCOPE_HUB=str(project.folder / "hub"))
    (line,) = done.err.splitlines()
    assert line.startswith("isoscope: ")
    assert [part for part in said if part not in line] == [], line
    assert done.out == ""
    assert project.records() == {}
    assert not (project.folder / "mlflow.db").exists()
    assert not (project.folder / "data").exists()


def test_an_absent_device_is_not_replaced(project: Project, finished: Finished) -> None:
    shutil.copytree(finished.project.folder / "data", project.folder / "data")
    another = (*TRAIN[:-1], "7")  # a run that DVC's cache does not hold
    done = project.isoscope(*another, "-S", "training.device=cuda", code=2, CUDA_VISIBLE_DEVICES="")
    (line,) = done.err.splitlines()
    assert "training.device: 'cuda' is not available" in line
    assert not any(record.run for record in project.records().values())
