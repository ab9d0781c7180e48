"""Servers, stores, records and notes that the mirror cannot use: one line with the cause; no other run waits."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mlflow.entities import LoggedModel
from mlflow.store.entities import PagedList

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.mirror import replay
from isoscope.platform.mirror.fields import Model, known_experiments, models
from isoscope.platform.mirror.follow import follow
from isoscope.platform.mirror.mlflow import Server, connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.locks import HeldError, Lease
from isoscope.platform.runs.record import read
from isoscope.platform.stages.mirror import mirror_all, serve
from tracked_runs import DIGEST, SEND, Struck, shown, together, write_record

OTHER = "aa" * 32


@pytest.mark.parametrize(
    "store, cause",
    [
        ("s3://bucket/runs", "pip install boto3"),
        ("gs://bucket/runs", "google"),
        ("odd://bucket/runs", "odd"),
        ("file:///proc/nowhere", "nowhere"),
    ],
)
def test_a_store_that_cannot_be_used_costs_a_run_its_files_only(
    project: Path, server: Server, capsys: pytest.CaptureFixture[str], store: str, cause: str
) -> None:
    server.client.create_experiment("fusion", artifact_location=store)
    write_record(project)
    write_record(project, digest="bb" * 32)
    write_record(project, digest=OTHER, study="zeta")
    with pytest.raises(InputError, match=r"^2 of 3 runs were not sent to MLflow"):
        mirror_all(Project(project, project), None)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(cause in line for line in lines)
    assert all(f"its artifacts cannot be stored in {store}" in line for line in lines)
    for digest, study in ((DIGEST, "fusion"), ("bb" * 32, "fusion"), (OTHER, "zeta")):
        [run] = server.client.search_runs([server.experiment(study)], f"tags.`isoscope.digest` = '{digest}'")
        assert (run.info.status, run.data.metrics["train/loss"]) == ("FINISHED", 0.1)


@pytest.mark.parametrize("names", [["mine"], ["mine", "a/b", "slide 3"]])
def test_an_experiment_renamed_in_mlflow_keeps_its_runs(project: Path, server: Server, names: list[str]) -> None:
    path = write_record(project)
    first = Mirror(server).send(read(path))
    for name in names:
        server.client.rename_experiment(server.experiment("fusion"), name)
        again = Mirror(connect(None, project)).send(read(path))
        assert (again.run_id, again.new.total()) == (first.run_id, 0)
        write_record(project, digest=OTHER)
        mirror(project)
        assert {one.name for one in server.experiments()} == {"Default", name}


def test_a_renamed_experiment_whose_name_is_anothers_or_that_was_deleted_is_refused_with_the_cure(
    project: Path, server: Server
) -> None:
    write_record(project)
    mirror(project)
    known = server.experiment("fusion")
    server.client.rename_experiment(known, "old")
    other = write_record(project, digest=OTHER, study="old")
    [error] = [sent.error for sent in mirror(project) if sent.error]
    assert "'old' holds the runs of 'fusion'; give it another name there" in error
    other.unlink()
    server.client.delete_experiment(known)
    [sent] = mirror(project)
    assert f"mlflow experiments restore --experiment-id {known}" in (sent.error or "")


@pytest.mark.parametrize("revision", ["0c779009ac13", "deadbeef0000"])
def test_a_database_of_another_mlflow_is_named_with_the_command(project: Path, revision: str) -> None:
    write_record(project)
    with sqlite3.connect(project / "mlflow.db") as database:
        database.execute("update alembic_version set version_num = ?", (revision,))
    command = [sys.executable, "-c", "import sys; from isoscope.platform.cli import main; main()", "mirror"]
    for name in ("params.yaml", "dvc.yaml"):
        (project / name).write_text("{}\n")
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=300)
    [line] = done.stderr.splitlines()
    assert done.returncode == 2
    assert f"run: mlflow db upgrade sqlite:///{project}/mlflow.db" in line
    assert "does not answer" not in line


@pytest.mark.parametrize("count", [1, 3])
def test_no_server_is_one_line_that_says_what_to_do(project: Path, count: int) -> None:
    for number in range(count):
        write_record(project, digest=f"{number:02x}" * 32)
    with pytest.raises(InputError) as refused:
        mirror_all(Project(project, project), "http://somebody:pa55word@127.0.0.1:9")
    assert str(refused.value) == (
        "MLflow does not answer at http://127.0.0.1:9 (Failed to establish a new connection: [Errno 111] Connection "
        f"refused); {count} of {count} runs were not sent. Start that server, or name another (--uri or "
        "MLFLOW_TRACKING_URI), then run: isoscope mirror"
    )


@pytest.mark.parametrize(
    "uri",
    [
        "http://somebody:pa55word@127.0.0.1:9",
        "postgresql://somebody:pa55word@127.0.0.1:9/runs",
        "odd://somebody:pa55word@127.0.0.1:9/runs",
        "file://somebody:pa55word@127.0.0.1/runs",
        "mysql://somebody:pa55word@127.0.0.1:9/runs",
    ],
)
def test_no_error_repeats_a_password(project: Path, monkeypatch: pytest.MonkeyPatch, uri: str) -> None:
    write_record(project)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    for act in (lambda one: serve(one, 40404), lambda one: mirror_all(one, None)):
        with pytest.raises(InputError) as refused:
            act(Project(project, project))
        assert "pa55word" not in str(refused.value)
        assert "\n" not in str(refused.value)


def test_projects_without_a_common_lock_send_one_run_once(project: Path, server: Server, tmp_path: Path) -> None:
    """Each has locks of its own, as on two machines."""
    roots = [tmp_path / f"clone-{number}" for number in range(3)]
    for root in roots:
        root.mkdir()
    together(SEND, *((root, server.uri, write_record(root), write_record(root, digest=OTHER)) for root in roots))
    mirror(roots[0], uri=server.uri)
    for digest in (DIGEST, OTHER):
        [run] = shown(server, "fusion", digest)
        assert (run["status"], len(run["models"])) == ("FINISHED", 2)


@pytest.mark.parametrize("before", [0, 6, 12, 18, 21])
def test_a_project_that_comes_between_two_requests_changes_nothing(project: Path, tmp_path: Path, before: int) -> None:
    path = write_record(project)
    one = connect(None, project)
    (tmp_path / "other").mkdir()
    other = connect(one.uri, tmp_path / "other")
    once = cache(lambda: Mirror(other).send(read(path)))
    one.client = Struck(one.client, before, once)
    Mirror(one).send(read(path))
    [run] = shown(connect(None, project), "fusion")
    assert run["status"] == "FINISHED"
    assert [model["status"] for model in run["models"]] == ["READY", "READY"]


class Hiding:
    """A client that does not see a model yet that another project has created: what a slow commit does."""

    def __init__(self, server: Server, hidden: LoggedModel) -> None:
        self._client, self._hidden = server.client, hidden.model_id

    def __getattr__(self, name: str) -> object:
        return getattr(self._client, name)

    def search_logged_models(self, *args: Any, **kwargs: Any) -> PagedList[LoggedModel]:
        found = self._client.search_logged_models(*args, **kwargs)
        return PagedList([model for model in found if model.model_id != self._hidden], found.token)


@pytest.mark.parametrize("linked", [True, False], ids=["links its own", "stops before"])
def test_projects_that_create_one_model_at_once_keep_the_same(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, linked: bool
) -> None:
    """The other project creates a model later, but does not see the first: only a link shows that it keeps its own."""
    path = write_record(project)
    one = connect(None, project)
    (tmp_path / "other").mkdir()
    other = connect(one.uri, tmp_path / "other")
    create, others = one.create_model, []
    monkeypatch.setattr(replay, "WAITS", [one / 10 for one in replay.WAITS])

    def created(experiment: str, run_id: str, model: Model) -> LoggedModel:
        own = create(experiment, run_id, model)
        if linked:
            other.client = Hiding(other, own)
            monkeypatch.setattr(one, "create_model", create)
            Mirror(other).send(read(path))
        else:
            others.append(other.create_model(experiment, run_id, model).model_id)
        return own

    monkeypatch.setattr(one, "create_model", created)
    Mirror(one).send(read(path))
    server = connect(one.uri, project)
    for model in others:
        server.client.delete_logged_model(model)
    [run] = shown(server, "fusion")
    assert [model["status"] for model in run["models"]] == ["READY", "READY"]
    assert len(run["outputs"]) == 2


def test_of_several_models_that_nobody_has_linked_none_is_taken_until_one_is(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of two other projects has not seen the model of the first, and is about to link its own."""
    path = write_record(project)
    server, others = connect(None, project), dict[str, list[str]]()
    create, wait = server.create_model, time.sleep

    def created(experiment: str, run_id: str, model: Model) -> LoggedModel:
        for _ in range(2):
            others.setdefault(model.key, []).append(create(experiment, run_id, model).model_id)
            wait(0.002)  # the models are in the order of their times
        return create(experiment, run_id, model)

    def link(seconds: float) -> None:
        [run] = server.find({"fusion"}, DIGEST)
        for second in {second for _, second in others.values()} - run.outputs:
            server.log_output(run.run_id, second, 1)

    monkeypatch.setattr(server, "create_model", created)
    monkeypatch.setattr(replay.time, "sleep", link)
    Mirror(server).send(read(path))
    [run] = server.find({"fusion"}, DIGEST)
    assert run.outputs == {second for _, second in others.values()}


