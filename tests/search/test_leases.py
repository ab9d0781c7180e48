"""Who works on which trial: what a lock that is another's, or that was taken for nothing, means."""

from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError

from isoscope.search.storage import place
from isoscope.search.study import create, opened
from isoscope.search.worker import Worker
from search_work import IDENTITY, Unasked, a_search


def workers(folder: Path, count: int) -> list[Worker]:
    """Workers on one study, each with leases of its own."""
    search, where = a_search(sampler={"kind": "random", "seed": 0}), place(None, folder)
    name = create(search, IDENTITY, where, steps=1)
    return [
        Worker(
            opened(search, name, where, steps=1),
            lambda chosen: [],
            wishes=Unasked(),
            note=None,
            say=print,
            provenance={},
        )
        for _ in range(count)
    ]


def test_two_files_in_one_folder_have_locks_of_their_own(tmp_path: Path) -> None:
    one, other = (place(f"sqlite:///{tmp_path / name}", tmp_path).leases("sleep") for name in ("a.db", "b.db"))
    assert one.take(0)
    assert other.take(0)
    assert not place(f"sqlite:///{tmp_path / 'a.db'}", tmp_path).leases("sleep").take(0)


def test_a_file_has_the_same_locks_however_it_is_named(tmp_path: Path) -> None:
    assert place(None, tmp_path).leases("sleep").take(0)
    held = place(None, tmp_path).leases("sleep")
    assert held.take(1)
    assert not place(f"sqlite:///{tmp_path / 'studies.db'}", tmp_path / "elsewhere").leases("sleep").take(1)


def test_a_number_that_another_holds_is_waited_for(tmp_path: Path) -> None:
    one, other = workers(tmp_path, 2)
    assert other.leases.take(0)
    assert one._next() == (None, True)
    assert not one.study.trials
    other.leases.release(0)
    assert one._next()[0] is not None


def test_who_could_not_begin_a_trial_leaves_it_to_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = workers(tmp_path, 2)

    def broken(*given: object) -> None:
        raise StorageInternalError("database is locked")

    with monkeypatch.context() as patched:
        patched.setattr(one.study._storage, "create_new_trial", broken)
        with pytest.raises(StorageInternalError):
            one._next()
    assert other._next()[0].number == 0
    assert one._next()[0].number == 1
