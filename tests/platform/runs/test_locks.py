"""Locks between processes: on a file system without flock, on a link, and while another has them."""

import errno
import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from filelock import Timeout

import no_locks
from isoscope.base.errors import InputError
from isoscope.platform.runs.lease import Lease, held
from isoscope.platform.runs.locks import file_lock

USERS: dict[str, Callable[[Path], object]] = {
    "lease": Lease,
    "held": held,
    "mirror": lambda folder: file_lock(folder / "mlflow-schema.lock", seconds=1),
    "results": lambda folder: file_lock(folder / "results.lock"),
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


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_each_user_of_locks_names_the_folder_and_the_remedy(number: int, tmp_path: Path) -> None:
    (tmp_path / "lease.json").write_text("{}")
    ours, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_said, args=(number, tmp_path, theirs))
    process.start()
    theirs.close()
    said = ours.recv()
    process.join()
    assert said.keys() == USERS.keys()
    for text in said.values():
        assert text.startswith(
            f"{tmp_path}: its file system has no locks (flock: {os.strerror(number)}); use a local disk"
        )


@pytest.mark.parametrize("user", [user for user in USERS if user != "held"])
def test_a_link_is_not_followed(user: str, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("kept")
    names = ("lease.json", "mlflow-schema.lock", "results.lock")
    for name in names:
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
