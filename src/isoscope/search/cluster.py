"""Workers of a search on the nodes of a Ray cluster: placed, replaced where a node is lost, told to finish or to stop.

Ray only places them. Who works on which trial is settled by the leases, as among the processes of one machine.
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
from isoscope.search.jobs import Wishes
from isoscope.search.pool import GRACE, Interrupts
from isoscope.search.storage import Place

TICK, NEWS, PATIENCE = 0.2, 1.0, 30.0
"""Seconds between two looks at the workers, between two questions to one, and until those not begun are counted."""
TRIES = 3
"""Workers in a row that may die before they have answered once."""
_ANSWERS = 10.0  # seconds that the head of a cluster has to accept a connection
_STORE = 80 * 2**20  # bytes; Ray's least: nothing large goes through it here

Start = Callable[[Any, Wishes, Callable[[str], None]], None]
"""A function of a module that works on a study: from plain values, what was asked of it, and where its words go."""


class Cluster(NamedTuple):
    """Where workers go: `address` (auto, ray://HOST:PORT, or local), and the CPUs and GPUs that each is given there."""

    address: str
    cpus: float
    gpus: float


def check(cluster: Cluster, where: Place) -> None:
    """Raises `InputError` for a cluster that is no address, lacks Ray, or could not share the storage."""
    if not re.fullmatch(r"auto|local|ray://\S+:\d+", cluster.address):
        raise InputError(f"--cluster {cluster.address!r}: expected auto, local or ray://HOST:PORT")
    needs = ["ray", *(["grpc"] if "://" in cluster.address else [])]
    if any(find_spec(one) is None for one in needs):
        raise InputError(f"--cluster {cluster.address}: Ray is missing; pip install 'isoscope[cluster]'")
    if cluster.address != "local" and where.url.get_backend_name() != "postgresql":
        raise InputError(
            f"--cluster {cluster.address}: storage {where.shown} is of one machine; "
            "give --storage postgresql://HOST/DATABASE (only --cluster local can share a file)"
        )


class Nodes:
    """A cluster that is connected to."""

    def __init__(self, cluster: Cluster, ray: Any) -> None:
        self.cluster, self._ray = cluster, ray
        options = {"num_cpus": cluster.cpus, "num_gpus": cluster.gpus, "max_restarts": 0, "max_concurrency": 2}
        # Spread, so that a lost node takes few with it.
        self._seat = ray.remote(**options, scheduling_strategy="SPREAD")(_Seat)

    def work(self, start: Start, plain: Any, count: int, *, asked: Interrupts, look: Callable[[], None]) -> None:
        """Keep `count` workers at `start(plain, …)` until all have ended by themselves; `look` is called in between.

        One that is lost is replaced, wherever there is room. Raises what a worker raises, after the others have
        stopped.
        """
        crew = _Crew(self._ray, lambda: _Worker(self._ray, self._seat, start, plain), count, asked)
        uncounted: float | None = time.monotonic()
        try:
            while crew.workers:
                crew.listen()
                crew.tell()
                if uncounted is not None and time.monotonic() - uncounted > PATIENCE:
                    uncounted = None
                    self._count_the_waiting(crew, asked.say)
                look()
        finally:
            for worker in crew.workers:
                worker.kill()
        if crew.wrong is not None:
            raise crew.wrong

    def _count_the_waiting(self, crew: "_Crew", say: Callable[[str], None]) -> None:
        waiting = sum(not worker.began for worker in crew.workers)
        if waiting:
            say(
                f"{waiting} of {len(crew.workers)} workers have not begun: each is given {self._wanted()}, "
                f"and all nodes together have {_amount(self._ray.cluster_resources())}"
            )

    def check_fit(self) -> None:
        """Raises `InputError` where no node could ever have room for a worker."""
        has = self._ray.cluster_resources()
        if has.get("CPU", 0) < self.cluster.cpus or has.get("GPU", 0) < self.cluster.gpus:
            raise InputError(
                f"--cluster {self.cluster.address}: a worker is to be given {self._wanted()}, "
                f"and this machine has {_amount(has)}"
            )

    def _wanted(self) -> str:
        return _amount({"CPU": self.cluster.cpus, "GPU": self.cluster.gpus})


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Nodes]:
    """A cluster, connected to, or made on the loopback here for as long. Raises `InputError` where none answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # Ray would report home
    # Of 40 s each, twenty if not told, where a cluster is gone and only its note is left.
    os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if cluster.address == "local":
        # What Ray has for systems with firewalls: without it, its servers listen on every interface.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        options |= {"include_dashboard": False, "object_store_memory": _STORE}
    elif "://" in cluster.address:
        _reach(f"--cluster {cluster.address}", cluster.address)
    elif "RAY_ADDRESS" in os.environ:  # by which auto goes
        _reach(f"RAY_ADDRESS={os.environ['RAY_ADDRESS']}", os.environ["RAY_ADDRESS"])
    import ray

    before = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(address=cluster.address, **options)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        text = " ".join(str(error).split())[:200]
        raise InputError(f"--cluster {cluster.address}: does not connect ({text})") from None
    finally:
        signal.signal(signal.SIGTERM, before)  # Ray takes it
    try:
        nodes = Nodes(cluster, ray)
        if cluster.address == "local":
            nodes.check_fit()
        yield nodes
    finally:
        ray.shutdown()


def _reach(shown: str, address: str) -> None:
    """Raises `InputError` where nobody listens; Ray itself would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(f"{shown}: no Ray cluster answers ({error})") from None


