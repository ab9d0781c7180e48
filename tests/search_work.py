"""A search whose runs only sleep, step by step with a checkpoint: `python search_work.py FOLDER …`."""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import optuna

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.cluster import Cluster, check, connected
from isoscope.platform.executor.execute import Requests, work
from isoscope.platform.executor.live_table import Screen
from isoscope.platform.runs.provenance import Git
from isoscope.platform.search.status import Interrupts
from isoscope.platform.search.storage import Place, check_shared, place
from isoscope.platform.search.study import create, note_trial, opened
from isoscope.platform.search.worker import Worker
from isoscope.platform.stages.mirror import following

HEAVY = 10
"""Weight from which runs break, where they are to."""
IDENTITY = {"search": "sleep", "code": "none"}
SPACE = {
    "fusion": {"choices": ["additive", "conv2d"]},
    "model.fusion.width": {"low": 1, "high": 9, "when": {"fusion": ["conv2d"]}},
    "penalty.weight": {"low": 0.1, "high": 100.0, "log": True},
}
SAMPLERS = {
    "tpe": {"startup": 5},
    "gp": {"startup": 5},
    "nsgaii": {"population": 5},
    "random": {},
    "qmc": {},
    "grid": {},
}
FINITE = {
    "fusion": {"choices": ["additive", "conv2d"]},
    "model.fusion.width": {"low": 1, "high": 9, "when": {"fusion": ["conv2d"]}},
    "penalty.weight": {"low": 0.0, "high": 1.0, "step": 0.5},
}


def a_search(**changed: Any) -> Search:
    """A search over two fusions and a weight."""
    tree: dict[str, Any] = {
        "name": "sleep",
        "study": "fusion",
        "arm": "additive",
        "settings": [],
        "seeds": [0],
        "space": SPACE,
        "objectives": {"validation/accuracy": "maximise"},
        "constraints": {},
        "at": "best",
        "budget": {"trials": 6, "hours": None},
        "retries": 0,
        "sampler": {"kind": "tpe", "seed": 0, "startup": 3},
        "pruner": {"kind": "none"},
    }
    return Search.model_validate(tree | changed)


class NoRequests:
    """Requests of a worker without any request."""

    finish = stop = False


def a_worker(search: Search, name: str, where: Place) -> Worker:
    """A worker with a connection and leases of its own, to claim trials; it runs nothing."""
    one = opened(search, name, where, steps=1)
    return Worker(one, lambda chosen: [], requests=NoRequests(), note=print, say=print, provenance={})


class Sleeping:
    """A run of `steps` steps; after a kill it continues, and each finished step is noted once.

    While there is a file `hold` in the folder, it waits after its first step.
    """

    def __init__(self, folder: Path, chosen: Mapping[str, Any], seconds: float, steps: int, broken: str) -> None:
        self.chosen, self.seconds, self.steps, self.broken = chosen, seconds, steps, broken
        self.hold = folder / "hold"
        self.digest = "-".join(f"{name}={value}" for name, value in chosen.items()).replace("/", "_") or "default"
        self.file = folder / "runs" / f"{self.digest}.json"

    def run(self) -> None:
        """Sleep; heavy runs break in the way that `--broken` names."""
        if float(self.chosen.get("penalty.weight", 0)) > HEAVY and "run" in self.broken:
            raise ValueError("too heavy to run")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.with_suffix(".log").open("a") as log:
            while (done := self.steps_done()) < self.steps:
                while done and self.hold.exists():
                    time.sleep(0.05)
                time.sleep(self.seconds / self.steps)
                fresh = self.file.with_suffix(f".{os.getpid()}")
                fresh.write_text(json.dumps(done + 1))
                fresh.rename(self.file)
                log.write(f"{done + 1}\n")
                log.flush()

    def done(self) -> bool:
        return self.steps_done() == self.steps

    def steps_done(self) -> int:
        return int(json.loads(self.file.read_text())) if self.file.exists() else 0

    def value(self) -> float:
        width = self.chosen.get("model.fusion.width", 4)
        weight = float(self.chosen.get("penalty.weight", 1.0))
        return 1 - 0.01 * abs(width - 7) - 0.001 * weight

    def reports(self) -> list[tuple[int, float]]:
        return [(step, self.value() * step / self.steps) for step in range(1, self.steps_done() + 1)]

    def metrics(self) -> dict[str, float]:
        if "unlogged" in self.broken:
            return {"validation/accuracies": 1.0}
        if float(self.chosen.get("penalty.weight", 0)) > HEAVY and "nan" in self.broken:
            return {"validation/accuracy": float("nan"), "validation/a_1": 0.0}
        return {"validation/accuracy": self.value(), "validation/a_1": 1 - self.value()}


def start(given: Mapping[str, Any], requests: Requests, say: Callable[[str], None]) -> None:
    """Run one worker, here or on another node."""
    folder, name, steps = Path(given["folder"]), given["name"], given["steps"]
    search = a_search(budget={"trials": given["trials"], "hours": None}, **given["changed"])
    project = Project(folder, folder)

    def note(trial: optuna.trial.FrozenTrial) -> None:
        note_trial(project, search, trial, identity=IDENTITY, name=name, git=Git(None), environment={})

    Worker(
        opened(search, name, place(given["url"], folder), steps=steps),
        lambda chosen: [Sleeping(folder, chosen, given["seconds"], steps, given["broken"])],
        requests=requests,
        note=note,
        say=say,
        provenance={"node": os.environ.get("RAY_RAYLET_PID")},
    ).run()


def main() -> None:
    """Work on the study in a folder until its budget is spent."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--url")
    parser.add_argument("--trials", type=int, default=6)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--changed", type=json.loads, default={})
    parser.add_argument("--broken", default="", help="run, nan, unlogged: what goes wrong")
    parser.add_argument("--mirror", action="store_true", help="into MLflow, as it goes")
    parser.add_argument("--cluster")
    parser.add_argument("--cpus", type=float, default=1)
    given = parser.parse_args()
    search = a_search(budget={"trials": given.trials, "hours": None}, **given.changed)
    where = place(given.url, given.folder)
    name = create(search, IDENTITY, where, steps=given.steps)
    plain = {**vars(given), "folder": str(given.folder), "name": name}
    if given.cluster is None:
        mirror = following(Project(given.folder, given.folder)) if given.mirror else nullcontext()
        with mirror, Screen() as screen, Interrupts(screen.say) as asked:
            try:
                work(partial(start, plain), given.workers, asked=asked, screen=screen)
            except InputError as error:
                screen.say(str(error))
                sys.exit(2)
        return
    import search_work  # under its own name, by which another process finds it, too

    cluster = Cluster(given.cluster, given.cpus, 0)
    check(cluster)
    check_shared(where, cluster)
    with connected(cluster) as nodes, Screen() as screen, Interrupts(screen.say) as asked:
        work(partial(search_work.start, plain), given.workers, asked=asked, screen=screen, nodes=nodes)


if __name__ == "__main__":
    main()
