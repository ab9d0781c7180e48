"""Every script of benchmarks/ runs as a smoke test, whose times mean nothing."""

import os
import subprocess
from pathlib import Path

import pytest

import warm

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.name for path in BENCHMARKS.glob("*.py") if path.name != "timing.py")

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("script", SCRIPTS)
def test_it_runs(script: str, tmp_path: Path) -> None:
    environment = {**os.environ, "TMPDIR": str(tmp_path), "ISOSCOPE_HUB": ""}
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


def test_the_readme_names_every_script() -> None:
    text = (BENCHMARKS / "README.md").read_text("utf-8")
    assert [script for script in SCRIPTS if f"benchmarks/{script}" not in text or f"`{script}`" not in text] == []