class _Seat:
    """A worker on a node, and a second thread that exchanges messages with the driver. (A thread has no signals.)"""

    def __init__(self) -> None:
        self._finish = self._stop = False
        self._said: collections.deque[str] = collections.deque()

    def run(self, start: Start, plain: Any) -> tuple[Ending, list[str]]:
        """Work; how that ended, and the last words."""
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
        """Hear what is wished, and tell what was said since."""
        self._finish, self._stop = finish, stop
        return self._words()

    def finish(self) -> bool:
        return self._finish

    def stop(self) -> bool:
        return self._stop

    def _words(self) -> list[str]:
        return [self._said.popleft() for _ in range(len(self._said))]


class _Worker:
    """One worker, seen from here: placed when `began`."""

    def __init__(self, ray: Any, seat: Any, start: Start, plain: Any) -> None:
        self._ray = ray
        self._actor = seat.remote()
        self.done = self._actor.run.remote(start, plain)
        self.answer: Any = None
        self.began = False
        self._asked, self._known = -math.inf, (False, False)
        self.ask(finish=False, stop=False)

    def ask(self, *, finish: bool, stop: bool) -> None:
        """Tell it, and ask for its words, if there is anything new to tell or it is time."""
        due = time.monotonic() - self._asked > NEWS or self._known != (finish, stop)
        if self.answer is None and due:
            self._asked, self._known = time.monotonic(), (finish, stop)
            self.answer = self._actor.exchange.remote(finish, stop)

    def heard(self) -> list[str]:
        """Its words, now that it has answered."""
        answer, self.answer = self.answer, None
        with contextlib.suppress(self._ray.exceptions.RayError):  # `ended` says what became of it
            words = self._ray.get(answer)
            self.began = True
            return words
        return []

    def ended(self) -> tuple[Ending | None, list[str]]:
        """How it ended, and its last words; no ending where it is lost."""
        try:
            ending, words = self._ray.get(self.done)
            return ending, words
        except self._ray.exceptions.RayTaskError as error:  # it could not so much as begin: no isoscope there, say
            return Ending(children.CRASHED, str(error)), []
        except self._ray.exceptions.RayError:
            return None, []

    def kill(self) -> None:
        """Free its place, and be sure that it is gone."""
        with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):
            self._ray.kill(self._actor)


class _Crew:
    """The workers that are to be there."""

    def __init__(self, ray: Any, place: Callable[[], _Worker], count: int, asked: Interrupts) -> None:
        self._ray, self._place, self._asked = ray, place, asked
        self.workers = [place() for _ in range(count)]
        self.wrong: Exception | None = None
        self._stillborn = 0
        self._over = False
        self._deadline: float | None = None

    def listen(self) -> None:
        """Hear what workers say, and see who has ended."""
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
                self.wrong = self.wrong or RunError(f"{TRIES} workers in a row were lost before they could begin")
            elif not (self._asked.finish or self._over or self.wrong):
                self._asked.say("a worker was lost with its process or its node: another takes its place")
                self.workers.append(self._place())
        elif ending.kind == children.DONE:
            self._over = True
        else:
            kind = InputError if ending.kind == children.WRONG else RunError
            self.wrong = self.wrong or kind(ending.text.rstrip())

    def tell(self) -> None:
        """Pass on what is wished; who has no place yet does not wait for one when no trial is left for it."""
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
