"""One owner per run and one command per folder: leases and locks, also where a file system has none."""

import errno
import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from filelock import Timeout

import no_locks
from isoscope.base.errors import InputError
from isoscope.models import exported
from isoscope.platform.runs import locks
from isoscope.platform.runs.locks import Lease, file_lock, held, opened, writing
from isoscope.platform.stages import export
from isoscope.platform.stages.page_folder import page_folder

USERS: dict[str, Callable[[Path], object]] = {
    "lease": Lease,
    "held": held,
    "file": lambda folder: file_lock(folder / "results.lock"),
    "folder": lambda folder: writing(folder / "page", called="it").__enter__(),
}


def _said(number: int, folder: Path, pipe: Connection) -> None:
    no_locks.refuse(number)
    said = {}
    for name, use in USERS.items():
        try:
            use(folder)
        except InputError as error:
            said[name] = str(error)
    pipe.send(said)


NO_LOCKS = [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF]


@pytest.mark.parametrize("number", NO_LOCKS, ids=errno.errorcode.get)
def test_each_user_of_locks_names_the_folder_and_the_remedy(number: int, tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("{}")
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_said, args=(number, tmp_path, theirs))
    process.start()
    theirs.close()
    said = ours.recv()
    process.join()
    assert said.keys() == USERS.keys()
    for user, text in said.items():
        place = tmp_path / "page" if user == "folder" else tmp_path
        assert text.startswith(
            f"{place}: its file system has no locks (flock: {os.strerror(number)}); use a local disk"
        )
    assert not (tmp_path / "page").exists()


@pytest.mark.parametrize("user", ["lease", "file"])
def test_a_link_is_not_followed(user: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    for name in ("lease.json", "results.lock"):
        (tmp_path / name).symlink_to(target)
    with pytest.raises(OSError, match="symbolic links"):
        USERS[user](tmp_path)
    assert target.read_text() == "kept"


def test_locks_that_are_there_exclude(tmp_path: Path) -> None:
    """The negative control."""
    with Lease(tmp_path):
        assert held(tmp_path)
    assert not held(tmp_path)
    path = tmp_path / "results.lock"
    with file_lock(path), pytest.raises(Timeout):
        file_lock(path, seconds=0.1).acquire()


# Takes the lease so many times; the holder creates a file that must not exist before.
CONTEND = """
import os, random, sys, time
from pathlib import Path
from isoscope.base.errors import InputError
from isoscope.platform.runs import locks
from isoscope.platform.runs.locks import Lease
locks.LOOKED = 0.0  # refused at once
folder, wanted = Path(sys.argv[1]), int(sys.argv[2])
alone = folder / "alone"
had = refused = 0
while had < wanted:
    try:
        with Lease(folder):
            os.close(os.open(alone, os.O_CREAT | os.O_EXCL))
            time.sleep(random.random() * 1e-3)
            alone.unlink()
            had += 1
    except InputError:
        refused += 1
    time.sleep(random.random() * 1e-3)
print(had, refused)
"""
HOLD = """
import sys, time
from pathlib import Path
from isoscope.platform.runs.locks import Lease, writing
folder = Path(sys.argv[2])
with Lease(folder) if sys.argv[1] == "lease" else writing(folder, called="it"):
    (folder / "file").touch()
    print("held", flush=True)
    time.sleep(600)
"""


def start(lock: str, folder: Path) -> subprocess.Popen[str]:
    """A process that holds a run's lease, or writes a folder."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, lock, str(folder)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    with start("lease", tmp_path) as process:
        yield process
        process.kill()


def test_a_second_owner_is_refused_and_told_who_has_it(holder: subprocess.Popen[str], tmp_path: Path) -> None:
    assert held(tmp_path)
    assert not held(tmp_path / "none"), "never begun"
    with pytest.raises(InputError, match=f"held by process {holder.pid}") as caught:
        Lease(tmp_path)
    assert "\n" not in str(caught.value)
    assert held(tmp_path), "the attempt must not take it away"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_dead_owner_frees_it(holder: subprocess.Popen[str], tmp_path: Path, number: signal.Signals) -> None:
    holder.send_signal(number)
    holder.wait()
    assert not held(tmp_path)
    with Lease(tmp_path) as lease:
        assert json.loads(lease.path.read_text())["pid"] == os.getpid()
    assert not held(tmp_path)


def test_a_thousand_turns_between_four_processes_and_never_two_owners(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CONTEND, str(tmp_path), "250"]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = [process.communicate(timeout=600)[0].split() for process in processes]
    assert [process.returncode for process in processes] == [0] * 4
    assert sum(int(had) for had, _ in answers) == 1000
    assert sum(int(refused) for _, refused in answers) > 100, "they did meet"


def test_a_lock_on_what_was_removed_meanwhile_is_no_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`isoscope rm` removes a run's folder while it holds the lease; the next owner has opened the file before."""
    plain, removed = locks.flock, []

    def removing(descriptor: int, operation: int, folder: Path) -> None:
        if not removed:
            removed.append(folder)
            shutil.rmtree(folder)
        plain(descriptor, operation, folder)

    for take, name in ((Lease, "run"), (lambda folder: writing(folder, called="it"), "page")):
        removed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(locks, "flock", removing)
            first = take(tmp_path / name)
            first.__enter__()
        assert removed == [tmp_path / name]
        with pytest.raises(InputError, match=r"in progress|is writing there"):
            take(tmp_path / name).__enter__()
        first.__exit__(None, None, None)


@pytest.mark.parametrize("text", ["", '{"host": "here", "pid": 1, "since": 0}'], ids=["ended", "killed"])
def test_looking_at_a_lease_takes_it_from_nobody(tmp_path: Path, text: str) -> None:
    """Nor from the run that resumes a killed one, whose note is still there."""
    (tmp_path / "lease.json").write_text(text, "utf-8")
    looker = opened(tmp_path / "lease.json")
    fcntl.flock(looker, fcntl.LOCK_SH)
    threading.Timer(locks.LOOKED / 4, os.close, [looker]).start()
    with Lease(tmp_path):
        assert held(tmp_path)


def test_one_that_is_refused_leaves_the_folder_of_the_first(tmp_path: Path) -> None:
    with writing(tmp_path / "page", called="it"):
        with pytest.raises(InputError, match="is writing there"), writing(tmp_path / "page", called="it"):
            pass
        (tmp_path / "page/index.html").touch()


def test_the_second_is_refused_with_the_first_and_a_kill_frees_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "page"
    with start("folder", folder) as first:
        with pytest.raises(InputError, match=f"^--out page: process {first.pid} is writing there; wait for it"):
            writing(folder, called="--out page").__enter__()
        first.send_signal(signal.SIGKILL)
    with writing(folder, called="--out page"):
        assert (folder / "file").exists()


@pytest.mark.parametrize("name", ["geometry", "spaces", "translate"])
def test_a_page_that_another_command_has_made_meanwhile_stays(tmp_path: Path, name: str) -> None:
    (tmp_path / "manifest.json").write_text('{"made_by": "isoscope other"}', "utf-8")
    (tmp_path / "index.html").touch()
    with pytest.raises(InputError, match="contains other files"), page_folder(tmp_path, name):
        raise AssertionError("it was free")


def test_exporting_to_a_folder_that_is_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exported, "read_model", lambda folder: None)
    out = tmp_path / "given"
    with writing(out, called="it"), pytest.raises(InputError, match=f"^OUT {out}: process {os.getpid()} is writing"):
        export.export(tmp_path, out, form=None)
