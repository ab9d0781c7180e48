"""What an audit says of the records of runs that never began, and of those that lost their lines."""

from pathlib import Path

import pytest

from isoscope.base.processes import StopSignal
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.run import carry_out
from isoscope.platform.stages.audit import DAMAGE, _record
from own_runs import finish, make


def test_a_run_that_was_looked_for_and_never_began_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells that wait for others leave an empty record when the command is stopped."""
    monkeypatch.setenv(FOLLOWED, "1")
    run = make(tmp_path)
    with StopSignal() as stop:
        assert not carry_out(run, None, stop=stop, output=None, points=list, source="", facts=dict)
    record = run.project.records / f"{run.digest}.jsonl"
    assert record.read_bytes() == b""
    assert [*_record(run.project, run.digest)] == []
    done = finish(make(tmp_path, seed=1), lambda folder: (folder / "metrics.jsonl").write_text(""))
    assert [*_record(done.project, done.digest)] == []
    (done.project.records / f"{done.digest}.jsonl").write_text("")
    ((kind, text),) = _record(done.project, done.digest)
    assert kind == DAMAGE
    assert "damaged or missing lines" in text
