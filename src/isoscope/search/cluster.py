"""Run the workers of a search on the nodes of a Ray cluster; replace the workers of a lost node.

Ray only places workers. Leases decide who works on which trial, as they do on one machine.
"""

import collections
import contextlib
import math
import os
import re
import signal
import socket
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any, NamedTuple

from isoscope.errors import InputError, RunError
from isoscope.search import children
from isoscope.search.children import Ending
from isoscope.search.jobs import StopRequests
from isoscope.search.pool import GRACE, Interrupts
from isoscope.search.storage import Place

TICK, NEWS, PATIENCE = 0.2, 1.0, 30.0
"""Seconds between polls of the workers, between messages to a worker, and until a warning about workers not started."""
TRIES = 3
"""Workers in a row that may die before their first answer."""
_ANSWERS = 10.0  # connection timeout, seconds
_STORE = 80 * 2**20  # bytes; Ray's minimum: only small values go through it

Start = Callable[[Any, StopRequests, Callable[[str], None]], None]
"""A module-level function that runs a worker. Arguments: plain values, the stop requests, a log function."""


class Cluster(NamedTuple):
    """A Ray cluster: `address` (auto, ray://HOST:PORT or local) and the CPUs and GPUs of each worker."""

    address: str
    cpus: float
    gpus: float


def check(cluster: Cluster, where: Place) -> None:
    """Raises `InputError` for an invalid address, a missing Ray, or a storage that the nodes cannot share."""
    if not re.fullmatch(r"auto|local|ray://\S+:\d+", cluster.address):
        raise InputError(f"--cluster {cluster.address!r}: expected auto, local or ray://HOST:PORT")
    needs = ["ray", *(["grpc"] if "://" in cluster.address else [])]
    if any(find_spec(one) is None for one in needs):
        raise InputError(f"--cluster {cluster.address}: Ray is missing; pip install 'isoscope[cluster]'")
    if cluster.address != "local" and where.url.get_backend_name() != "postgresql":
        raise InputError(
            f"--cluster {cluster.address}: storage {where.shown} is a file on one machine; "
            "use --storage postgresql://HOST/DATABASE (only --cluster local can use a file)"
        )


class Nodes:
    """A connected cluster."""

    def __init__(self, cluster: Cluster, ray: Any) -> None:
        self.cluster, self._ray = cluster, ray
        options = {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus, "max_restarts": 0, "max_concurrency": 2}
        # Spread, so that a lost node costs few workers.
        self._seat = ray.remote(**options, scheduling_strategy="SPREAD")(_Seat)

    def work(self, start: Start, plain: Any, count: int, *, asked: Interrupts, look: Callable[[], None]) -> None:
        """Keep `count` workers running `start(plain, …)` until all have finished; call `look` in between.

        A lost worker is replaced where there is room. Raises a worker's error after the others have stopped.
        """
        crew = _Crew(self._ray, lambda: _Worker(self._ray, self._seat, start, plain), count, asked)
        uncounted: float | None = time.monotonic()
        try:
            while crew.workers:
                crew.listen()
                crew.tell()
                if uncounted is not None and time.monotonic() - uncounted > PATIENCE:
                    uncounted = None
                    self._warn_of_waiting(crew, asked.say)
                look()
        finally:
            for worker in crew.workers:
                worker.kill()
        if crew.wrong is not None:
            raise crew.wrong

    def _warn_of_waiting(self, crew: "_Crew", say: Callable[[str], None]) -> None:
        waiting = sum(not worker.began for worker in crew.workers)
        if waiting:
            say(
                f"{waiting} of {len(crew.workers)} workers have not started: each needs {self._wanted()}; "
                f"the cluster has {_amount(self._ray.cluster_resources())}"
            )

    def check_fit(self) -> None:
        """Raises `InputError` if this machine is too small for a worker."""
        has = self._ray.cluster_resources()
        if has.get("CPU", 0) < self.cluster.cpus or has.get("GPU", 0) < self.cluster.gpus:
            raise InputError(
                f"--cluster {self.cluster.address}: each worker needs {self._wanted()}; this machine has {_amount(has)}"
            )

    def _wanted(self) -> str:
        return _amount({"CPU": self.cluster.cpus, "GPU": self.cluster.gpus})


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Nodes]:
    """Connect to a cluster, or start one on the loopback (local). Raises `InputError` if no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report home
    # Ray's default: twenty tries of 40 s each, if a cluster has died and left its address behind.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address == "local":
        # Otherwise Ray's servers listen on every interface.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        options |= {"include_dashboard": False, "object_store_memory": _STORE}
    elif "://" in cluster.address:
        _reach(f"--cluster {cluster.address}", cluster.address)
    elif "RAY_ADDRESS" in os.environ:  # auto reads it
        _reach(f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}", os.environ["RAY_ADDRESS"])
    import ray

    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=cluster.address, **options)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"--cluster {cluster.address}: cannot connect ({text})") from None
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray replaces the handler
    try:
        nodes = Nodes(cluster, ray)
        if cluster.address == "local":
            nodes.check_fit()
        yield nodes
    finally:
        ray.shutdown()


def _reach(shown: str, address: str) -> None:
    """Raises `InputError` if nothing listens at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(f"{shown}: no Ray cluster answers ({error})") from None


