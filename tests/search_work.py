"""A search whose runs only sleep, step by step with a checkpoint: `python search_work.py FOLDER OPTIONS` (JSON)."""

import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from optuna.trial import Trial

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.live_table import Progress
from isoscope.platform.executor.placement import Placement
from isoscope.platform.search.driver import Driver
from isoscope.platform.search.records import Records
from isoscope.platform.search.status import Interrupts, LiveStatus, status
from isoscope.platform.search.storage import Place, place
from isoscope.platform.search.study import HeldStudy, held_study
from isoscope.platform.search.under_way import Job
from isoscope.platform.stages.mirror import following

HEAVY = 10
"""Weight from which runs break, where they are to."""
IDENTITY = {"search": "sleep", "code": "none", "inputs": {}}
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


class NoRuns:
    """A trial's only run, which is never carried out."""

    digest, steps = "none", 1

    def done(self) -> bool:
        return False


def never(chosen: Mapping[str, Any]) -> Sequence[Any]:
    """Runs of a trial that nobody carries out."""
    return [NoRuns()]


def a_driver(one: HeldStudy, plan: Callable[[Mapping[str, Any]], Sequence[Job]] = never, **given: Any) -> Driver:
    """A driver of a held study, by default to begin trials only."""
    plain = {
        "workers": 1,
        "place": None,
        "screen": LiveStatus(one, workers=1),
        "asked": SimpleNamespace(finish=False, stop=False),
        "records": SimpleNamespace(provenance={}, trial=lambda trial: None),
    }
    return Driver(one, plan, **(plain | given))  # type: ignore[arg-type]


@contextmanager
def driven(search: Search, where: Place, **given: Any) -> Iterator[tuple[HeldStudy, Callable[[], Trial | None]]]:
    """Hold a study; give it and a function that begins the next trial, which stays under way."""
    with held_study(search, given.pop("identity", IDENTITY), where, steps=1, **given) as one:
        driver = a_driver(one)

        def begin() -> Trial | None:
            fresh = driver._claimed()
            if fresh is None:
                return None
            driver.trials[fresh.title] = fresh
            trial: Trial = fresh.trial
            return trial

        yield one, begin


class Sleeping:
    """A run of `steps` steps; after a kill it continues, and each finished step is noted once.

    While there is a file `hold` in the folder, it waits after its first step.
    """

    arguments = ()

    def __init__(self, folder: Path, chosen: Mapping[str, Any], seconds: float, steps: int, broken: str) -> None:
        self.chosen, self.seconds, self.steps, self.broken = chosen, seconds, steps, broken
        self.folder, self.hold = folder, folder / "hold"
        self.digest = "-".join(f"{name}={value}" for name, value in chosen.items()).replace("/", "_") or "default"
        self.file = folder / "runs" / f"{self.digest}.json"

    def do(self, shown: Progress) -> str:
        """Sleep; heavy runs break in the way that `--broken` names."""
        if float(self.chosen.get("penalty.weight", 0)) > HEAVY and "run" in self.broken:
            raise ValueError("too heavy to run")
        self.file.parent.mkdir(parents=True, exist_ok=True)
        if os.environ.get("RAY_RAYLET_PID"):
            (self.folder / "nodes").mkdir(exist_ok=True)
            (self.folder / "nodes" / f"{os.getpid()}").write_text(os.environ["RAY_RAYLET_PID"])
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
        return ""

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


GIVEN: dict[str, Any] = {
    "url": None,
    "trials": 6,
    "workers": 1,
    "seconds": 0.1,
    "steps": 2,
    "changed": {},  # of the search
    "broken": "",  # run, nan, unlogged: what goes wrong
    "mirror": False,  # into MLflow, as it goes
    "cluster": None,
    "cpus": 1,
}


def main(folder: Path, **changed: Any) -> None:
    """Work on the study in a folder until its budget is spent; `changed`: of `GIVEN`."""
    given = SimpleNamespace(**GIVEN | changed)
    import search_work  # under its own name, by which another process finds it, too

    search = a_search(budget={"trials": given.trials, "hours": None}, **given.changed)
    project = Project(folder, folder)
    try:
        with held_study(search, IDENTITY, place(given.url, folder), steps=given.steps) as one:
            records = Records(project, search, identity=IDENTITY, name=one.study.study_name)
            placement = Placement(given.cluster, given.cpus, 0 if given.cluster else None).check()
            mirror = following(project) if given.mirror else nullcontext()
            with (
                placement.opened(1, device="cpu", project=project) if given.cluster else nullcontext() as where,
                mirror,
                LiveStatus(one, workers=given.workers) as screen,
                Interrupts(screen.say) as asked,
                records.study(partial(status, one.study, search)),
            ):
                a_driver(
                    one,
                    lambda chosen: [search_work.Sleeping(folder, chosen, given.seconds, given.steps, given.broken)],
                    workers=given.workers,
                    place=where,
                    screen=screen,
                    asked=asked,
                    records=records,
                ).run()
    except InputError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main(Path(sys.argv[1]), **json.loads(sys.argv[2]))
