"""Times in a record never decrease, even if the clock is set back."""

import time
from pathlib import Path

import pytest

from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.report.runs import working_seconds
from isoscope.platform.runs.lines import End
from isoscope.platform.runs.record import Record, read
from tracked_runs import lines, shown, start, write_record

YEAR = 31_536_000 * 10**9


def test_a_clock_set_back_within_an_attempt_and_between_two_gives_no_negative_duration(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall = time.time_ns
    with start(project) as record:
        record.metric("loss", 1.0, step=1)
        monkeypatch.setattr(time, "time_ns", lambda: wall() - YEAR)
        record.metric("loss", 0.5, step=2)
        record.end("KILLED")
    with start(project) as record:
        time.sleep(0.05)
        record.metric("loss", 0.3, step=3)
        record.end("FINISHED")
    times = [line["t"] for line in lines(record.path)]
    assert times == sorted(times)
    assert times[-1] - times[-2] < 60_000
    seconds = working_seconds(read(record.path))
    assert 0.05 <= seconds < 60
    mirror(project)
    [run] = shown(connect(None, project), "fusion")
    assert 0 <= run["end"] - run["start"] < 60_000


def test_an_earlier_record_whose_end_lies_before_its_start_has_no_duration_in_mlflow(project: Path) -> None:
    record = read(write_record(project, epochs=1))
    record.end = End(record.run.t - YEAR // 10**6, "FINISHED")
    server = connect(None, project)
    Mirror(server).send(record)
    [run] = shown(server, "fusion")
    assert run["end"] == run["start"]


def test_what_is_filled_in_later_was_not_worked_on_then(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_record(tmp_path, epochs=1)
    before = working_seconds(read(path))
    path.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if b'"step": 3' not in line))
    wall = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: wall() + YEAR)
    with Record(path) as record:
        record.mend([{"name": "train/loss", "value": 1 / 3, "step": 3, "epoch": None}], source="metrics.jsonl")
    assert len([point for point in read(path).metrics if point.step == 3]) == 1
    assert working_seconds(read(path)) == before
