"""An MLflow server with a password, behind a prefix: what is said without the password, and where it must not stand."""

import base64
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest

from mlflow_server import MlflowServer
from pipeline_project import Finished, Project

USER, PASSWORD = "ada", "Wheel-of-1843@Engine"
LETTERS = (PASSWORD, quote(PASSWORD, safe=""), base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode())
"""The password as people write it, in an address, and in a header."""
GIVEN = {"MLFLOW_TRACKING_USERNAME": USER, "MLFLOW_TRACKING_PASSWORD": PASSWORD}
NAMED = ("MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MlflowServer]:
    folder = tmp_path_factory.mktemp("server")
    settings = {
        "default_permission": "READ",
        "database_uri": f"sqlite:///{folder / 'auth.db'}",
        "admin_username": USER,
        "admin_password": PASSWORD,
        "authorization_function": "mlflow.server.auth:authenticate_request_basic_auth",
    }
    lines = ["[mlflow]", *(f"{name} = {value}" for name, value in settings.items())]
    (folder / "auth.ini").write_text("\n".join(lines) + "\n", "utf-8")
    environment = {"MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"), "MLFLOW_FLASK_SERVER_SECRET_KEY": "signs"}
    made = MlflowServer(folder, "--app-name", "basic-auth", prefix="/tracking", environment=environment)
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Data and tables without their runs: each request is slow, because the server hashes the password each time."""
    return finished.project.copy(tmp_path_factory.mktemp("copy") / "project", without=("models", ".isoscope"))


def places(folder: Path) -> list[str]:
    """The files below a folder that hold the password in any of its forms."""
    found = []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        content = path.read_bytes()
        if any(form.encode() in content for form in LETTERS):
            found.append(path.relative_to(folder).as_posix())
    return found


def status(address: str, password: str | None = None) -> int:
    """The status with which a server answers, for a user with this password."""
    request = urllib.request.Request(address)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"{USER}:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_without_the_password_a_run_is_trained_and_one_line_says_what_to_set(
    project: Project, server: MlflowServer
) -> None:
    for wrong in ({}, {**GIVEN, "MLFLOW_TRACKING_PASSWORD": "another"}):
        seed = str(7 + len(wrong))
        done = project.isoscope("train", "fusion", "additive", "--seed", seed, MLFLOW_TRACKING_URI=server.uri, **wrong)
        said = [line for line in done.err.splitlines() if "401" in line]
        assert len(said) == 1
        assert "MLflow cannot be used; the run continues and its record keeps everything" in said[0]
        assert all(name in said[0] for name in NAMED)
        assert "Traceback" not in done.err
        assert "another" not in said[0]


def test_the_mirror_without_the_password_is_refused_in_one_line(project: Project, server: MlflowServer) -> None:
    line = project.refused("mirror", "--uri", server.uri)
    assert all(name in line for name in (*NAMED, "401"))


def test_with_the_password_everything_is_sent_that_was_kept(project: Project, server: MlflowServer) -> None:
    found = json.loads(project.isoscope("mirror", "--json", MLFLOW_TRACKING_URI=server.uri, **GIVEN).out)
    assert found["runs"] == len(project.records()) + 1, "and the analysis, which is known by its output"
    assert found["points"] > 0
    again = json.loads(project.isoscope("mirror", "--json", MLFLOW_TRACKING_URI=server.uri, **GIVEN).out)
    assert (again["points"], again["models"]) == (0, 0)


def test_with_the_password_in_the_address_a_run_is_mirrored_while_it_trains(
    project: Project, server: MlflowServer
) -> None:
    uri = server.uri.replace("http://", f"http://{USER}:{quote(PASSWORD, safe='')}@")
    done = project.isoscope("train", "fusion", "conv2d", "--seed", "9", MLFLOW_TRACKING_URI=uri)
    assert "mirror" not in done.err
    sent = project.isoscope("mirror", "--json", MLFLOW_TRACKING_URI=uri)
    assert json.loads(sent.out)["points"] == 0
    server.stop()
    said = project.refused("mirror", MLFLOW_TRACKING_URI=uri)
    server.start()
    for text in (done.out, done.err, sent.out, sent.err, said):
        assert not any(form in text for form in LETTERS)
    assert f"127.0.0.1:{server.port}/tracking" in said


def test_the_report_links_to_the_prefix_without_the_password(project: Project, server: MlflowServer) -> None:
    uri = server.uri.replace("http://", f"http://{USER}:{quote(PASSWORD, safe='')}@")
    project.isoscope("report", MLFLOW_TRACKING_URI=uri)
    page = project.text("reports/index.html")
    links = set(re.findall(r'href="(http://127[^"#]*)#', page))
    assert links == {f"{server.uri}/"}
    assert status(f"{server.uri}/") == 401
    assert status(f"{server.uri}/", PASSWORD) == 200
    assert status(f"{server.uri.removesuffix('/tracking')}/elsewhere/", PASSWORD) == 404


def test_the_password_stands_in_no_file_of_the_project(project: Project, server: MlflowServer, tmp_path: Path) -> None:
    """Records, outputs, reports, notes, DVC's and git's files, after all that was done above."""
    assert places(project.folder) == []
    assert places(server.folder) != [], "the server's own settings have it"
    for number, form in enumerate(LETTERS):
        (tmp_path / f"{number}.txt").write_text(f"password {form}\n", "utf-8")
    assert len(places(tmp_path)) == len(LETTERS)
