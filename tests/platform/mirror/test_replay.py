import shutil
import sys
import time
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.mirror import fields as plan
from isoscope.platform.mirror.errors import RefusedError, UnreachableError
from isoscope.platform.mirror.mlflow import Server, connect, lock
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Tail, read
from tracked_runs import DIGEST, SEND, Struck, log_epochs, replayed, shown, start, together, write_record


def test_mlflow_shows_all_that_the_record_says_however_often_it_is_replayed(project: Path, server: Server) -> None:
    git = Git("1" * 40, "diff --git a/params.yaml b/params.yaml\n+training: {epochs: 2}\n")
    path = write_record(project, git=git)
    record = read(path)
    sent = Mirror(server).send(record)
    [run] = shown(server, "fusion")
    assert (run["name"], run["status"]) == ("additive seed 0", "FINISHED")
    assert (run["start"], run["end"]) == (record.run.t, record.end.t)
    assert run["params"] == plan.params(record.run)
    assert plan.tags(record, record.run).items() <= run["tags"].items()
    assert run["tags"]["mlflow.source.git.diff"] == git.diff
    for name in ("train/loss", "validation/accuracy"):
        points = [point for point in record.metrics if point.name == name]
        assert run["metrics"][name] == [(point.step, point.t, repr(point.value)) for point in points]
    assert run["inputs"] == [
        (f"order/{split}", split[0] * 32, f'{{"uri": "data/processed/order/{split}.parquet"}}', '{"num_rows": 10}', use)
        for split, use in (("train", "training"), ("validation", "validation"))
    ]
    assert run["outputs"] == [(5, "additive seed 0 epoch-1"), (10, "additive seed 0 epoch-2")]
    assert [model["status"] for model in run["models"]] == ["READY", "READY"]
    assert run["models"][1]["params"]["md5"] == f"{2:032x}.dir"
    assert run["models"][1]["params"]["dvc_path"] == "models/fusion/additive/seed-0/checkpoints/epoch-2"
    assert [(key, step, value) for key, step, _, value in run["models"][1]["metrics"]] == [
        ("validation/accuracy", 10, 0.75),
        ("validation/loss", 10, 1.0),
    ]
    assert [name for name, _ in run["artifacts"]] == ["config.yaml", "diff.patch"]
    assert {"metrics": 14, "models": 2, "data sets": 2, "artifacts": 2}.items() <= sent.new.items()
    for _ in range(2):
        assert not Mirror(server).send(read(path)).new.total()
        assert shown(server, "fusion") == [run]


def test_a_record_mirrored_as_it_grows_ends_as_one_replayed_at_once(
    project: Path, server: Server, tmp_path: Path, empty_database: Path
) -> None:
    whole = write_record(project, git=Git("1" * 40, "+x\n")).read_bytes().splitlines(keepends=True)
    growing = tmp_path / f"{DIGEST}.jsonl"
    tail, live = Tail(growing), Mirror(server)
    with growing.open("ab", buffering=0) as file:
        for number, line in enumerate(whole):
            file.write(line)
            tail.poll()
            live.send(tail.record)
            if number % 5 == 0:  # another process at times, which knows nothing
                Mirror(server).send(read(growing))
    assert shown(server, "fusion") == replayed(growing, tmp_path / "other", empty_database)