def test_of_two_linked_models_of_a_checkpoint_the_first_stays(project: Path, server: Server) -> None:
    path = write_record(project)
    Mirror(server).send(read(path))
    [run] = server.find({"fusion"}, DIGEST)
    record = read(path)
    assert record.run is not None
    for model in models(record, record.run):
        second = server.create_model(run.experiment, run.run_id, model)
        server.log_output(run.run_id, second.model_id, model.step)
    every = server.models(run.experiment, run.run_id)
    assert [one.model_id in run.outputs for one in every] == [True, True, False, False]
    Mirror(connect(None, project)).send(record)
    assert [one.model_id for one in server.models(run.experiment, run.run_id)] == [one.model_id for one in every[:2]]


def test_a_model_that_another_project_deletes_meanwhile_is_made_again(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, deleted = write_record(project), list[str]()
    finish = server.finish_model

    def finished(model: LoggedModel) -> LoggedModel:
        if not deleted:
            deleted.append(model.model_id)
            server.client.delete_logged_model(model.model_id)
        return finish(model)

    monkeypatch.setattr(server, "finish_model", finished)
    Mirror(server).send(read(path))
    [run] = shown(server, "fusion")
    assert [model["status"] for model in run["models"]] == ["READY", "READY"]
    assert deleted


DAMAGE: list[str | Callable[[Path], None]] = ["[]", "{", "3", '{"mlflow.db": []}', "\udcff", Path.mkdir, os.mkfifo]
"""The text of a note, or what stands in its place."""


@pytest.mark.parametrize("harm", DAMAGE, ids=lambda harm: getattr(harm, "__name__", harm))
def test_damaged_notes_are_named_once_and_stop_nothing(
    project: Path, server: Server, harm: str | Callable[[Path], None], capsys: pytest.CaptureFixture[str]
) -> None:
    path = write_record(project, epochs=1)
    notes = [project / ".isoscope" / name for name in ("experiments.json", "mirrored.json")]
    for note in notes:
        if isinstance(harm, str):
            note.write_bytes(harm.encode("utf-8", "surrogateescape"))
        else:
            harm(note)
    ended = follow(path.parent, project, until=lambda: True, digests={DIGEST})
    assert (ended.unsent, ended.away) == ({}, False)
    for _ in range(2):
        assert mirror_all(Project(project, project), None)["runs"] == 1
    said = capsys.readouterr().err.splitlines()
    why = "" if isinstance(harm, str) else "no regular file)"
    assert [line.startswith(f"warning: {note}: damaged ({why}") for note, line in zip(notes, said, strict=True)] == [
        True
    ] * 2
    [run] = shown(server, "fusion")
    assert run["status"] == "FINISHED"
    if harm == Path.mkdir:
        assert all(note.is_dir() for note in notes)
    else:
        assert all(isinstance(json.loads(note.read_text("utf-8")), dict) for note in notes), "written anew"
        assert known_experiments(project, None).keys() == {"fusion"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"pid": 1, "host": "h", "since": "x"}', "x"])
def test_a_lease_whose_note_is_damaged_is_held_all_the_same(tmp_path: Path, text: str) -> None:
    with Lease(tmp_path):
        (tmp_path / "lease.json").write_text(text)
        with pytest.raises(HeldError, match="held by an unknown process"):
            Lease(tmp_path)