class _Seat:
    """A worker on a node, and the messages that it exchanges in a second thread (threads receive no signals)."""

    def __init__(self) -> None:
        self._finish = self._stop = False
        self._said: collections.deque[str] = collections.deque()

    def run(self, start: Start, plain: Any) -> tuple[Ending, list[str]]:
        """Run the worker; return how it ended and its last log lines."""
        try:
            start(plain, self, self._said.append)
            ending = Ending(children.DONE, "")
        except InputError as error:
            ending = Ending(children.WRONG, str(error))
        except RunError as error:
            ending = Ending(children.FAILED, str(error))
        except Exception:
            ending = Ending(children.CRASHED, traceback.format_exc())
        return ending, self._words()

    def exchange(self, finish: bool, stop: bool) -> list[str]:
        """Receive the stop requests; return the new log lines."""
        self._finish, self._stop = finish, stop
        return self._words()

    def finish(self) -> bool:
        return self._finish

    def stop(self) -> bool:
        return self._stop

    def _words(self) -> list[str]:
        return [self._said.popleft() for _ in range(len(self._said))]


class _Worker:
    """A worker on a node, seen from the driver; `began` once it has answered."""

    def __init__(self, ray: Any, seat: Any, start: Start, plain: Any) -> None:
        self._ray = ray
        self._actor = seat.remote()
        self.done = self._actor.run.remote(start, plain)
        self.answer: Any = None
        self.began = False
        self._asked, self._known = -math.inf, (False, False)
        self.ask(finish=False, stop=False)

    def ask(self, *, finish: bool, stop: bool) -> None:
        """Send the stop requests and ask for log lines, if a request is new or it is time."""
        due = time.monotonic() - self._asked > NEWS or self._known != (finish, stop)
        if self.answer is None and due:
            self._asked, self._known = time.monotonic(), (finish, stop)
            self.answer = self._actor.exchange.remote(finish, stop)

    def heard(self) -> list[str]:
        """Log lines of its answer."""
        answer, self.answer = self.answer, None
        with contextlib.suppress(self._ray.exceptions.RayError):  # `ended` reports the loss
            words = self._ray.get(answer)
            self.began = True
            return words
        return []

    def ended(self) -> tuple[Ending | None, list[str]]:
        """How it ended and its last log lines; None for a lost worker."""
        try:
            ending, words = self._ray.get(self.done)
            return ending, words
        except self._ray.exceptions.RayTaskError as error:  # it could not start: isoscope is missing there, say
            return Ending(children.CRASHED, str(error)), []
        except self._ray.exceptions.RayError:
            return None, []

    def kill(self) -> None:
        """Kill it and free its resources."""
        with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):
            self._ray.kill(self._actor)


class _Crew:
    """All workers of a search, as the driver keeps them."""

    def __init__(self, ray: Any, place: Callable[[], _Worker], count: int, asked: Interrupts) -> None:
        self._ray, self._place, self._asked = ray, place, asked
        self.workers = [place() for _ in range(count)]
        self.wrong: Exception | None = None
        self._stillborn = 0
        self._over = False
        self._deadline: float | None = None

    def listen(self) -> None:
        """Print log lines of the workers; handle those that have ended."""
        known = [ref for worker in self.workers for ref in (worker.done, worker.answer) if ref is not None]
        ready = set(self._ray.wait(known, num_returns=len(known), timeout=TICK)[0])
        for worker in list(self.workers):
            if worker.answer in ready:
                self._say(worker.heard())
            if worker.done in ready:
                self.workers.remove(worker)
                ending, words = worker.ended()
                self._say(words)
                worker.kill()
                self._note(worker, ending)

    def _say(self, words: list[str]) -> None:
        for line in words:
            self._asked.say(line)

    def _note(self, worker: _Worker, ending: Ending | None) -> None:
        if ending is None:
            self._stillborn = 0 if worker.began else self._stillborn + 1
            if self._stillborn >= TRIES:
                self.wrong = self.wrong or RunError(f"{TRIES} workers in a row were lost before they started")
            elif not (self._asked.finish or self._over or self.wrong):
                self._asked.say("a worker was lost with its process or node: replaced")
                self.workers.append(self._place())
        elif ending.kind == children.DONE:
            self._over = True
        else:
            kind = InputError if ending.kind == children.WRONG else RunError
            self.wrong = self.wrong or kind(ending.text.rstrip())

    def tell(self) -> None:
        """Pass on the stop requests; drop workers that wait for room when no trial is left."""
        stop = self._asked.stop or self.wrong is not None
        finish = stop or self._asked.finish
        for worker in list(self.workers):
            worker.ask(finish=finish, stop=stop)
            if not worker.began and (finish or self._over):
                self.workers.remove(worker)
                worker.kill()
        if stop:
            self._deadline = self._deadline or time.monotonic() + GRACE
            if time.monotonic() > self._deadline:
                for worker in self.workers:
                    worker.kill()


def _amount(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPU and {resources.get('GPU', 0):g} GPU"
