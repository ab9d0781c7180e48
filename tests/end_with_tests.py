"""End all processes of a test run when its pytest has ended, however that ends: `python end_with_tests.py PID FOLDER`.

They have ISOSCOPE_TEST_FOLDER=FOLDER in their environment: servers, and whatever they have started. Linux only.
"""

import os
import select
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path


def marked(mark: bytes) -> Iterator[int]:
    """Yield the pids of the other processes with `mark` in their environment."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes().split(b"\0") and path.parent.name != str(os.getpid()):
                yield int(path.parent.name)
        except OSError:  # it has ended, or is another user's
            continue


def main(pid: int, folder: str) -> None:
    """Return at once; a process in the background waits for the end of `pid`."""
    watched = os.pidfd_open(pid)
    if os.fork():
        os._exit(0)
    os.setsid()
    select.select([watched], [], [])
    mark = f"ISOSCOPE_TEST_FOLDER={folder}".encode()
    while found := list(marked(mark)):  # again for what was started meanwhile
        for one in found:
            try:
                os.kill(one, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.1)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
