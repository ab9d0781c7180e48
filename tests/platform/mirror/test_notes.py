"""Damaged notes of a mirror are named, and runs keep their state in MLflow."""

import json
from pathlib import Path

import pytest

from isoscope.base.paths import Project
from isoscope.platform.mirror.fields import known_experiments
from isoscope.platform.mirror.follow import follow
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.runs.lease import HeldError, Lease
from isoscope.platform.stages.mirror import mirror_all
from tracked_runs import shown, write_record

DAMAGE = ["[]", "{", "3", '{"mlflow.db": []}', "\udcff"]


@pytest.mark.parametrize("name", ["experiments.json", "mirrored.json"])
@pytest.mark.parametrize("text", DAMAGE)
def test_a_damaged_note_is_named_and_written_anew(
    project: Path, name: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write_record(project, epochs=1)
    note = project / ".isoscope" / name
    note.write_bytes(text.encode("utf-8", "surrogateescape"))
    ended = follow(project / ".isoscope/records", project, until=lambda: True, digests={"5e" * 32})
    assert (ended.unsent, ended.away) == ({}, False)
    mirror_all(Project(project, project), None)
    err = capsys.readouterr().err
    assert f"warning: {note}: damaged (" in err
    assert "does not answer" not in err
    assert isinstance(json.loads(note.read_text("utf-8")), dict)
    [run] = shown(connect(None, project), "fusion")
    assert run["status"] == "FINISHED"
    assert known_experiments(project, None).keys() == {"fusion"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"pid": 1, "host": "h", "since": "x"}', "x"])
def test_a_lease_whose_note_is_damaged_is_held_all_the_same(tmp_path: Path, text: str) -> None:
    with Lease(tmp_path):
        (tmp_path / "lease.json").write_text(text)
        with pytest.raises(HeldError, match="held by an unknown process"):
            Lease(tmp_path)
