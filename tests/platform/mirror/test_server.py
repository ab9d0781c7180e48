"""MLflow as a server, as PostgreSQL and as a database in the making: each shows what SQLite shows, or nothing."""

import http.server
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import read
from pipeline_project import wait_for
from postgres import PostgreSQL
from tracked_runs import DIGEST, SEND, Following, log_epochs, shown, start, together, write_record


def test_a_server_shows_what_a_database_shows(project: Path, mlflow_server: Any) -> None:
    path = write_record(project, git=Git("1" * 40, "+ü\n" * 4000))
    with start(project) as record:
        for step, value in enumerate((float("nan"), float("inf"), -float("inf"), 5e-324, 0.1 + 0.2)):
            record.metric("odd", value, step=step)
        record.end("FINISHED")
    direct, served = connect(None, project), connect(mlflow_server.uri, project)
    Mirror(direct).send(read(path))
    Mirror(served).send(read(path))
    expected = shown(direct, "fusion")
    assert len(expected) == 1
    assert shown(served, "fusion") == expected
    sent = Mirror(served).send(read(path))
    assert sent.new.total() == 0
    assert shown(served, "fusion") == expected


def test_a_server_dead_and_back_has_missed_nothing(
    project: Path, mlflow_server: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    digest = "de" * 32
    following = Following(project, mlflow_server.uri)
    served = connect(mlflow_server.uri, project)
    with start(project, digest=digest) as record:
        log_epochs(record, range(1, 2))
        wait_for(lambda: shown(served, "fusion", digest))
        mlflow_server.stop()
        log_epochs(record, range(2, 4))
        said: list[str] = []
        wait_for(lambda: said.append(capsys.readouterr().err) or "does not answer" in "".join(said))
        [sent] = mirror(project, uri=mlflow_server.uri)
        assert sent.error is not None
        mlflow_server.start()
        wait_for(lambda: said.append(capsys.readouterr().err) or "is back" in "".join(said))
        record.end("FINISHED")
    assert following.end() == {}
    assert len("".join(said).splitlines()) == 2
    direct = connect(None, project)
    Mirror(direct).send(read(record.path))
    assert shown(served, "fusion", digest) == shown(direct, "fusion", digest)


class Broken(http.server.BaseHTTPRequestHandler):
    def answer(self) -> None:
        self.send_response(500)
        self.end_headers()

    do_GET = do_POST = do_PATCH = answer  # noqa: N815

    def log_message(self, *args: Any) -> None:
        pass


@pytest.fixture
def broken() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_that_answers_500_is_one_that_is_away(project: Path, broken: str) -> None:
    write_record(project)
    write_record(project, digest="aa" * 32)
    first, second = mirror(project, uri=broken)
    assert first.error is not None
    assert first.error == second.error
    assert {first.digest, second.digest} == {DIGEST, "aa" * 32}
    assert "\n" not in first.error


@pytest.mark.postgresql
def test_postgresql_shows_what_sqlite_shows(project: Path, postgres: PostgreSQL) -> None:
    path = write_record(project)
    together(SEND, *2 * [(project, postgres.url, path)])
    direct, large = connect(None, project), connect(postgres.url, project)
    Mirror(direct).send(read(path))
    expected = shown(direct, "fusion")
    assert len(expected) == 1
    assert shown(large, "fusion") == expected
    sent = Mirror(large).send(read(path))
    assert (sent.digest, sent.new.total()) == (DIGEST, 0)


MAKE = "from pathlib import Path; from isoscope.platform.mirror.mlflow import connect; connect(None, Path({!r}))"


def test_a_kill_while_the_schema_is_made_leaves_no_half_database(tmp_path: Path) -> None:
    making = tmp_path / "mlflow.db.making"
    process = subprocess.Popen([sys.executable, "-c", MAKE.format(str(tmp_path))])
    wait_for(lambda: making.exists() and making.stat().st_size > 0)
    process.kill()
    process.wait()
    assert not (tmp_path / "mlflow.db").exists()
    server = connect(None, tmp_path)
    assert [experiment.name for experiment in server.client.search_experiments()] == ["Default"]
    assert not list(tmp_path.glob("mlflow.db.*"))
    server.client._tracking_client.store.engine.dispose()
