"""One driver per study; a damaged storage is named; a trial interrupted at its begin is taken up."""

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from optuna.study import Study
from optuna.trial import Trial
from sqlalchemy.exc import OperationalError

from isoscope.base.errors import InputError
from isoscope.platform.runs.locks import HeldError
from isoscope.platform.search import storage
from isoscope.platform.search.status import in_words, status
from isoscope.platform.search.storage import held, place
from isoscope.platform.search.study import stored_study
from postgres import PostgreSQL
from search_under_way import begin, children, ended, kill, trials_of, wait
from search_work import IDENTITY, a_search, driven


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
    given = {"trials": 3, "workers": 2, "url": url}
    (tmp_path / "hold").touch()  # a run waits after its first step
    process = begin(tmp_path, **given)
    wait(process, lambda: len(children(process.pid)) == 2 and (tmp_path / "runs").exists())
    said = ended(begin(tmp_path, **given), code=2)
    assert f"held by process {process.pid} on " in said
    assert len(said.splitlines()) == 1
    runs = children(process.pid)
    kill(*runs, number=19)  # SIGSTOP: they do not hear that their parent has ended
    kill(process.pid)
    process.communicate()
    again = begin(tmp_path, **given)
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
        assert trial.params["fusion"] == begun.params["fusion"]
        assert "penalty.weight" in trial.params
        assert len(one.study.trials) == 1


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The bytes of a study of twelve trials."""
    folder = tmp_path_factory.mktemp("whole")
    search = a_search(sampler={"kind": "random", "seed": 0}, budget={"trials": 12, "hours": None})
    with driven(search, place(None, folder)) as (one, ask):
        while trial := ask():
            trial.report(0.5, 1)
            one.study.tell(trial, trial.params["penalty.weight"])
    return (folder / "studies.db").read_bytes()


def seen(folder: Path, content: bytes) -> str:
    """What `search status` says of a file with this content."""
    (folder / "studies.db").write_bytes(content)
    search, where = a_search(), place(None, folder)
    try:
        study = stored_study(search, IDENTITY, where)
        return in_words(storage.persist(lambda: status(study, search), f"storage {where.shown}", print))
    except InputError as error:
        return str(error)


def test_a_damaged_file_is_named(whole: bytes, tmp_path: Path, pytestconfig: pytest.Config) -> None:
    sound = seen(tmp_path, whole)
    assert "12 trials done" in sound
    cuts = [seen(tmp_path, whole[:size]) for size in (100, 4096, len(whole) // 2, len(whole) - 4096)]
    assert all("is damaged" in one for one in cuts)
    random.seed(0)
    kinds = set()
    for _ in range(400 if pytestconfig.getoption("--exhaustive") else 40):
        bad, at = bytearray(whole), random.randrange(100, len(whole) - 64)
        bad[at : at + 64] = random.randbytes(64)
        said = seen(tmp_path, bytes(bad))
        assert "\n" not in said
        kinds.add("damaged" if "is damaged" in said else said)
    assert "damaged" in kinds
