"""Every script of benchmarks/ runs as a smoke test, whose times mean nothing."""

import contextlib
import importlib
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import warm

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name not in ("every.py", "timing.py"))

LACKING = (
    "mlflow",
    "dvc",
    "optuna",
    "ripser",
    "rich",
    "typer",
    "matplotlib",
    "evaluate",
    "datasets",
    "sqlalchemy",
    "sacrebleu",
)
"""Libraries that a bare machine with a GPU may lack: `gpu.py` needs none of them."""

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs(script: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ISOSCOPE_HUB": ""}
    if script == "gpu.py":
        for name in LACKING:
            (tmp_path / f"{name}.py").write_text(f"raise ModuleNotFoundError('no {name} here', name='{name}')")
        environment["PYTHONPATH"] = str(tmp_path)
    done = subprocess.run(
        [warm.binaries() / "python", BENCHMARKS / script, "--smoke"],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


@pytest.fixture
def timing(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    module = importlib.import_module("timing")
    monkeypatch.setattr(module, "_BOUNDS", [])
    return module


@pytest.mark.parametrize(
    "measured, least, verdict, fails",
    [
        (1.9, False, "kept", False),
        (2.9, False, "missed |", False),
        (3.1, False, "missed by more than half", True),
        (2.1, True, "kept", False),
        (1.4, True, "missed |", False),
        (1.3, True, "missed by more than half", True),
        (0.0, True, "missed by more than half", True),
        (float("nan"), False, "missed by more than half", True),
    ],
)
@pytest.mark.parametrize("smoke", [False, True])
def test_a_bound_missed_by_more_than_half_fails(
    timing: Any,
    capsys: pytest.CaptureFixture[str],
    measured: float,
    least: bool,
    verdict: str,
    fails: bool,
    smoke: bool,
) -> None:
    timing.bound("kept", 1.0, 2.0)
    timing.bound("this", measured, 2.0, least=least)
    with pytest.raises(SystemExit) if fails and not smoke else contextlib.nullcontext() as stopped:
        timing.conclude(smoke=smoke)
    assert stopped is None or stopped.value.code == 1
    assert verdict in next(line for line in capsys.readouterr().out.splitlines() if "this" in line)


def test_every_benchmark_runs_in_turn_and_a_failure_is_named(tmp_path: Path) -> None:
    shutil.copy(BENCHMARKS / "every.py", tmp_path)
    for name, code in (("first", 0), ("second", 1), ("third", 0)):
        (tmp_path / f"{name}.py").write_text(f"import sys; print({name!r}, sys.argv[1:], flush=True); sys.exit({code})")
    command = [sys.executable, tmp_path / "every.py"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert [line for line in done.stdout.splitlines() if line.endswith("[]")] == ["first []", "second []", "third []"]
    assert done.stderr.strip().endswith(": second")
    assert subprocess.run([*command, "first"], capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, "fourth"], capture_output=True, check=False).returncode == 2


def test_what_a_part_has_measured_stays_if_it_fails_or_is_late(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    gpu = importlib.import_module("gpu")
    program = tmp_path / "part.py"
    program.write_text(
        "import json, sys, time\n"
        "print('row: ' + json.dumps({'what': 'first', 'value': 1.5, 'unit': 's'}), flush=True)\n"
        "print(\"{'loss': 1}\", flush=True)\n"
        "sys.exit('wrong') if sys.argv[2] == 'fails' else time.sleep(60)\n"
    )
    monkeypatch.setattr(gpu, "__file__", str(program))
    fails = [*gpu.measured("fails", smoke=True, limit=60)]
    late = [*gpu.measured("late", smoke=True, limit=5)]
    assert [row.what for row in fails] == ["first", "fails: FAILED: wrong"]
    assert [row.what for row in late] == ["first", "late: FAILED: stopped after 5 s"]
    gpu.write(tmp_path, [("fails", row) for row in fails], {"card": "a card"})
    assert "| fails | first | 1.5 s |  |" in (tmp_path / "gpu.md").read_text()
    assert gpu.Row("x", 2.0, "ms", 1.5).verdict == "at most 1.5: **missed**"


def test_without_a_card_it_says_so_and_measures_nothing() -> None:
    command = [warm.binaries() / "python", BENCHMARKS / "gpu.py"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    )
    assert done.returncode == 2
    assert done.stdout == "gpu.py: no GPU here (torch.cuda.is_available() is False)\n"


def test_the_readme_names_every_script() -> None:
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    assert [script for script in SCRIPTS if f"benchmarks/{script}" not in text or f"`{script}`" not in text] == []
