"""The errors a user meets: each one line, without a traceback."""

import errno
import os
import re

_DISK = {
    errno.ENOSPC: "the disk is full; free space there",
    errno.EDQUOT: "the quota is used up; free space there",
    errno.EIO: "the disk failed to take or to give the bytes; look at it",
    errno.EROFS: "the file system is read-only; make it writable",
}


class InputError(Exception):
    """Something the user gave is wrong: one line that names the key, the value and what to do.

    The command line prints the line without a traceback and exits with code 2.
    """


class RunError(Exception):
    """A run failed at its own work, such as a loss that is no number: one line; the command line exits with code 1."""


def disk_trouble(error: BaseException) -> str | None:
    """One line on what the disk refused and what to do, or None if `error` is of another kind.

    Libraries in Rust and C++ put the system's number into their text ("os error 28", "errno 28").
    """
    number = error.errno if isinstance(error, OSError) else None
    if number is None and (said := re.search(r"(?:os error|errno:?) (\d+)", str(error), re.IGNORECASE)):
        number = int(said[1])
    if number not in _DISK:
        return None
    names = [str(name) for name in (getattr(error, "filename", None), getattr(error, "filename2", None)) if name]
    where = f"{' → '.join(names)}: " if names else ""
    return f"{where}{_DISK[number]}, then give the same command again ({os.strerror(number)})"
