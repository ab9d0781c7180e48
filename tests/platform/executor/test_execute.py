"""Parallel work: every item is done once even if processes die or fail, and all stop together."""

import os
import signal
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from isoscope.base.errors import InputError, RunError
from isoscope.base.processes import StoppedError, StopSignal
from isoscope.platform.executor.child import CRASHED, Child
from isoscope.platform.executor.execute import TRIES, Piece, side_by_side
from isoscope.platform.executor.live_table import PieceProgress, Progress
from isoscope.platform.executor.this_machine import this_machine


def run(pieces: list[Piece], workers: int = 2) -> dict[str, str]:
    with StopSignal() as stop:
        return side_by_side(pieces, title="work", workers=workers, stop=stop)


def noting(folder: Path, name: str) -> Piece:
    """Notes who did it, and when it began and ended."""

    def do(progress: Progress) -> str:
        began = time.monotonic()
        time.sleep(0.3)
        (folder / name).write_text(f"{os.getpid()} {began} {time.monotonic()}")
        return name.upper()

    return Piece(name, do)


def test_each_is_done_in_a_process_of_its_own_and_no_more_than_asked_at_once(tmp_path: Path) -> None:
    names = ["a", "b", "c", "d", "e"]
    assert run([noting(tmp_path, name) for name in names]) == {name: name.upper() for name in names}
    notes = [(tmp_path / name).read_text().split() for name in names]
    assert len({pid for pid, _, _ in notes} | {str(os.getpid())}) == len(names) + 1
    times = [(float(began), float(ended)) for _, began, ended in notes]
    at_once = [sum(began <= moment < ended for began, ended in times) for moment, _ in times]
    assert max(at_once) <= 2


def test_as_many_as_asked_are_at_work_at_once(tmp_path: Path) -> None:
    def do(progress: Progress, own: str, other: str) -> str:
        (tmp_path / own).touch()
        while not (tmp_path / other).exists():  # neither can end before both have begun
            time.sleep(0.02)
        return own

    assert run([Piece("a", partial(do, own="a", other="b")), Piece("b", partial(do, own="b", other="a"))]).keys() == {
        "a",
        "b",
    }


def test_what_each_says_has_its_name_and_what_several_say_alike_is_counted(capfd: pytest.CaptureFixture[str]) -> None:
    def do(progress: Progress, own: str) -> str:
        progress.note("23 texts cut to 64 tokens")
        progress.note(own)
        os.write(1, f"{own}, no end of line".encode())
        return ""

    run([Piece(name, partial(do, own=f"of {name}")) for name in "abc"])
    said = capfd.readouterr().err
    assert said.count("23 texts cut") == 2
    assert "\n3 in all said: 23 texts cut to 64 tokens\n" in said
    assert all(f"{name}: of {name}{end}\n" in said for name in "abc" for end in ("", ", no end of line"))


