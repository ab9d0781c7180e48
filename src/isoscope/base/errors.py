"""Errors for users: one line each, without a traceback."""

import errno
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from traceback import walk_tb

PLUGIN_MODULE = "isoscope_plugin_"
"""Prefix of the module names of plugin files."""

_DISK = {
    errno.ENOSPC: "the disk is full; free space there",
    errno.EDQUOT: "the quota is exceeded; free space there",
    errno.EIO: "reading or writing the disk failed; check the disk",
    errno.EFBIG: "the file would be larger than this shell allows; raise the limit (ulimit -f)",
    errno.EROFS: "the file system is read-only; make it writable",
}
_FILES = {
    errno.EACCES: "this user may not read or write it; change its owner or mode",
    errno.EPERM: "this user may not change it; change its owner or mode",
    errno.EISDIR: "is a folder where a file belongs; move it away",
    errno.ENOTDIR: "a file is where a folder belongs; move it away",
    errno.EEXIST: "a file, or a link without its target, is where a folder belongs; move it away",
    errno.ELOOP: "is a link; replace it with a copy",
    errno.ENXIO: "is a pipe, socket or device where a file belongs; move it away",
    errno.ENAMETOOLONG: "the name is too long; choose a shorter name",
}


class InputError(Exception):
    """Wrong user input: one line that names the key, the value and the remedy.

    The command line prints the line without a traceback and exits with code 2. `lines`: one line per fault; of
    several faults the text is the first line and the number of the others, and `isoscope check` prints all.
    """

    exit_code = 2

    def __init__(self, *lines: str) -> None:
        more = f" (and {len(lines) - 1} more; isoscope check lists them)" if len(lines) > 1 else ""
        super().__init__(lines[0] + more)
        self.lines = lines


class RunError(Exception):
    """A run failed, for example with a NaN loss: one line; the command line exits with code 1."""

    exit_code = 1


def disk_trouble(error: BaseException) -> str | None:
    """Return one line with the fault of the disk or of a file on it, and the remedy; None for another error."""
    number, cures = _number(error), _DISK | _FILES
    if number not in cures:
        return None
    names = [str(name) for name in (getattr(error, "filename", None), getattr(error, "filename2", None)) if name]
    where = f"{' → '.join(names)}: " if names else ""
    return f"{where}{cures[number]}, then run the same command again ({os.strerror(number)})"


def card_trouble(error: BaseException) -> str | None:
    """Return one line if a GPU has no memory left, and the remedy; None for another error."""
    found = str(error).partition("\n")[0].partition(". GPU ")[0]
    # torch's name, and its texts where a process finds no room for the CUDA context or a library's workspace.
    full = r"CUDA error: out of memory|CU(BLAS|DNN)_STATUS_ALLOC_FAILED"
    if type(error).__name__ != "OutOfMemoryError" and not re.search(full, found):
        return None
    return f"the GPU has no memory left ({found}); use a smaller batch_size, more accumulation, or fewer runs per GPU"


def _number(error: BaseException) -> int | None:
    """Return an error's errno; libraries in Rust and C++ put it into their text ("os error 28", "errno 28")."""
    if isinstance(error, OSError) and error.errno is not None:
        return error.errno
    found = re.search(r"(?:os error|errno:?) (\d+)", str(error), re.IGNORECASE)
    return int(found[1]) if found else None


@contextmanager
def plugins_named() -> Iterator[None]:
    """Convert exceptions of a plugin's code, also `SystemExit`, to a `RunError` that names the file and line.

    `InputError`, `RunError` and errors of the disk stay unchanged; a file that the plugin cannot open is its own fault.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except (Exception, SystemExit) as error:
        place = plugin_line(error)
        if place is None or _number(error) in _DISK:
            raise
        raise RunError(f"plugin {place}: {said(error)}") from error


def plugin_line(error: BaseException) -> str | None:
    """Return the file and line of the plugin that raised an error, directly or in a call; None if no plugin did."""
    places = [
        f"{frame.f_code.co_filename}, line {line}"
        for frame, line in walk_tb(error.__traceback__)
        if str(frame.f_globals.get("__name__")).startswith(PLUGIN_MODULE)
    ]
    return places[-1] if places else None


def said(error: BaseException) -> str:
    """Return a plugin's error in one line."""
    if isinstance(error, SystemExit):
        return f"it ends the program (sys.exit({error.code!r})); raise an error instead"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def first_line(error: BaseException) -> str:
    """Return what an error about a file's content says, in one line."""
    return f"no {error}" if isinstance(error, KeyError) else str(error).partition("\n")[0]


def brief(value: object) -> str:
    """Return a value for an error message: one line of at most 60 characters."""
    return " ".join(repr(value).split())[:60]
