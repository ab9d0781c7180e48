"""Locks of the kernel (flock) between processes: they end with their holder, however it ends.

`Lease` is the right to write a run, `writing` the right to write a folder that has no run.
"""

import errno
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from multiprocessing.util import register_after_fork
from pathlib import Path

from filelock import FileLock

from isoscope.base.atomic_files import announce
from isoscope.base.errors import InputError

LOCKS = Path("/proc/locks")
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


LOOKED = 0.1
"""Seconds that looking whether a lease is held may take."""


class HeldError(InputError):
    """Another process holds the run."""


class Lease(AbstractContextManager["Lease"]):
    """Exclusive right to write a run's folder, held while the process lives.

    It is a kernel lock (flock), so killing the holder frees it at once. The file's text (host, pid, start time) only
    names the holder. Raises `HeldError`, which names the holder, if another process has the lock for longer than `held`
    needs to look.
    """

    def __init__(self, folder: Path, *, title: str | None = None, note: bool = True) -> None:
        """Take the lock. `title`: title of the run in errors. `note=False`: write nothing, for full disks."""
        self.path, until = folder / "lease.json", time.monotonic() + LOOKED
        while True:
            folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = opened(self.path)
            try:
                flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
            except BlockingIOError:
                if time.monotonic() > until:
                    text = os.pread(self._descriptor, 4096, 0).decode("utf-8", "replace")
                    self._close()
                    called = f"{title} ({folder.name[:12]})" if title else folder.name
                    raise HeldError(f"{called}: this run is already in progress: {_noted_holder(text)}") from None
                time.sleep(LOOKED / 20)
            else:
                if _is_at(self._descriptor, self.path):
                    break
            self._close()
        register_after_fork(self, Lease._close)
        self._noted = note
        if not note:
            return
        try:
            announce("lease", self.path)
            who = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.time()}
            written = os.pwrite(self._descriptor, json.dumps(who).encode(), 0)
            # After writing, so that a full disk does not erase a dead owner's note.
            os.ftruncate(self._descriptor, written)
        except BaseException:
            self._close()
            raise

    def __exit__(self, *exception: object) -> None:
        if self._noted:
            os.ftruncate(self._descriptor, 0)
        self._close()

    def _close(self) -> None:
        """Close the lock's file: at the end, and in a forked process, so that the lock ends with its own process."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _is_at(descriptor: int, path: Path) -> bool:
    """Return whether an open file or folder is still at its path: removed before it was locked, it locks nothing."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def held(folder: Path) -> bool:
    """Return whether a live process holds the lease of a run's folder."""
    try:
        with (folder / "lease.json").open("r") as file:
            flock(file.fileno(), fcntl.LOCK_SH | fcntl.LOCK_NB, folder)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


def _noted_holder(text: str) -> str:
    try:
        note = json.loads(text)
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(note["since"]))
        return f"held by process {note['pid']} on {note['host']} since {since}; wait for it or end it"
    except (ValueError, KeyError, TypeError, OverflowError):
        return "held by an unknown process"


@contextmanager
def writing(folder: Path, *, called: str) -> Iterator[None]:
    """Hold the only right to write `folder`; makes it, and takes it away again if it stays empty.

    Two commands would mix their files there. `called`: name of the folder in errors, such as `--out page`. Raises
    `InputError` that names the process that writes there, and for a file system without locks.
    """
    descriptor = _locked_folder(folder, called)
    try:
        yield
    finally:
        with suppress(OSError):  # it holds something
            folder.rmdir()
        os.close(descriptor)


def _locked_folder(folder: Path, called: str) -> int:
    """Return the descriptor of a folder, made if it is missing, that this process has locked."""
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, folder)
            if _is_at(descriptor, folder.resolve()):
                return descriptor
        except BlockingIOError:
            holder = _listed_holder(descriptor)
            os.close(descriptor)
            raise InputError(
                f"{called}: {holder} is writing there; wait for it to end, or give another folder"
            ) from None
        except BaseException:
            with suppress(OSError):
                folder.rmdir()
            os.close(descriptor)
            raise
        os.close(descriptor)


def _listed_holder(descriptor: int) -> str:
    """Return the process that holds a lock, as Linux lists it."""
    inode = f":{os.fstat(descriptor).st_ino}"
    with suppress(OSError):
        for line in LOCKS.read_text("ascii").splitlines():
            fields = line.split()
            if "FLOCK" in fields and any(field.endswith(inode) for field in fields) and "->" not in fields:
                return f"process {fields[4]}"
    return "another process"