def test_one_that_is_killed_is_replaced_and_goes_on(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def do(progress: Progress) -> str:
        if not (tmp_path / "begun").exists():
            (tmp_path / "begun").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "whole"

    assert run([Piece("struck", do), noting(tmp_path, "other")]) == {"struck": "whole", "other": "OTHER"}
    assert "struck: its process ended by signal 9 (SIGKILL), probably out of memory" in capfd.readouterr().err


def test_one_that_is_always_killed_fails_alone(tmp_path: Path) -> None:
    def do(progress: Progress) -> str:
        with (tmp_path / "tries").open("a") as file:
            file.write(".")
        os.kill(os.getpid(), signal.SIGKILL)
        return ""

    with pytest.raises(RunError, match=r"^work: 1 of 2 failed: doomed: its process ended by signal 9"):
        run([Piece("doomed", do), noting(tmp_path, "other")])
    assert (tmp_path / "tries").read_text() == "." * TRIES
    assert (tmp_path / "other").exists()


@pytest.mark.parametrize("letter, told", [("a", "a"), ("漢", "漢"), ("\udcff", "?")])
def test_a_long_error_of_any_letters_ends_the_process(letter: str, told: str) -> None:
    """More than a pipe buffers would wait for ever: nobody reads before the end."""

    def work() -> None:
        raise ValueError(letter * 90_000)

    child = Child(work)
    ending = child.ending(60)
    child.close()
    assert ending is not None
    assert ending.kind == CRASHED
    assert told * 9 in ending.text[-12:]


@pytest.mark.parametrize("error", [RunError("loss is no number"), InputError("no such file"), ValueError("unforeseen")])
def test_one_that_fails_stops_no_other_and_is_named(tmp_path: Path, error: Exception) -> None:
    def do(progress: Progress) -> str:
        raise error

    names = ["a", "b", "c"]
    with pytest.raises(RunError, match=rf"^work: 1 of 4 failed: bad: .*{error}$"):
        run([Piece("bad", do), *(noting(tmp_path, name) for name in names)], workers=1)
    assert all((tmp_path / name).exists() for name in names)


def test_a_signal_lets_each_save_and_begins_no_other(tmp_path: Path) -> None:
    def do(progress: Progress) -> str:
        with StopSignal() as stop:
            (tmp_path / "begun").touch()
            while stop.received is None:
                time.sleep(0.02)
            (tmp_path / "saved").touch()
            raise StoppedError(stop.received, "saved")

    def tell() -> None:
        while not (tmp_path / "begun").exists():
            time.sleep(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell).start()
    with pytest.raises(StoppedError, match="0 of 2 done; run the same command to resume") as stopped:
        run([Piece("first", do), noting(tmp_path, "second")], workers=1)
    assert stopped.value.exit_code == 128 + signal.SIGTERM
    assert (tmp_path / "saved").exists()
    assert not (tmp_path / "second").exists()


def test_how_far_it_is_counts_what_runs() -> None:
    shown = PieceProgress("train s", total=4, found=1)
    running = Progress()
    running.begin(0, 10)
    running.update(5, 10, {})
    shown.running["a"] = running
    shown.ended("b", done=True)
    shown._began -= 30  # half a minute ago: one and a half pieces since
    assert shown.in_words() == "train s: 2 of 4 done, 1 running, about 30 s left"


def test_what_a_resumed_run_had_done_before_is_no_work_of_this_hour() -> None:
    shown = PieceProgress("train s", total=2, found=0)
    for name in ("a", "b"):
        running = Progress()
        running.update(5, 10, {})  # resumed at half
        shown.running[name] = running
    shown.look()
    for running in shown.running.values():
        running.update(6, 10, {})
    shown._began -= 60  # a minute ago: two tenths of a piece since, eight are left
    assert shown.in_words().endswith("about 4 min left")
    replaced = Progress()
    replaced.begin(9, 10)  # by a process that takes the place of another: the work was done here
    shown.running["a"] = replaced
    shown.look()
    assert shown.in_words().endswith("about 60 s left")


def test_without_work_done_here_there_is_no_time_left() -> None:
    """Shares of resumed pieces in any order of looks; a killed one begins below what was finished before, or waits."""
    shown = PieceProgress("train s", total=4, found=0)
    for name, done in (("c", 3), ("b", 2), ("a", 1)):
        shown.running[name] = Progress()
        shown.running[name].begin(done, 10)
    shown.look()
    shown.running = dict(sorted(shown.running.items()))
    shown._began -= 60
    assert "left" not in shown.in_words()
    shown.running["a"] = Progress()
    assert "left" not in shown.in_words()
    del shown.running["a"], shown.running["b"]
    shown.running["c"].update(8, 10, {})
    assert shown.in_words().endswith("about 6 min left"), "half a piece in a minute, 3.2 pieces are left"


def test_as_many_runs_fit_as_their_threads_have_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [this_machine(threads, device="cpu").usual for threads in (1, 3, None)] == [8, 2, 1]
