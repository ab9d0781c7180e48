"""Pure work over the processes of one machine, its results in the order it was handed out."""

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection, wait
from typing import Any, cast

from isoscope.errors import InputError, RunError, plugins_named
from isoscope.guard import end_with_parent

Spread = Callable[[Callable[[Any], Any], Iterable[Any], Callable[[], None]], Iterator[Any]]
"""A `map` of a function over work; what is called between two results may end it all by raising."""
LOOK = 0.2  # seconds between two calls of that while nothing comes


@contextmanager
def workers(count: int | None, *, key: str) -> Iterator[Spread]:
    """A `map` over `count` processes (None: one a core); one is this process itself.

    They are forked here, with all that is imported and every plugin, before anything is open or owned; they leave
    signals to this process, write nothing, and are killed at the end, however it comes (on Linux also by SIGKILL).
    Raises what the work raises, and `RunError` where a process is killed; `key` is the number to lower then.
    """
    if (count := count or _cores()) == 1:
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


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _here(function: Callable[[Any], Any], work: Iterable[Any], watch: Callable[[], None]) -> Iterator[Any]:
    for item in work:
        watch()
        yield function(item)


def _started() -> tuple[Any, Connection]:
    """A process and its own pipe: with a shared queue, a killed process would keep the lock for ever."""
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, os.getpid()), daemon=True)
    process.start()
    theirs.close()  # before the next is forked: a pipe whose process is gone must end
    return process, ours


def _serve(pipe: Connection, parent: int) -> None:
    end_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)  # it ended before it could be watched
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
        except Exception:  # as text: not every exception can be sent
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
        except (EOFError, OSError):  # of a pipe that ended
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
