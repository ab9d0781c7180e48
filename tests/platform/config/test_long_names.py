"""A name that is too long for a file system is one line with exit code 2, wherever it is given."""

import sys
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import LONGEST, checked_name
from isoscope.platform.cli import main

ROOT = Path(__file__).parents[3]
LONG = "x" * 300


@pytest.mark.parametrize(
    "words",
    [
        ["new", LONG],
        ["new", f"a/{LONG}/b"],
        ["train", LONG],
        ["train", "fusion", LONG],
        ["profile", LONG],
        ["check", "-S", f"search.name={LONG}"],
        ["check", "-S", f"tasks=[{LONG}]"],
        ["check", "-S", f"studies.fusion.task={LONG}"],
        ["check", "-S", f"studies.fusion.settings=[{LONG}]"],
        ["check", "-S", f"studies.fusion.axes.fusion=[{LONG}]"],
        ["check", "-S", f"studies.{LONG}={{task: sentiment, settings: [], axes: {{}}, seeds: [0], kind: arms}}"],
        ["check", "-S", f"plugins=[plugins/{LONG}.py]"],
        ["check", "-S", f"variants/fusion/{LONG}.yaml:model.fusion.kind=fft"],
        ["train", "fusion", "additive", "--plugin", f"{LONG}.py"],
        ["check", "--plugin", f"{LONG}.py"],
        ["compare", LONG],
        ["prepare", LONG],
        ["prepare", "sentiment", "--out", f"data/by-hand/{LONG}"],
        ["train", "fusion", "additive", "--seed", "0", "--out", f"models/by-hand/{LONG}"],
        ["geometry", ".", "--text", "README.md", "--out", LONG],
        ["new", "short", "--from", f"{LONG}.csv"],
        ["export", LONG, "out"],
    ],
)
def test_it_is_one_line(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path if words[0] == "new" else ROOT)
    monkeypatch.setattr(sys, "argv", ["isoscope", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2
    assert all(line.startswith("isoscope: ") for line in said.splitlines())  # `check` has a line for each fault
    assert LONG[:40] in said


def test_the_longest_name_is_given() -> None:
    assert checked_name("study", "x" * LONGEST)
    with pytest.raises(InputError, match=f"has {LONGEST + 1} characters; give it at most {LONGEST}"):
        checked_name("study", "x" * (LONGEST + 1))
