"""The errors a user meets: each one line, without a traceback."""

import errno
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

PLUGIN_MODULE = "isoscope_plugin_"
"""What the module names of plugin files begin with."""

_DISK = {
    errno.ENOSPC: "the disk is full; free space there",
    errno.EDQUOT: "the quota is used up; free space there",
    errno.EIO: "the disk failed to take or to give the bytes; look at it",
    errno.EFBIG: "the file would be larger than this shell allows; raise the limit (ulimit -f)",
    errno.EROFS: "the file system is read-only; make it writable",
}


class InputError(Exception):
    """Something the user gave is wrong: one line that names the key, the value and what to do.

    The command line prints the line without a traceback and exits with code 2.
    """

    @property
    def lines(self) -> tuple[str, ...]:
        """One line for each thing that is wrong."""
        return (str(self),)


class InputsError(InputError):
    """Several things are wrong: as text the first line and the number of the others; `isoscope check` prints all."""

    def __init__(self, lines: Iterable[str]) -> None:
        self._lines = tuple(lines)
        others = len(self._lines) - 1
        super().__init__(self._lines[0] + (f" (and {others} more; isoscope check lists them)" if others else ""))

    @property
    def lines(self) -> tuple[str, ...]:
        return self._lines


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


@contextmanager
def plugins_named() -> Iterator[None]:
    """Turn whatever a plugin's code raises, `SystemExit` too, into a `RunError` that names its file and line.

    Errors of a user's input, of a run and of the disk stay as they are.
    """
    try:
        yield
    except (InputError, RunError):
        raise
    except (Exception, SystemExit) as error:
        place = plugin_line(error)
        if place is None or disk_trouble(error):
            raise
        raise RunError(f"plugin {place}: {said(error)}") from error


def plugin_line(error: BaseException) -> str | None:
    """The line of a plugin's file that an error was raised in or below; None where no plugin is to blame."""
    place, trace = None, error.__traceback__
    while trace is not None:
        if str(trace.tb_frame.f_globals.get("__name__")).startswith(PLUGIN_MODULE):
            place = f"{trace.tb_frame.f_code.co_filename}, line {trace.tb_lineno}"
        trace = trace.tb_next
    return place


def said(error: BaseException) -> str:
    """What a plugin's error says, in one line."""
    if isinstance(error, SystemExit):
        return f"it ends the program (sys.exit({error.code!r})); raise an error instead"
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def brief(value: object) -> str:
    """A value as it stands in an error: one line of some 60 characters."""
    return " ".join(repr(value).split())[:60]
