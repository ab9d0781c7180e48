"""Times in a record never decrease, even if the clock is set back."""

import time
from pathlib import Path

import pytest

from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import mirror
from isoscope.platform.report.runs import working_seconds
from isoscope.platform.runs.record import read
from tracked_runs import lines, shown, start

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
