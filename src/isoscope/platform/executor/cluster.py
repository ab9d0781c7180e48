"""Run processes on the nodes of a Ray cluster. Ray only places them; leases decide who owns a run."""

import contextlib
import os
import re
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from math import inf
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.platform.executor.child import LOST, WRONG, Child, Ending
from isoscope.platform.executor.execute import Place
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.piece import Piece
from isoscope.platform.runs.follower import FOLLOWED, PARENT_RUN

TICK, NEWS = 0.05, 1.0  # seconds between checks of a process on its node, and between messages to it
_ANSWERS = 10.0  # connection timeout, seconds
_STORE = 80 * 2**20  # bytes; Ray's minimum: only small values go through it


class Cluster(NamedTuple):
    """A Ray cluster: `address` (auto, ray://HOST:PORT or local) and the CPUs and GPUs of each process.

    None: as many as a run needs (see `sized`).
    """

    address: str
    cpus: float | None
    gpus: float | None

    def sized(self, threads: int | None, *, device: str) -> "Cluster":
        """Return the same cluster for runs of `threads` threads (None: 1 CPU) on `device`."""
        cpus = (threads or 1) if self.cpus is None else self.cpus
        asked = None if device == "auto" else int(device == "cuda")  # auto: a GPU if the cluster has any
        return self._replace(cpus=cpus, gpus=asked if self.gpus is None else self.gpus)


def check(cluster: Cluster) -> Cluster:
    """Return the cluster if its address is valid and Ray is installed; else raise `InputError`."""
    if not re.fullmatch(r"auto|local|ray://\S+:\d+", cluster.address):
        raise InputError(f"--cluster {cluster.address!r}: expected slurm, auto, local or ray://HOST:PORT")
    needs = ["ray", *(["grpc"] if "://" in cluster.address else [])]
    if any(find_spec(one) is None for one in needs):
        raise InputError(f"--cluster {cluster.address}: Ray is missing; pip install 'isoscope[cluster]'")
    return cluster


class Nodes(Place):
    """A connected cluster; it queues what has no room."""

    patience, usual, room = 30.0, inf, inf

    def __init__(self, cluster: Cluster, ray: Any) -> None:
        self._ray = ray
        gpus = float("GPU" in ray.cluster_resources()) if cluster.gpus is None else cluster.gpus
        self.wanted = {"CPU": cluster.cpus or 0, "GPU": gpus}
        options = {"num_cpus": self.wanted["CPU"], "num_gpus": self.wanted["GPU"], "max_restarts": 0}
        # Two threads: one runs the process, one answers. Spread, so that a lost node costs few processes.
        self._seat = ray.remote(**options, max_concurrency=2, scheduling_strategy="SPREAD")(_Seat)

    def start(self, piece: Piece) -> "Remote":
        """Start a process on a node with enough free resources."""
        environment = {name: os.environ[name] for name in (FOLLOWED, PARENT_RUN) if name in os.environ}
        return Remote(self._ray, self._seat.remote(environment), piece.do)

    def shortage(self) -> str:
        """Return a text: the resources that a process needs, and those of the cluster."""
        return f"each needs {_amount(self.wanted)}; the cluster has {_amount(self._ray.cluster_resources())}"


@contextlib.contextmanager
def connected(cluster: Cluster) -> Iterator[Nodes]:
    """Connect to a cluster, or start one on the loopback (local). Raises `InputError` if no cluster answers."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # disables Ray's telemetry
    # Ray's default for a stale address of a dead cluster: 20 attempts of 40 s each.
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
        nodes, has = Nodes(cluster, ray), ray.cluster_resources()
        if cluster.address == "local" and any(has.get(name, 0) < amount for name, amount in nodes.wanted.items()):
            needs = f"each worker needs {_amount(nodes.wanted)}; this machine has {_amount(has)}"
            raise InputError(f"--cluster local: {needs}")
        yield nodes
    finally:
        ray.shutdown()


def _reach(shown: str, address: str) -> None:
    """Raise `InputError` if nothing listens at the address; Ray itself would retry for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWERS).close()
    except (OSError, OverflowError, ValueError) as error:
        raise InputError(f"{shown}: no Ray cluster answers ({error})") from None


class _Seat:
    """A forked process on a node; a second thread exchanges messages about it with the driver."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        os.environ.update(environment)
        self._progress, self._lines = Progress(), deque[str]()
        self._child: Child | None = None
        self._number = 0

    def run(self, do: Callable[[Progress], str]) -> tuple[Ending, list[str]]:
        """Run the process; return how it ended and its last lines."""
        self._child = Child(partial(do, self._progress))
        ending = None
        while ending is None:
            ending = self._child.ending(TICK)
            self._lines.extend(self._child.said())
        return ending, self._said()

    def exchange(self, number: int) -> tuple[list[str], tuple[float, float, float]]:
        """Pass a new signal on to the process; return its new lines, and its progress as `Progress.begin` takes it."""
        if self._child is not None and number != self._number:
            self._number = number
            self._child.stop(number)
        return self._said(), (*self._progress.at, self._progress.share_before)

    def _said(self) -> list[str]:
        return [f"{socket.gethostname()}: {self._lines.popleft()}" for _ in range(len(self._lines))]


class Remote:
    """A process on a node, seen from the driver; `began`: whether its node has answered."""

    def __init__(self, ray: Any, actor: Any, do: Callable[[Progress], str]) -> None:
        self.progress, self.began = Progress(), False
        self._ray, self._actor = ray, actor
        self._done, self._answer = actor.run.remote(do), None
        self._number, self._due, self._lines = 0, 0.0, list[str]()

    def ending(self, seconds: float) -> Ending | None:
        """Return how it ended, after a wait of at most `seconds`; None while it runs."""
        self._exchange()
        if not self._ray.wait([self._done], timeout=seconds)[0]:
            return None
        try:
            ending, lines = self._ray.get(self._done)
        except self._ray.exceptions.RayTaskError as error:
            return Ending(WRONG, str(error))  # could not start, for example because isoscope is not installed there
        except self._ray.exceptions.RayError:
            return Ending(LOST, "lost with its process or node")
        self._lines += lines
        return ending

    def _exchange(self) -> None:
        """Read the answer to the last message; send the next message if it is due."""
        if self._answer is not None and self._ray.wait([self._answer], timeout=0)[0]:
            answer, self._answer = self._answer, None
            with contextlib.suppress(self._ray.exceptions.RayError):  # `ending` reports the loss
                lines, at = self._ray.get(answer)
                self.began = True
                self._lines += lines
                self.progress.begin(*at)
        if self._answer is None and time.monotonic() > self._due:
            self._due = time.monotonic() + NEWS
            self._answer = self._actor.exchange.remote(self._number)

    def said(self) -> list[str]:
        """Return the lines it has printed since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def stop(self, number: int) -> None:
        """Send it a signal with the next message; SIGKILL is sent at once."""
        self._number, self._due = number, 0.0
        if number == signal.SIGKILL:
            self.close()

    def close(self) -> None:
        """End its seat and free the resources."""
        with contextlib.suppress(self._ray.exceptions.RayError, ConnectionError):
            self._ray.kill(self._actor)


def _amount(resources: dict[str, float]) -> str:
    return f"{resources.get('CPU', 0):g} CPU and {resources.get('GPU', 0):g} GPU"
