"""Nothing is lost or counted twice, whichever process dies: a search of short sleeps, killed at random."""

import collections
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from isoscope.platform.mirror.mlflow import Server, connect
from isoscope.platform.mirror.replay import mirror
from mlflow_server import MlflowServer
from postgres import PostgreSQL
from search_under_way import STATES, begin, check, children, ended, in_state, kill, tree, trials_of, wait

DEATHS = (signal.SIGKILL, signal.SIGKILL, signal.SIGTERM)


def mirrored(folder: Path, trials: int) -> None:
    """In MLflow, too, each trial is one run, and no run stays RUNNING."""
    assert not [one.error for one in mirror(folder) if one.error]
    mirror(folder)
    assert shown(connect(None, folder)) == {"FINISHED": trials}


def shown(server: Server) -> dict[str, int]:
    """Return the trials in MLflow by status; each is one run."""
    runs = server.client.search_runs([server.experiment("search-sleep")], "tags.`optuna.trial` != ''", max_results=1000)
    assert len({run.data.tags["optuna.trial"] for run in runs}) == len(runs)
    return collections.Counter(run.info.status for run in runs)


def under_way(folder: Path) -> int:
    """Steps done of the run that is not at its end, of ten."""
    return sum(int(file.read_text()) for file in (folder / "runs").glob("*.json")) % 10


def strike(process: subprocess.Popen[str], kills: int, *, seed: int) -> None:
    """Kill runs of trials at random times during the search."""
    random.seed(seed)
    while kills and process.poll() is None:
        time.sleep(random.uniform(0.05, 0.4))
        victims = tree(process.pid)[1:]
        if victims:
            kill(random.choice(victims))
            kills -= 1


@pytest.mark.slow
@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_nothing_is_lost_and_nothing_counted_twice(
    where: str, tmp_path: Path, request: pytest.FixtureRequest, pytestconfig: pytest.Config
) -> None:
    """Killed at random: runs of trials, the driver alone, and the driver with its runs at once."""
    exhaustive = pytestconfig.getoption("--exhaustive")
    trials, kills, wholes = (200, 20, 9) if exhaustive else (20, 4, 3)
    url = request.getfixturevalue("postgres").url if where == "postgresql" else None
    given = {"trials": trials, "workers": 4, "seconds": 0.6 if exhaustive else 1, "steps": 4, "url": url}
    given |= {"changed": {"retries": 30}}
    for whole in range(wholes):
        process = begin(tmp_path, **given)
        wait(process, lambda: len(tree(process.pid)) > 1)  # noqa: B023
        strike(process, -(-kills // wholes), seed=whole)
        assert process.poll() is None, process.communicate()
        kill(*tree(process.pid)[: 1 if whole % 2 else None], number=DEATHS[whole % 3])
        process.communicate()
    ended(begin(tmp_path, **given))
    check(tmp_path, trials, url)
    mirrored(tmp_path, trials)


@pytest.mark.postgresql
@pytest.mark.slow
def test_postgresql_restarts_in_mid_study(tmp_path: Path, postgres: PostgreSQL) -> None:
    process = begin(tmp_path, trials=20, workers=3, seconds=0.2, url=postgres.url)
    for _ in range(2):
        done = len(in_state(STATES.COMPLETE, tmp_path, postgres.url))
        wait(process, lambda: len(in_state(STATES.COMPLETE, tmp_path, postgres.url)) > done + 4)  # noqa: B023
        postgres.stop()
        time.sleep(1)
        postgres.start()
    assert "waiting for it" in ended(process)
    check(tmp_path, 20, postgres.url, steps_once=False)


@pytest.mark.slow
def test_mlflow_is_dead_for_a_minute(tmp_path: Path, mlflow_server: MlflowServer, pytestconfig: pytest.Config) -> None:
    """The search continues, and everything is in MLflow once MLflow is back."""
    minute, trials = (60, 360) if pytestconfig.getoption("--exhaustive") else (3, 32)
    (tmp_path / "params.yaml").touch()
    (tmp_path / "dvc.yaml").touch()
    there = {"MLFLOW_TRACKING_URI": mlflow_server.uri}
    process = begin(tmp_path, there, trials=trials, workers=2, seconds=0.5, steps=1, mirror=True)
    server = connect(mlflow_server.uri, tmp_path)
    wait(process, lambda: shown(server))
    mlflow_server.stop()
    done = len(in_state(STATES.COMPLETE, tmp_path))
    time.sleep(minute)
    wait(process, lambda: len(in_state(STATES.COMPLETE, tmp_path)) > done)
    mlflow_server.start()
    said = ended(process, 600)
    assert said.count("MLflow does not answer; the run continues") == 1
    assert "is back" in said or "send the rest with: isoscope mirror" in said
    assert not [one.error for one in mirror(tmp_path, uri=mlflow_server.uri) if one.error]
    check(tmp_path, trials)
    assert shown(server) == {"FINISHED": trials}


def test_one_ctrl_c_finishes_what_was_begun_and_two_stop_at_once(tmp_path: Path) -> None:
    given = {"workers": 2, "seconds": 2, "steps": 10}
    process = begin(tmp_path, **given)
    wait(process, lambda: len(in_state(STATES.RUNNING, tmp_path)) == 2)
    process.send_signal(signal.SIGINT)
    ended(process)
    assert collections.Counter(trial.state for trial in trials_of(tmp_path)) == {STATES.COMPLETE: 2}
    process = begin(tmp_path, workers=2, seconds=20, steps=100)
    wait(process, lambda: len(in_state(STATES.RUNNING, tmp_path)) == 2)
    process.send_signal(signal.SIGINT)
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert [line for line in ended(process).splitlines() if "trials done" not in line] == [
        "isoscope: finishing running trials, starting no other; press Ctrl-C again to stop now",
        "isoscope: stopping; run the same command to resume",
    ]
    assert trials_of(tmp_path)[-1].state == STATES.RUNNING
    ended(begin(tmp_path, **given))
    check(tmp_path, 6)


def test_a_run_that_is_stopped_from_outside_goes_on_and_that_is_no_try(tmp_path: Path) -> None:
    """As by a scheduler that wants the room: with no retries allowed, no trial fails."""
    process = begin(tmp_path, trials=3, seconds=6, steps=30)
    for _ in range(3):
        wait(process, lambda: 0 < under_way(tmp_path) < 8 and len(tree(process.pid)) == 2)
        run = tree(process.pid)[1]
        os.kill(run, signal.SIGTERM)
        wait(process, lambda: run not in tree(process.pid))  # noqa: B023
    assert ended(process).count("stopped by another process; run again") == 3
    check(tmp_path, 3)


def test_no_run_is_forked_with_a_connection(tmp_path: Path) -> None:
    """SQLite's locks are its process's, and a child that inherits a connection believes it has them, too."""
    (tmp_path / "hold").touch()
    process = begin(tmp_path, trials=2, workers=2)
    wait(process, lambda: len(children(process.pid)) == 2 and len(in_state(STATES.RUNNING, tmp_path)) == 2)
    for run in children(process.pid):
        assert not any("studies.db" in str(one.readlink()) for one in Path(f"/proc/{run}/fd").iterdir())
    (tmp_path / "hold").unlink()
    ended(process)
