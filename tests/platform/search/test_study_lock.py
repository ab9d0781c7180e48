"""One driver per study, whoever died; a trial that was interrupted at its begin is taken up, never begun twice."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from optuna.study import Study
from optuna.trial import Trial
from sqlalchemy.exc import OperationalError

from isoscope.platform.runs.lease import HeldError
from isoscope.platform.search.storage import place
from isoscope.platform.search.study_lock import held
from postgres import PostgreSQL
from search_under_way import begin, children, ended, kill, trials_of, wait
from search_work import a_search, driven


def test_each_file_has_its_own_lock_however_it_is_named(tmp_path: Path) -> None:
    with held(place(f"sqlite:///{tmp_path / 'a.db'}", tmp_path), "sleep"), held(place(None, tmp_path), "sleep"):
        with held(place(None, tmp_path), "other"):
            pass
        with (
            pytest.raises(HeldError, match=rf"search sleep .*held by process {os.getpid()} on "),
            held(place(f"sqlite:///{tmp_path / 'studies.db'}", tmp_path / "elsewhere"), "sleep"),
        ):
            pass


@pytest.mark.postgresql
def test_a_lock_in_postgresql_is_lost_with_its_connection_and_found_again(tmp_path: Path, postgres: PostgreSQL) -> None:
    where = place(postgres.url, tmp_path)
    with held(where, "sleep") as check:
        check()
        with (
            pytest.raises(HeldError, match=rf"^search sleep: .*held by process {os.getpid()} on \S+; wait for it"),
            held(where, "sleep"),
        ):
            pass
        cut(postgres)
        with pytest.raises(OperationalError):
            check()
        check()  # taken again
        cut(postgres)
        with pytest.raises(OperationalError):
            check()
        with held(where, "sleep"), pytest.raises(HeldError, match="held by process"):
            check()


def cut(postgres: PostgreSQL) -> None:
    """End every other session of the server."""
    with psycopg.connect(postgres.url.replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND usename = 'tests'"
        )


@pytest.mark.parametrize("where", ["sqlite", "postgresql"])
def test_a_second_driver_is_refused_and_a_lock_ends_with_its_holder(
    where: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Its runs may live a little longer: they have no part of the lock."""
    url = request.getfixturevalue("postgres").url if where == "postgresql" else None
    words = ["--trials", "3", "--workers", "2", *(["--url", url] if url else [])]
    (tmp_path / "hold").touch()  # a run waits after its first step
    process = begin(tmp_path, *words)
    wait(process, lambda: len(children(process.pid)) == 2 and (tmp_path / "runs").exists())
    said = ended(begin(tmp_path, *words), code=2)
    assert f"held by process {process.pid} on " in said
    assert len(said.splitlines()) == 1
    runs = children(process.pid)
    kill(*runs, number=19)  # SIGSTOP: they do not hear that their parent has ended
    kill(process.pid)
    process.communicate()
    again = begin(tmp_path, *words)
    wait(again, lambda: len(children(again.pid)) == 2)
    kill(*runs)
    (tmp_path / "hold").unlink()
    ended(again)
    assert len(trials_of(tmp_path, url)) == 3


@pytest.mark.parametrize("what", [(Study, "ask"), (Trial, "suggest_float"), (Study, "get_trials")])
@pytest.mark.parametrize("stored", [True, False])
def test_a_storage_that_fails_while_a_trial_begins_leaves_none_behind(
    what: tuple[type, str], stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the storage had noted the call or not."""
    owner, name = what
    does: Callable[..., Any] = getattr(owner, name)
    failures = [OperationalError("", None, Exception("the server is gone"))]

    def fails_once(*given: Any, **named: Any) -> Any:
        if stored or not failures:
            found = does(*given, **named)
        if failures:
            raise failures.pop()
        return found

    with driven(a_search(sampler={"kind": "random", "seed": 0}), place(None, tmp_path)) as (one, ask):
        monkeypatch.setattr(owner, name, fails_once)
        for number in range(2):
            trial = ask()
            assert trial
            assert trial.number == number
            assert "penalty.weight" in trial.params
        assert len(one.study.trials) == 2


def test_a_trial_that_was_half_drawn_keeps_what_it_has(tmp_path: Path) -> None:
    """Missing choices are drawn."""
    with driven(a_search(), place(None, tmp_path)) as (one, ask):
        begun = one.study.ask()
        assert begun.suggest_categorical("fusion", ["additive", "conv2d"])
        begun.report(0.5, 3)
        trial = ask()
        assert trial
        assert trial.params["fusion"] == begun.params["fusion"]
        assert "penalty.weight" in trial.params
        assert len(one.study.trials) == 1
