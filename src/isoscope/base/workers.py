"""Map pure functions over processes of one machine, with results in order."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from tqdm import tqdm

from isoscope.base.errors import InputError, RunError, plugins_named
from isoscope.base.processes import end_with_parent

Spread = Callable[[Callable[[Any], Any], Iterable[Any], Callable[[], None]], Iterator[Any]]
"""`map(function, work, watch)`; `watch` is called between results and may raise to stop."""
Over = Callable[[Callable[[Any], Any], Sequence[Any], str], Iterable[Any]]
"""`map(function, work, title)` with a progress bar: what leaf code takes that must not know of processes."""
LOOK = 0.2  # seconds between calls of `watch` while waiting


@contextmanager
def workers(count: int | None, *, key: str) -> Iterator[Spread]:
    """Yield a `map` over `count` processes (None: one per core); `count` 1 uses this process.

    The processes are forked here, with all imports and plugins, before files or leases are open. They ignore signals,
    write nothing, and are killed at the end (on Linux also if this process gets SIGKILL). Raises the errors of the
    work, and `RunError` if a process is killed; `key`: the option to lower then.
    """
    if (count := count or cores()) == 1:
        yield _here
        return
    started = []
    try:
        for _ in range(count):
            started.append(_started())
        yield lambda function, work, watch: _spread([pipe for _, pipe in started], key, function, work, watch)
    finally:
        for process, pipe in started:
            process.kill()
            process.join()
            pipe.close()


def with_bar(spread: Spread, watch: Callable[[], None], prefix: str) -> Over:
    """Return a map over `spread` that shows on a terminal how much of the work is done, and how long the rest takes."""
    return lambda function, work, title: tqdm(
        spread(function, work, watch), f"{prefix}: {title}", len(work), disable=None
    )


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _here(function: Callable[[Any], Any], work: Iterable[Any], watch: Callable[[], None]) -> Iterator[Any]:
    for item in work:
        watch()
        yield function(item)


def _started() -> tuple[Any, Connection]:
    """Start a process with its own pipe: with a shared queue, a killed process could hold the lock forever."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()  # before the next fork, so that the pipe ends with its process
    return process, ours


def _serve(pipe: Connection, parent: int) -> None:
    end_with_parent(signal.SIGKILL, parent)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while True:
        function, item = pipe.recv()
        try:
            with plugins_named():
                found = function(item)
            pipe.send((None, found))
        except (InputError, RunError) as error:
            pipe.send((InputError if isinstance(error, InputError) else RunError, str(error)))
        except Exception:  # as text, because not every exception can be pickled
            pipe.send((RuntimeError, traceback.format_exc()))


def _spread(
    pipes: list[Connection], key: str, function: Callable[[Any], Any], work: Iterable[Any], watch: Callable[[], None]
) -> Iterator[Any]:
    left, idle = enumerate(work), list(pipes)
    busy: dict[Connection, int] = {}
    done: dict[int, Any] = {}
    due = 0
    while True:
        watch()
        try:
            while idle and (item := next(left, None)) is not None:
                idle[-1].send((function, item[1]))
                busy[idle.pop()] = item[0]
            if not busy and due not in done:
                return
            ready = cast("list[Connection]", wait(list(busy), 0 if due in done else LOOK))
            came = [(pipe, *pipe.recv()) for pipe in ready]
        except (EOFError, OSError):  # the pipe of a dead process
            message = f"{key}: one of {len(pipes)} processes was killed, probably out of memory; use fewer"
            raise RunError(message) from None
        for pipe, error, found in came:
            if error is not None:
                raise error(found)
            done[busy.pop(pipe)] = found
            idle.append(pipe)
        if due in done:
            yield done.pop(due)
            due += 1
