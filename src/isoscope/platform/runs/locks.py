"""Locks of the kernel (flock) between processes: they end with their holder, however it ends."""

import errno
import fcntl
import os
from pathlib import Path

from filelock import FileLock

from isoscope.base.errors import InputError

_UNSUPPORTED = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP, errno.EBADF)
"""Errors of a file system without locks. EBADF: NFS locks no folder, because a folder cannot be opened for writing."""


def opened(path: Path) -> int:
    """Open the file of a lock, and create it if it is missing; return its descriptor.

    A link is not followed, because its target would be overwritten; a pipe does not block.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    return os.open(path, flags, 0o644)


def flock(descriptor: int, operation: int, folder: Path) -> None:
    """Lock a folder, or a file in it, as `fcntl.flock` does; `folder`: its name in errors.

    Raises `BlockingIOError` if another process has the lock, and `InputError` if the file system has no locks.
    """
    try:
        fcntl.flock(descriptor, operation)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        raise InputError(
            f"{folder}: its file system has no locks (flock: {error.strerror}); use a local disk, or mount the file "
            "system with locks (Lustre: the option flock; NFS: without nolock)"
        ) from None


def check_locks(path: Path) -> None:
    """Raise `InputError` if the file system has no locks: try `path`, and create it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = opened(path)
    try:
        flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB, path.parent)
    except BlockingIOError:  # another process has it, so there are locks
        pass
    finally:
        os.close(descriptor)


def file_lock(path: Path, *, seconds: float = -1) -> FileLock:
    """Return a lock to wait for, at most `seconds` (-1: for ever).

    Where flock is missing, filelock would use the presence of the file instead, which a killed process leaves behind.
    """
    check_locks(path)
    return FileLock(path, timeout=seconds)
