"""Parallel work gives the same results as one process, leaves no process, and reports a killed process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from isoscope.base.errors import InputError, RunError
from isoscope.base.workers import workers


def squared(number: int) -> tuple[int, int]:
    return number**2, os.getpid()


def slow_first(number: int) -> int:
    time.sleep(0.3 if number == 0 else 0)
    return number


def refused(number: int) -> None:
    raise InputError(f"number {number}: not wanted")


class OddError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(one)


def broken(_: int) -> None:
    raise OddError("cannot be", "sent")


def killed_or_large(number: int) -> bytes:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return bytes(1_000_000)


def asleep(_: int) -> None:
    time.sleep(600)


def nothing() -> None:
    """Goes on."""


@pytest.mark.parametrize("count", [1, 3])
def test_results_come_in_order_from_other_processes_or_this_one(count: int) -> None:
    with workers(count, key="processes") as spread:
        found = list(spread(squared, range(50), nothing))
        assert list(spread(slow_first, range(9), nothing)) == list(range(9))
        assert list(spread(squared, [], nothing)) == []
    assert [value for value, _ in found] == [number**2 for number in range(50)]
    assert (os.getpid() in {pid for _, pid in found}) == (count == 1)
    assert len({pid for _, pid in found}) <= count


def test_what_is_loaded_here_is_there() -> None:
    here = Path(__file__).name
    sys.modules["only_here"] = sys.modules[__name__]
    try:
        with workers(2, key="processes") as spread:
            assert list(spread(_loaded, ["only_here"], nothing)) == [here]
    finally:
        del sys.modules["only_here"]


def _loaded(name: str) -> str:
    return Path(str(sys.modules[name].__file__)).name


@pytest.mark.parametrize("count", [1, 2])
def test_an_error_there_is_the_error_here(count: int) -> None:
    with pytest.raises(InputError, match=r"^number 0: not wanted$"), workers(count, key="processes") as spread:
        list(spread(refused, range(1), nothing))


def test_an_error_that_cannot_be_sent_comes_with_where_it_was() -> None:
    message = r"in broken\n[\s\S]*OddError: cannot be"
    with pytest.raises(RuntimeError, match=message), workers(2, key="processes") as spread:
        list(spread(broken, range(2), nothing))


def test_a_killed_process_is_named_by_the_number_to_lower() -> None:
    """Other workers with large results under way delay nobody."""
    began = time.monotonic()
    message = r"^measures\.processes: one of 3 processes was killed"
    with pytest.raises(RunError, match=message), workers(3, key="measures.processes") as spread:
        list(spread(killed_or_large, range(20), nothing))
    assert time.monotonic() - began < 60


def test_one_that_was_killed_with_nothing_to_do_is_named_too() -> None:
    message = r"^measures\.processes: one of 2 processes was killed"
    with workers(2, key="measures.processes") as spread:
        pid = next(pid for _, pid in list(spread(squared, range(20), nothing)))
        os.kill(pid, signal.SIGKILL)
        while _runs(pid):
            time.sleep(0.01)
        with pytest.raises(RunError, match=message):
            list(spread(squared, range(20), nothing))


def test_a_stop_does_not_wait_for_what_is_under_way() -> None:
    began = time.monotonic()

    def watch() -> None:
        if time.monotonic() - began > 0.5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), workers(2, key="processes") as spread:
        list(spread(asleep, range(4), watch))
    assert time.monotonic() - began < 60


def test_signals_are_left_to_the_parent() -> None:
    with workers(2, key="processes") as spread:
        for pid in {pid for _, pid in spread(squared, range(20), nothing)}:
            os.kill(pid, signal.SIGINT)
            os.kill(pid, signal.SIGTERM)
        assert [value for value, _ in spread(squared, range(5), nothing)] == [0, 1, 4, 9, 16]


PARENT = """
import os, time
from isoscope.base.workers import workers

def here(_):
    time.sleep(0.2)
    return os.getpid()

with workers(2, key="processes") as spread:
    for pid in spread(here, range(2), lambda: None):
        print(pid, flush=True)
    time.sleep(600)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="Linux tells a process of its parent's end")
def test_no_process_outlives_a_killed_parent(tmp_path: Path) -> None:
    (tmp_path / "parent.py").write_text(PARENT)
    command = (sys.executable, tmp_path / "parent.py")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(parent.stdout.readline()) for _ in range(2)]
        assert all(map(_runs, pids))
        parent.kill()
    deadline = time.monotonic() + 60
    while (left := [pid for pid in pids if _runs(pid)]) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not left


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
