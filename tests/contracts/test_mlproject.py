"""MLproject has no numbers, and its one string parameter can pass several settings."""

import subprocess
import sys
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).parents[2]
ENTRY_POINTS = YAML(typ="safe").load(ROOT / "MLproject")["entry_points"]


def test_parameters_have_no_default_but_an_empty_one() -> None:
    """A number in MLproject would duplicate params.yaml."""
    for name, entry in ENTRY_POINTS.items():
        for parameter, kind in entry.get("parameters", {}).items():
            default = kind.get("default") if isinstance(kind, dict) else None
            assert default in (None, ""), f"{name}: {parameter}"


@pytest.mark.parametrize(
    "settings, code, words",
    [
        ("", 0, "agree"),
        ("training.epochs=2 training.batch_size=16", 0, "agree"),
        ("training.epochs=2 training.batch_sise=16", 2, "training.batch_sise"),
        ("report.title=Order of words and sums", 0, "agree"),
    ],
    ids=["none", "two", "second misspelt", "a text with spaces"],
)
def test_one_string_carries_several_settings(settings: str, code: int, words: str) -> None:
    command = [sys.executable, "-m", "isoscope", "check", "-S", settings]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
