"""A command waits at its end for a follower that is still working, and warns only about data that MLflow lacks."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoscope.base.processes import StopSignal
from isoscope.platform.runs import follower
from isoscope.platform.runs.run import FOLLOWED, tracked
from own_runs import make
from pipeline_project import wait_for

WARNING = "part of the record; send the rest with: isoscope mirror"


def process(code: str, before: str = "pass") -> "subprocess.Popen[bytes]":
    """A stand-in that receives a request to end, like a follower; it runs `before` when it is ready."""
    begin = "import sys, time; from isoscope.platform.runs.follower import last_word, own_stdout; out = own_stdout()"
    code = f"{begin}; {before}; sys.stdin.read(); {code}"
    return subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@pytest.mark.parametrize(
    "code, said",
    [
        ("last_word(0, out)", ""),
        ("print('a library prints ' * 9999); last_word(0, out)", "a library prints " * 9999 + "\n"),
        ("last_word(3, out)", f"warning: MLflow lacks {WARNING}\n"),
        ("sys.exit(1)", f"warning: MLflow may lack {WARNING}\n"),
        ("print('no word')", f"no word\nwarning: MLflow may lack {WARNING}\n"),
    ],
)
def test_the_last_word_decides(code: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    follower.finish(process(code), patience=60)
    assert capfd.readouterr().err == said


def test_one_that_has_said_all_and_does_not_end_is_no_cause_to_warn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ready = tmp_path / "ready"
    one = process("last_word(0, out); time.sleep(600)", before=f"open({str(ready)!r}, 'w').close()")
    wait_for(ready.exists)
    follower.finish(one, patience=5)
    assert one.returncode is not None
    assert capsys.readouterr().err == ""


def test_one_that_hangs_is_ended_and_said(capsys: pytest.CaptureFixture[str]) -> None:
    one = process("time.sleep(600)")
    began = time.monotonic()
    follower.finish(one, patience=1)
    assert time.monotonic() - began < 30
    assert capsys.readouterr().err == f"warning: MLflow may lack {WARNING}\n"


def test_a_run_to_which_nothing_is_added_waits_for_no_follower(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Like a run that is found finished: earlier records have been sent or reported as missing."""
    monkeypatch.delenv(FOLLOWED, raising=False)
    started: list[subprocess.Popen[bytes]] = []

    def start(folder: Path, which: str) -> "subprocess.Popen[bytes]":
        started.append(process("time.sleep(600)"))
        return started[-1]

    monkeypatch.setattr(follower, "start", start)
    with StopSignal() as stop, tracked(make(tmp_path), stop):
        pass
    assert started[0].returncode is not None
    assert capsys.readouterr().err == ""
