"""The command line as a person meets it: help, errors in one line, exit codes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from isoscope.cli import app

ROOT = Path(__file__).parents[1]


def isoscope(*words: str, cwd: Path = ROOT) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "isoscope", *words], cwd=cwd, capture_output=True, text=True, check=False
    )


def test_every_command_explains_itself_with_an_example() -> None:
    for command in app.registered_commands:
        assert command.callback is not None
        assert "Example: isoscope" in (command.callback.__doc__ or ""), command.callback.__name__


def test_help_and_version() -> None:
    assert "isoscope repro" in isoscope("--help").stdout
    assert isoscope("--version").stdout.count(".") == 2


@pytest.mark.parametrize(
    "words, expected",
    [
        (["train", "fusio", "additive", "--seed", "0"], "studies.fusio: no such study; did you mean 'fusion'?"),
        (["train", "fusion", "aditive", "--seed", "0"], "no arm 'aditive'; did you mean 'additive'?"),
        (["prepare", "sentimen"], "no task 'sentimen'; did you mean 'sentiment'?"),
        (
            [
                *["train", "fusion", "additive", "--seed", "0", "-S"],
                "variants/fusion/conv2d.yaml:model.fusion.kernel_size=[5,x]",
            ],
            "kernel_size",
        ),
        (["check", "-S", "training.epochs=0"], "training.epochs: expected greater than or equal to 1, got 0"),
        (["profile", "minilmm"], "profiles/minilmm.yaml: no such file; did you mean 'minilm'?"),
        (["profile", "../params"], "profile '../params': expected letters"),
        (["train", "fusion", "additive", "--seed", "0", "--out", "."], "--out .: holds something other than"),
        (
            ["train", "fusion", "additive", "--seed", "0", "--out", "/etc/foo"],
            "--out /etc/foo: leads out of the project",
        ),
        (["train", "fusion", "additive", "--seed", "0", "--out", "../x"], "--out ../x: leads out of the project"),
        (
            ["train", "fusion", "additive", "--seed", "7", "--out", "models/fusion/additive/seed-0"],
            "is the pipeline's own place",
        ),
        (["check", "-S", "studies.fusion.seeds=[0, 1, 1]"], "studies.fusion: seeds [0, 1, 1] name one twice"),
        (["profile"], "give a name or --reset"),
        (["train", "fusion", "additive"], "Missing option '--seed'. (see: "),
        (["train", "fusion", "additive", "--seed", "x"], "--seed"),
        (["trian"], "No such command 'trian'."),
        (["ui", "-S", "training.epochs=2"], "-S"),
        (["check", "--plugin", "nowhere.py"], "no such file"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(words: list[str], expected: str) -> None:
    done = isoscope(*words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("isoscope: ")
    assert expected in done.stderr


def test_outside_a_project_it_says_where_to_go(tmp_path: Path) -> None:
    done = isoscope("check", cwd=tmp_path)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "change into an isoscope project" in done.stderr


def test_check_speaks_to_people_and_machines() -> None:
    assert "dvc.yaml and MLproject agree" in isoscope("check").stdout
    found = json.loads(isoscope("check", "--json").stdout)
    assert found["profiles"] == len(list((ROOT / "profiles").glob("*.yaml")))


def test_it_works_from_a_folder_below_the_project() -> None:
    assert isoscope("check", cwd=ROOT / "docs").returncode == 0
