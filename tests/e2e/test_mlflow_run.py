"""`mlflow run` passes its parameters to the command line."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

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
