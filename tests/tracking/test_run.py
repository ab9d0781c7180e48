"""A run's folder, from work to output, and what its record says of how it ended."""

from pathlib import Path

import pytest

from isoscope.errors import InputError
from isoscope.guard import StopSignal
from isoscope.paths import Project
from isoscope.tracking.record import read
from isoscope.tracking.run import FOLLOWED, Identity, Run, tracked


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv(FOLLOWED, "1")
    names = {"study": "fusion", "arm": "additive", "seed": 0, "task": "words", "axes": {"fusion": "additive"}}
    identity = Identity("train", **names, params={}, inputs={}, input_paths={}, plugins={})
    return Run(Project(tmp_path, tmp_path), identity)


def work(run: Run, text: str) -> None:
    with StopSignal() as stop, tracked(run, stop):
        run.begin(device="cpu", threads=1, precision="fp32")
        run.work.mkdir(parents=True)
        (run.work / "metrics.jsonl").write_text(text)
        run.complete()


def test_work_becomes_the_output_and_a_damaged_output_is_replaced(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    work(run, "whole")
    assert run.finished
    (run.output / "metrics.jsonl").write_text("broke")
    assert not run.finished
    assert "metrics.jsonl has changed since it was written; the run is done again" in capsys.readouterr().err
    work(Run(run.project, run.identity), "whole")
    assert run.finished


def test_the_record_tells_how_a_run_ended(run: Run) -> None:
    (run.folder / "work").mkdir(parents=True)
    with pytest.raises(FileExistsError):
        work(run, "in the way")
    record = read(run.record.path)
    assert record.end is not None
    assert record.status == "FAILED"
    assert (record.end.reason or "").startswith("FileExistsError: ")


def test_a_run_refused_before_it_began_leaves_no_word(run: Run) -> None:
    with pytest.raises(InputError), StopSignal() as stop, tracked(run, stop):
        raise InputError("no such device")
    assert run.record.path.read_bytes() == b""


def test_what_fails_after_the_end_does_not_change_it(run: Run) -> None:
    """A finished run found again, and a command that then fails (a closed pipe, say), leave the run finished."""
    work(run, "whole")
    again = Run(run.project, run.identity)
    assert again.finished
    with pytest.raises(ValueError, match="no number"), StopSignal() as stop, tracked(again, stop):
        int("no number")
    assert read(run.record.path).status == "FINISHED"


def test_a_second_owner_is_told_the_name_people_know(run: Run) -> None:
    with (
        StopSignal() as stop,
        tracked(run, stop),
        pytest.raises(InputError, match=r"^additive seed 0 \(\w{12}\): this"),
    ):
        tracked(Run(run.project, run.identity), stop).__enter__()
