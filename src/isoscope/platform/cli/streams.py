"""Standard streams, also if they are closed, full, or read by nobody; errors on stderr."""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from isoscope.platform.runs.secrets import scrub


def open_closed() -> None:
    """Open /dev/null where the caller has closed a standard stream (`>&-`); let stdout replace what it cannot encode.

    Otherwise the next file that is opened gets its number, and what a library prints goes into that file.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this
        if getattr(sys, name) is None:
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # ASCII has no "→"; stderr escapes what it lacks


@contextmanager
def flushed() -> Iterator[None]:
    """Write out what was printed, so that a fault of stdout is reported, not ignored at the interpreter's end."""
    try:
        yield
    finally:
        try:
            sys.stdout.flush()
        except OSError as error:
            error.filename = "stdout"
            raise


def complain(line: str) -> None:
    """Print an error on stderr, without secrets, if it can be written.

    Drop what a stream refuses: Python would try again at its end, and exit with code 120.
    """
    with suppress(OSError):
        print(f"isoscope: {scrub(line)}", file=sys.stderr)
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
