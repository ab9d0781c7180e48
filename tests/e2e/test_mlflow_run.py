"""`mlflow run` passes its parameters to the command line."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pipeline_project import Finished, Project

ROOT = Path(__file__).parents[2]

# Stands before the real one on PATH and writes down how it was called.
RECORDER = """#!{python}
import json, os, sys
with open({calls!r}, "w") as file:
    json.dump({{"argv": sys.argv[1:], "run": os.environ.get("MLFLOW_RUN_ID")}}, file)
"""


def mlflow_run(folder: Path, entry_point: str, *parameters: str) -> dict[str, object]:
    """Start an entry point by `mlflow run --env-manager local` on a copy; return the arguments of `isoscope`."""
    for name in ("MLproject", "python_env.yaml"):
        (folder / name).write_bytes((ROOT / name).read_bytes())
    calls, binaries = folder / "calls.json", folder / "bin"
    binaries.mkdir()
    (binaries / "isoscope").write_text(RECORDER.format(python=sys.executable, calls=str(calls)))
    (binaries / "isoscope").chmod(0o755)
    path = os.pathsep.join([str(binaries), str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local", "--entry-point", entry_point]
    command += [word for parameter in parameters for word in ("-P", parameter)]
    environment = os.environ | {"PATH": path, "MLFLOW_TRACKING_URI": f"sqlite:///{folder}/mlflow.db"}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    called: dict[str, object] = json.loads(calls.read_text())
    return called


@pytest.mark.parametrize(
    "entry_point, parameters, expected",
    [
        ("main", [], ["repro", "-S", ""]),
        (
            "train",
            ["study=fusion", "arm=conv2d", "seed=1", "overrides=training.epochs=2 model.fusion.kernel_size=[5, 5]"],
            ["train", "fusion", "conv2d", "--seed", "1", "-S", "training.epochs=2 model.fusion.kernel_size=[5, 5]"],
        ),
    ],
    ids=["main", "train"],
)
def test_mlflow_run_calls_the_command_line(
    tmp_path: Path, entry_point: str, parameters: list[str], expected: list[str]
) -> None:
    called = mlflow_run(tmp_path, entry_point, *parameters)
    assert called["argv"] == expected
    assert called["run"], "MLflow hands its run on; the command line makes it the parent"


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


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    made = finished.project.copy(tmp_path_factory.mktemp("mlflow") / "project", mirrored=False)
    text = re.sub(r"^search:.*\n", SEARCH, made.text("params.yaml"), flags=re.M)
    (made.folder / "params.yaml").write_text(text, "utf-8")
    return made


CHECKPOINT = "models/fusion/additive/seed-0/checkpoints"


@pytest.mark.parametrize(
    "entry_point, parameters, written",
    [
        ("prepare", {"task": "tiny"}, "data/processed/tiny/manifest.json"),
        ("search", {"overrides": "search.budget.trials=1 training.epochs=1"}, ".isoscope/search/studies.db"),
        (
            "geometry",
            {
                "checkpoint": CHECKPOINT,
                "text": "texts/order.jsonl",
                "column": "text",
                "analysis": "measures",
                "out": "seen",
            },
            "seen/index.html",
        ),
    ],
    ids=["prepare", "search", "geometry"],
)
def test_mlflow_run_works_on_a_project(
    project: Project, entry_point: str, parameters: dict[str, str], written: str
) -> None:
    given = parameters | {
        name: str(next(project.folder.glob(f"{place}/epoch-*")).relative_to(project.folder))
        for name, place in parameters.items()
        if place == CHECKPOINT
    }
    if entry_point == "prepare":
        (project.folder / written).unlink()
    words = [word for name, value in given.items() for word in ("-P", f"{name}={value}")]
    project.run(
        *(sys.executable, "-m", "mlflow", "run", ".", "--env-manager", "local", "--entry-point", entry_point, *words),
        PATH=f"{project.binaries}{os.pathsep}{os.environ['PATH']}",
        MLFLOW_TRACKING_URI=f"sqlite:///{project.folder}/mlflow.db",
    )
    assert (project.folder / written).is_file()