def test_past_its_deadline_a_mirror_begins_no_request(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_record(project, epochs=1)
    live = Mirror(server)
    live.send(read(path))
    with start(project) as record:
        log_epochs(record, range(1, 4))
        record.end("FINISHED")
    begun = []
    monkeypatch.setattr(server, "find", lambda *wanted: begun.append(wanted))
    with pytest.raises(UnreachableError, match="no time left"):
        live.send(read(path), deadline=time.monotonic())
    assert not begun


def die() -> None:
    """Stand in for the kill of the process."""
    raise KeyboardInterrupt


def test_killed_before_any_request_a_replay_completes_the_same(
    project: Path, server: Server, tmp_path: Path, empty_database: Path
) -> None:
    path = write_record(project, epochs=1, git=Git("1" * 40, "+x\n"))
    Mirror(server).send(read(path))
    expected = shown(server, "fusion")
    kills = 0
    for last in range(100):
        root = tmp_path / str(last)
        root.mkdir()
        shutil.copyfile(empty_database, root / "mlflow.db")
        hurt = connect(None, root)
        client, hurt.client = hurt.client, Struck(hurt.client, last, die)
        try:
            Mirror(hurt).send(read(path))
        except KeyboardInterrupt:
            kills += 1
            hurt.client = client
            Mirror(hurt).send(read(path))
            assert shown(hurt, "fusion") == expected
            shutil.rmtree(root)
            continue
        break
    assert kills > 15


def test_four_processes_at_once_share_a_fresh_database(tmp_path: Path) -> None:
    shared = write_record(tmp_path, digest="aa" * 32, epochs=1)
    own = [write_record(tmp_path, digest=f"b{number}" * 32, epochs=1, seed=number) for number in range(4)]
    said = together(SEND, *((tmp_path, "", shared, path) for path in own))
    ids = [text.split() for text in said]
    assert len({shared_id for shared_id, _ in ids}) == 1
    assert len({own_id for _, own_id in ids}) == 4
    server = connect(None, tmp_path)
    assert len(shown(server, "fusion", "aa" * 32)) == 1
    assert not Mirror(server).send(read(shared)).new.total()


def test_an_inherited_run_id_means_nothing(project: Path, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    around = server.client.create_run("0", run_name="mlflow run")
    monkeypatch.setenv("MLFLOW_RUN_ID", around.info.run_id)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_ID", "0")
    with start(project) as record:
        record.attempt(git=Git("1" * 40), environment={}, parent_run=around.info.run_id)
        record.end("FINISHED")
    sent = Mirror(connect(None, project)).send(read(record.path))
    assert sent.new["runs"] == 1
    assert sent.run_id != around.info.run_id
    [run] = shown(server, "fusion")
    assert run["tags"]["mlflow.parentRunId"] == around.info.run_id
    untouched = server.client.get_run(around.info.run_id)
    assert (untouched.info.status, untouched.data.params, untouched.data.metrics) == ("RUNNING", {}, {})


def test_status_follows_the_record_and_leaves_nothing_stale(project: Path, server: Server) -> None:
    seen = []
    path = project / ".isoscope" / "records" / f"{DIGEST}.jsonl"
    for status, reason in (("KILLED", "SIGTERM"), ("FAILED", "loss is NaN"), ("FINISHED", None)):
        with start(project, git=Git("1" * 40, f"+{status}\n")) as record:
            Mirror(server).send(read(path))
            seen.append(shown(server, "fusion")[0]["status"])
            record.end(status, reason=reason)
        Mirror(server).send(read(path))
        [run] = shown(server, "fusion")
        seen.append((run["status"], run["tags"].get("isoscope.reason")))
        assert run["end"] == read(path).end.t
    assert seen == [
        "RUNNING",
        ("KILLED", "SIGTERM"),
        "RUNNING",
        ("FAILED", "loss is NaN"),
        "RUNNING",
        ("FINISHED", None),
    ]
    assert run["tags"]["isoscope.attempts"] == "3"
    with start(project, git=Git("2" * 40)) as record:
        Mirror(server).send(read(path))
        record.end("FINISHED")
    Mirror(server).send(read(path))
    [run] = shown(server, "fusion")
    assert (run["status"], run["tags"]["mlflow.source.git.commit"]) == ("FINISHED", "1" * 40)


def test_odd_values_and_names_and_amounts_arrive(project: Path, server: Server) -> None:
    odd = {f"layer[{number}]": "v" * 6000 for number in range(230)}
    with start(project, params=odd) as record:
        for step in range(2300):
            record.metric("many", float(step), step=step)
        for step, value in enumerate((float("nan"), float("inf"), -float("inf"), 5e-324)):
            record.metric(f"last/{step}", value, step=step)
            record.metric("odd@value", value, step=step)
        record.checkpoint("x", epoch=None, step=0, path="p", md5="m", metrics={"odd@value": float("nan"), "many": 3.0})
    sent = Mirror(server).send(read(record.path))
    assert {"metrics": 2308, "params": 230 + 5}.items() <= sent.new.items()
    [run] = shown(server, "fusion")
    [name] = {one for one in run["metrics"] if one.startswith("odd")}
    largest = repr(sys.float_info.max)
    assert [value for _, _, value in run["metrics"][name]] == ["nan", largest, f"-{largest}", "5e-324"]
    assert [metric[0] for metric in run["models"][0]["metrics"]] == ["many"]
    assert not Mirror(server).send(read(record.path)).new.total()
    here = read(record.path)
    assert server.told({DIGEST})[DIGEST] == plan.told(here.status, here.metrics), "an audit compares what MLflow keeps"


def test_a_missing_artifact_holds_nothing_up(project: Path, server: Server) -> None:
    with start(project) as record:
        (project / "a.txt").write_text("a")
        (project / "b.txt").write_text("b")
        record.artifact(project / "a.txt")
        record.artifact(project / "b.txt", name="notes/deep/b.txt")
        record.artifact(project / "a.txt", name="renamed.txt")
        record.end("FINISHED")
    (project / "a.txt").unlink()
    sent = Mirror(server).send(read(record.path))
    [run] = shown(server, "fusion")
    assert (run["status"], [name for name, _ in run["artifacts"]]) == ("FINISHED", ["notes"])
    assert [item.path for item in server.client.list_artifacts(sent.run_id or "", "notes/deep")] == ["notes/deep/b.txt"]
    (project / "b.txt").write_text("B")
    assert Mirror(server).send(read(record.path)).new == {"opening the run": 0, "artifacts": 1}


def test_the_record_takes_the_place_of_what_was_restored(project: Path, server: Server) -> None:
    record = read(write_record(project))
    stand_in = RunRecord(**{**vars(record), "restored": True, "attempts": [], "path": None})
    first = Mirror(server).send(stand_in)
    assert shown(server, "fusion")[0]["tags"]["isoscope.timestamps"] == "restored"
    assert not Mirror(server).send(stand_in).new.total()
    second = Mirror(server).send(record)
    assert second.run_id != first.run_id
    [run] = shown(server, "fusion")
    assert "isoscope.timestamps" not in run["tags"]
    again = Mirror(server).send(stand_in)
    assert (again.new.total(), again.run_id) == (0, second.run_id)
    assert shown(server, "fusion") == [run]


def test_what_cannot_be_mirrored_says_why(project: Path, server: Server, tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="first line is missing"):
        Mirror(server).send(RunRecord())
    folders = ("sqlite:///", "sqlite://", f"sqlite:///{tmp_path}")
    for uri in ("./mlruns", "file:///tmp/mlruns", "http://[::1", "sqlite://[::1", "sqlite://host:port/x", *folders):
        with pytest.raises(InputError, match="unset it, or give"):
            connect(uri, project)
    (tmp_path / "no_folder").touch()
    with pytest.raises(UnreachableError, match="no_folder"):
        connect(f"sqlite:///{tmp_path}/no_folder/mlflow.db", project)
    (tmp_path / "text.db").write_text("this is no database" * 100)
    with pytest.raises(UnreachableError, match="not a database"):
        connect(f"sqlite:///{tmp_path / 'text.db'}", project)
    write_record(project)
    [sent] = mirror(project, uri=f"sqlite:///{tmp_path / 'text.db'}")
    assert "not a database" in (sent.error or "")


def test_a_relative_database_lies_in_the_project(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "sqlite:///mlflow.db")
    assert connect(None, project).uri == f"sqlite:///{project}/mlflow.db"
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert connect(None, project).uri == f"sqlite:///{project}/mlflow.db"
    assert list(tmp_path.iterdir()) == [project]


@pytest.mark.parametrize("name", ["my%20files", "100%", "who?", "a%41?b=c", "#1 é"])
def test_a_database_lies_in_the_project_whatever_its_folder_is_called(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    odd = project.rename(project.with_name(name))
    (odd / "mlflow.db").rename(odd / "other.db")
    write_record(odd)
    for uri in ("sqlite:///other.db", None):  # an existing database, and a new one
        [sent] = mirror(odd, uri=uri)
        assert sent.error is None
        assert sent.new.total() > 0
    assert {file.name for file in odd.glob("*.db")} == {"mlflow.db", "other.db"}
    assert list(tmp_path.iterdir()) == [odd], "nothing is made beside it"
    assert plan.known_experiments(odd, None).keys() == {"fusion"}


def test_an_experiment_of_the_local_database_is_not_noted_for_the_server_of_the_environment(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_record(project)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    mirror(project, uri="sqlite:///mlflow.db")
    assert plan.known_experiments(project, None) == {}
    assert plan.known_experiments(project, "mlflow.db").keys() == {"fusion"}


def test_runs_of_one_digest_in_two_studies_are_two(project: Path, server: Server) -> None:
    record = read(write_record(project))
    Mirror(server).send(record)
    record.run = record.run._replace(study="remedies", arm="plain")
    assert Mirror(server).send(record).new["runs"] == 1
    assert len(shown(server, "fusion")) == len(shown(server, "remedies")) == 1


def test_a_checkpoint_is_what_mlflow_calls_an_external_model(
    project: Path, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    import mlflow

    monkeypatch.setenv("MLFLOW_TRACKING_URI", server.uri)
    run_id = Mirror(server).send(read(write_record(project, epochs=1))).run_id or ""
    experiment = server.client.get_run(run_id).info.experiment_id
    [own] = server.models(experiment, run_id)
    theirs = mlflow.create_external_model("reference", source_run_id=run_id, experiment_id=experiment)
    flag = "mlflow.model.isExternal"
    assert (own.tags[flag], str(own.status)) == (theirs.tags[flag], str(theirs.status))
    files = [[item.path for item in server.client.list_logged_model_artifacts(m.model_id)] for m in (own, theirs)]
    assert files[0] == files[1] == ["MLmodel"]


def test_a_run_that_another_process_mirrors_is_waited_for_no_longer_than_given(project: Path, server: Server) -> None:
    record = read(write_record(project))
    with lock(project, DIGEST[:16]), pytest.raises(UnreachableError, match="another process"):
        Mirror(server).send(record, deadline=time.monotonic() + 0.2)
    assert shown(server, "fusion") == []
