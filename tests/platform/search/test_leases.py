"""Leases on trials: locks of other workers, and locks that were taken without use."""

from pathlib import Path

import pytest
from optuna.exceptions import StorageInternalError
from optuna.study import Study
from optuna.trial import Trial, TrialState

from isoscope.platform.search.leases import Leases
from isoscope.platform.search.storage import place
from isoscope.platform.search.study import create
from isoscope.platform.search.worker import Worker
from search_work import IDENTITY, a_search, a_worker


def workers(folder: Path, count: int) -> list[Worker]:
    """Workers on one study, each with its own leases."""
    search, where = a_search(sampler={"kind": "random", "seed": 0}), place(None, folder)
    name = create(search, IDENTITY, where, steps=1)
    return [a_worker(search, name, where) for _ in range(count)]


def test_each_file_has_its_own_locks_however_it_is_named(tmp_path: Path) -> None:
    def taken(url: str | None, folder: Path = tmp_path) -> bool:
        held.append(place(url, folder).leases("sleep"))
        return held[-1].take(0)

    held: list[Leases] = []
    assert taken(f"sqlite:///{tmp_path / 'a.db'}")
    assert taken(None)
    assert not taken(f"sqlite:///{tmp_path / 'a.db'}")
    assert not taken(f"sqlite:///{tmp_path / 'studies.db'}", tmp_path / "elsewhere")


def test_a_trial_whose_number_another_worker_holds_is_left_to_it(tmp_path: Path) -> None:
    one, other = workers(tmp_path, 2)
    assert other.leases.take(0)
    assert one.claim() == (None, True)
    assert [trial.state for trial in one.study.trials] == [TrialState.RUNNING]
    other.leases.release(0)
    claim, _ = one.claim()
    assert claim is not None
    assert claim.trial.number == 0


def dies(*given: object, **named: object) -> None:
    raise StorageInternalError("database is locked")


@pytest.mark.parametrize("where", ["before it is asked for", "before it is leased", "before a name is drawn"])
def test_a_worker_that_cannot_begin_a_trial_leaves_it_to_others(
    where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = workers(tmp_path, 2)
    take = one.leases.take
    with monkeypatch.context() as patched:
        if where == "before it is asked for":
            patched.setattr(Study, "ask", dies)
        elif where == "before it is leased":
            patched.setattr(one.leases, "take", lambda number, wait=False: dies() if number >= 0 else take(number))
        else:
            patched.setattr(Trial, "suggest_float", dies)
        with pytest.raises(StorageInternalError):
            one.claim()
    begun = [trial.params.keys() for trial in one.study.trials]
    assert len(begun) == (0 if where == "before it is asked for" else 1)
    assert all("penalty.weight" not in names for names in begun)
    for number, worker in enumerate((other, one)):
        claim, _ = worker.claim()
        assert claim is not None
        assert claim.trial.number == number
        assert "penalty.weight" in claim.trial.params


def test_a_trial_that_was_half_drawn_keeps_what_it_has(tmp_path: Path) -> None:
    """Missing choices are drawn; reported steps are known."""
    (worker,) = workers(tmp_path, 1)
    begun = worker.study.ask()
    assert begun.suggest_categorical("fusion", ["additive", "conv2d"])
    begun.report(0.5, 3)
    claim, _ = worker.claim()
    assert claim is not None
    assert claim.reported == {3}
    assert claim.trial.params["fusion"] == begun.params["fusion"]
    assert "penalty.weight" in claim.trial.params
    assert len(worker.study.trials) == 1


def test_a_trial_that_ended_while_it_was_looked_at_is_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = workers(tmp_path, 2)
    claim, _ = one.claim()
    assert claim is not None
    take = other.leases.take

    def ended_meanwhile(number: int, *, wait: bool = False) -> bool:
        if number == 0:
            one.study.tell(claim.trial, 1.0)
            one.leases.release(0)
        return take(number, wait=wait)

    monkeypatch.setattr(other.leases, "take", ended_meanwhile)
    found, _ = other.claim()
    assert found is not None
    assert found.trial.number == 1
    assert one.leases.take(0)
