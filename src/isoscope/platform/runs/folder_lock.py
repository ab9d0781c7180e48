"""The right to write a folder that has no run: a kernel lock on the folder itself, which dies with its process."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from isoscope.base.errors import InputError
from isoscope.platform.runs.locks import flock

LOCKS = Path("/proc/locks")


@contextmanager
def writing(folder: Path, *, called: str) -> Iterator[None]:
    """Hold the only right to write `folder`; makes it, and takes it away again if it stays empty.

    Two commands would mix their files there. `called`: name of the folder in errors, such as `--out page`. Raises
    `InputError` that names the process that writes there, and for a file system without locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
        except BlockingIOError:
            raise InputError(
                f"{called}: {_holder(descriptor)} is writing there; wait for it to end, or give another folder"
            ) from None
        yield
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()
        os.close(descriptor)


def _holder(descriptor: int) -> str:
    """Return the process that holds a lock, as Linux lists it."""
    inode = f":{os.fstat(descriptor).st_ino}"
    with suppress(OSError):
        for line in LOCKS.read_text("ascii").splitlines():
            fields = line.split()
            if "FLOCK" in fields and any(field.endswith(inode) for field in fields) and "->" not in fields:
                return f"process {fields[4]}"
    return "another process"
