"""Pure work over the processes of one machine, its results in the order it was handed out."""

import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

from isoscope.errors import InputError
from isoscope.guard import end_with_parent


@contextmanager
def workers(count: int | None, *, key: str) -> Iterator[Callable[..., Iterator[Any]]]:
    """A `map` over `count` processes (None: one a core); one is this process itself.

    They are forked here, with all that is imported and every plugin, before anything is open or owned; they leave
    signals to this process and do not outlive it. At the end work under way is waited for, the rest is let go. Raises
    `InputError` where one of them ends by itself; `key` is the number to lower then.
    """
    if (count := count or _cores()) == 1:
        yield map
        return
    with ProcessPoolExecutor(count, mp_context=get_context("fork"), initializer=_begin) as pool:
        try:
            pool.submit(os.getpid).result()  # forks all of them
            yield pool.map
        except BrokenProcessPool:
            raise InputError(f"{key}: one of {count} processes was killed, as for want of memory; use fewer") from None
        finally:
            pool.shutdown(cancel_futures=True)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _begin() -> None:
    end_with_parent(signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
