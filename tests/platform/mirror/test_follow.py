"""A mirror that follows a run: what it sends, a server that never answers, a full disk, a clock set back."""

import math
import shutil
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from disks import Disk, disk
from isoscope.platform.mirror.follow import Follower, follow
from isoscope.platform.mirror.mlflow import Server, connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.lines import End
from isoscope.platform.runs.record import Record, read, working_seconds
from pipeline_project import wait_for
from tracked_runs import DIGEST, Following, lines, log_epochs, replayed, shown, start, write_record


def test_a_run_is_seen_while_it_goes_and_ends_as_one_replayed(
    project: Path, server: Server, tmp_path: Path, empty_database: Path
) -> None:
    following = Following(project)
    with start(project) as record:
        log_epochs(record, range(1, 2))
        wait_for(lambda: shown(server, "fusion") and shown(server, "fusion")[0]["models"])
        [run] = shown(server, "fusion")
        assert (run["status"], run["metrics"]["train/loss"][-1][0]) == ("RUNNING", 5)
        log_epochs(record, range(2, 4))
        record.end("FINISHED")
    assert following.end() == {}
    assert shown(server, "fusion") == replayed(record.path, tmp_path / "other", empty_database)


def test_only_the_digests_asked_for_and_of_all_none_that_had_ended_before(project: Path, server: Server) -> None:
    write_record(project, digest="aa" * 32)
    following = Following(project)
    with start(project) as record, start(project, digest="bb" * 32, study="other"):
        wait_for(lambda: shown(server, "fusion") and shown(server, "other", "bb" * 32))
        record.end("FINISHED")
    assert following.end() == {}
    assert shown(server, "fusion", "aa" * 32) == []
    with start(project, digest="cc" * 32), start(project, digest="dd" * 32):
        alone = Following(project, digests={"cc" * 32})
        wait_for(lambda: shown(server, "fusion", "cc" * 32))
        assert alone.end() == {}
    assert shown(server, "fusion", "dd" * 32) == []
    write_record(project, digest="ee" * 32)
    assert Following(project, digests={"ee" * 32}).end() == {}
    assert shown(server, "fusion", "ee" * 32), "it ended while the follower was starting"


def test_a_run_started_again_is_taken_up(project: Path, server: Server) -> None:
    path = write_record(project, epochs=1)
    follower = Follower(path.parent, project, None)
    follower.look()
    assert not follower.followed[path].unsent, "it has ended"
    with start(project) as record:
        record.metric("train/loss", 0.1, step=99)
        record.end("FAILED", reason="again")
    follower.look()
    follower.send(math.inf)
    [run] = shown(server, "fusion")
    assert (run["status"], [point[0] for point in run["metrics"]["train/loss"]]) == ("FAILED", [1, 2, 3, 4, 5, 99])


def test_one_refused_record_does_not_hold_up_the_others(
    project: Path, server: Server, capsys: pytest.CaptureFixture[str]
) -> None:
    server.client.delete_experiment(server.client.create_experiment("fusion"))
    following = Following(project)
    with start(project), start(project, digest="bb" * 32, study="other") as other:
        wait_for(lambda: shown(server, "other", "bb" * 32))
        other.metric("train/loss", 1.0, step=0)
        wait_for(lambda: "train/loss" in shown(server, "other", "bb" * 32)[0]["metrics"])
    assert following.end() == {DIGEST: 2}
    assert capsys.readouterr().err.count("mlflow experiments restore") == 1


def test_an_mlflow_that_was_never_away_has_the_patience_of_a_busy_machine(project: Path) -> None:
    """The last try begins with making the database: that may take longer than a server that is away deserves."""
    path = write_record(project)
    options = {"until": lambda: True, "digests": {DIGEST}, "last_try": 0.0}
    cut = follow(path.parent, project, patience=0.0, **options)
    assert cut.away
    assert cut.unsent.keys() == {DIGEST}
    assert follow(path.parent, project, patience=60.0, **options) == ({}, False)


def test_a_server_that_never_answers_costs_the_run_nothing_and_the_end_a_bounded_time(
    project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        following = Following(project, f"http://127.0.0.1:{silent.getsockname()[1]}", last_try=1.0)
        with start(project) as record:
            log_epochs(record, range(1, 3))
            said: list[str] = []
            wait_for(lambda: said.append(capsys.readouterr().err) or "does not answer" in "".join(said))
            record.end("FINISHED")
        assert following.end() == {DIGEST: 19}
    assert following.seconds < 300  # its thread would be waited for twice as long
    assert len("".join(said).splitlines()) == 1


@pytest.fixture
def small(tmp_path: Path, empty_database: Path) -> Iterator[tuple[Disk, Path]]:
    """A disk with a project; its records are elsewhere, as on a machine with a separate disk for the database."""
    with disk(tmp_path / "disk", "16m") as one:
        root = one.folder / "project"
        root.mkdir()
        shutil.copyfile(empty_database, root / "mlflow.db")
        records = tmp_path / "records"
        records.mkdir()
        (root / ".isoscope").mkdir()
        (root / ".isoscope" / "records").symlink_to(records)
        yield one, root


@pytest.mark.parametrize("how", ["full", pytest.param("read-only", marks=pytest.mark.exhaustive)])
def test_the_record_goes_on_and_is_sent_when_there_is_room(
    small: tuple[Disk, Path], tmp_path: Path, empty_database: Path, how: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one, root = small
    trouble = one.filled(leave=0) if how == "full" else one.read_only()
    with trouble:
        following = Following(root)
        with start(root) as record:
            log_epochs(record, range(1, 30))
            said: list[str] = []
            wait_for(
                lambda: (
                    said.append(capsys.readouterr().err)
                    or "the run continues and its record keeps everything" in "".join(said)
                )
            )
            [sent] = mirror(root)
            record.end("FINISHED")
        unsent = following.end()
    assert sent.error is not None
    assert "\n" not in sent.error
    assert unsent == {DIGEST: len(lines(record.path))}, "nothing was sent, and all of it stands"
    assert "Traceback" not in "".join(said)
    # There is room again: one mirroring later MLflow holds what it would have held.
    [sent] = mirror(root)
    assert sent.error is None
    undisturbed = replayed(record.path, tmp_path / "good", empty_database)
    assert shown(connect(None, root), "fusion") == undisturbed != []


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


def test_an_earlier_record_whose_end_lies_before_its_start_has_no_duration_in_mlflow(
    project: Path, server: Server
) -> None:
    record = read(write_record(project, epochs=1))
    record.end = End(record.run.t - YEAR // 10**6, "FINISHED")
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
