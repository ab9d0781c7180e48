"""`mlflow run` carries out each entry point on a project, and passes its parameters to the command line."""

import os
import sys

import pytest

from pipeline_project import Project

COPIED = {"mirrored": False}
SEARCH = """\
search:
  name: tiny
  study: fusion
  arm: additive
  settings: []
  seeds: [0]
  space: {training.learning_rate: {choices: [0.01, 0.02]}}
  objectives: {validation/accuracy: maximise}
  constraints: {}
  at: best
  budget: {trials: 3, hours: null}
  retries: 0
  sampler: {kind: random, seed: 5}
  pruner: {kind: none}
"""


def mlflow_run(project: Project, entry_point: str, **parameters: str) -> None:
    """Start an entry point; a `*` in a parameter stands for the only name that fits."""
    given = {name: next(project.folder.glob(value)) if "*" in value else value for name, value in parameters.items()}
    words = [word for name, value in given.items() for word in ("-P", f"{name}={value}")]
    project.run(
        *(sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local", "--entry-point", entry_point, *words),
        PATH=f"{project.binaries}{os.pathsep}{os.environ['PATH']}",
        MLFLOW_TRACKING_URI=f"sqlite:///{project.folder}/mlflow.db",
    )


CHECKPOINT = {"checkpoint": "models/fusion/additive/seed-0/checkpoints/epoch-*", "text": "texts/order.jsonl"}


@pytest.mark.parametrize(
    "entry_point, parameters, written",
    [
        ("main", {}, "reports/index.html"),
        ("prepare", {"task": "tiny"}, "data/processed/tiny/manifest.json"),
        ("search", {"overrides": "search.budget.trials=1 training.epochs=1"}, ".isoscope/search/studies.db"),
        ("geometry", CHECKPOINT | {"column": "text", "analysis": "measures", "out": "seen"}, "seen/index.html"),
    ],
    ids=["main", "prepare", "search", "geometry"],
)
def test_an_entry_point_writes_what_its_command_does(
    project: Project, entry_point: str, parameters: dict[str, str], written: str
) -> None:
    project.lay(SEARCH)
    (project.folder / written).unlink(missing_ok=True)
    mlflow_run(project, entry_point, **parameters)
    assert (project.folder / written).is_file()


def test_several_settings_in_one_parameter_and_the_enclosing_run_reach_a_training_run(project: Project) -> None:
    settings = "training.epochs=1 model.fusion.kernel_size=[1, 3]"
    mlflow_run(project, "train", study="fusion", arm="conv2d", seed="1", overrides=settings)
    (record,) = [one for one in project.records().values() if one.run and one.run.seed == 1]
    found = [record.run.params[name] for name in ("training.epochs", "model.fusion.kernel_size")]
    assert (record.run.arm, found) == ("conv2d", [1, [1, 3]])
    assert record.attempts[0].parent_run, "the command line makes MLflow's run the parent"
