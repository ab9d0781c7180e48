"""`isoscope plan`: what `isoscope repro` would do and what it would take, without doing it.

DVC says which stages have changed. A stage after them runs if their outputs change: those of `train` and `states` do if
a cell is not found. Nothing is written but what DVC keeps about hashes.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from timeit import timeit
from typing import Any

from isoscope.base import built_in, kind, paths
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.platform.config import load, tree
from isoscope.platform.executor.placement import Placement
from isoscope.platform.figures.numbers import count
from isoscope.platform.runs import prepared, stored
from isoscope.platform.runs.durations import Estimate, History, combined, updates_of
from isoscope.platform.stages import states, study_cells, train
from isoscope.platform.stages.why import cause, stage_reasons

ORDER = ("prepare", "search", "train", "states", "analyse", "compare", "report")
STATES = FOUND, RESUME, RUN = "found", "resume", "run"
TIMES = ("seconds", "low", "high")
# Updates that --measure does first, because the first updates take longer, and updates that it times.
WARM, TIMED = 2, 8
ROW = "{:24} {:>5} {:>6} {:>4}  {:22} {}"


class _Looked(states.Cell):
    """A cell of `states` whose runs are only looked at."""

    def carry(self, run: Any, *_: Any, **about: Any) -> Any:
        return run.output if stored.files_of(run.project, run.digest) else None


class Planner:
    """Looks at the stages of a project. `measure`: time updates of models that no recorded run is like."""

    def __init__(self, configuration: load.Configuration, project: paths.Project, *, measure: bool = False) -> None:
        self.setup, self.measure = study_cells.Setup(configuration, project, "train"), measure
        self.project, self.root, self.history = project, configuration.root, History(project)
        self._to_train, self._counted, self._of_arm = set[str](), set[str](), dict[Any, Estimate]()
        of = {"prepare": self.root.tasks, "compare": self.root.comparisons, "search": ("",), "report": ("",)}
        self.names = [f"{one}@{name}".rstrip("@") for one in ORDER for name in of.get(one, self.root.studies)]

    def stages(self, target: str | None = None) -> Iterator[dict[str, Any]]:
        """Yield the stages that would run, in the pipeline's order, as JSON data. Raises `InputError` if DVC refuses.

        `target`: only those of a study, comparison or kind of stage; a cell of several studies is of the first of them.
        `cells`: of arm and seed, each with its `state` and the estimate of what is left; a cell to train also has
        `why`: how it differs from finished runs. `estimate`: of the known part; `unknown`: how many cells have none.
        """
        folder, lock, changing = self.project.folder, self.project.folder / stored.LOCK, list[str]()
        reasons = stage_reasons(self.setup.configuration, self.project)
        locked = tree.read_yaml(folder, stored.LOCK, most=None)["stages"] if lock.is_file() else {}
        at = {
            **{(name, "params"): [*of.get("params", {}).get(str(paths.PARAMS), ())] for name, of in locked.items()},
            **{(name, "deps"): [one["path"] for one in of.get("deps", ())] for name, of in locked.items()},
            **{(name, "outs"): [one["path"] for one in of.get("outs", ())] for name, of in locked.items()},
        }
        for name in dict.fromkeys([*self.names, *reasons]):
            stage, _, study = name.partition("@")
            why = [
                *reasons.get(name, ()),
                *(
                    f"-S {one.name}"
                    for one in self.setup.configuration.overrides
                    if _overlap([one.name], at.get((name, "params"), ()), ".")
                ),
                *(
                    f"after {one}"
                    for one in changing
                    if _overlap(at.get((one, "outs"), ()), at.get((name, "deps"), ()), "/")
                ),
            ]
            if why:
                counted, shown = {*self._counted}, target in (None, name, stage, study)
                found = self._stage(stage, study)
                self._counted = self._counted if shown else counted
                # A folder or a section that DVC names says less than how the cells differ from finished runs.
                if cells := dict.fromkeys(text for cell in found["cells"] for text in cell.get("why", ())):
                    why = [*cells, *(one for one in why if one.startswith("after"))]
                if shown:
                    yield {"stage": name, "why": why, **found}
                changing += [name] * (
                    stage not in ("train", "states") or any(one["state"] != FOUND for one in found["cells"])
                )

    def _stage(self, stage: str, study: str) -> dict[str, Any]:
        """Return the cells of a stage that would run, and its estimate."""
        cells, read, root, usual = list[dict[str, Any]](), list[Any](), self.root, None
        if has_cells := stage in ("train", "states"):
            settings, arms, look = root.studies[study], self.setup.configuration.cells(study), self._training
            asked, read = settings.seeds, [one.cell.training for one in arms.values()]
            if stage == "states":
                asked = asked if settings.states or kind.kind(settings.kind).stores else ()
                look, read, usual = self._states, [root.extraction, root.measures], root.measures.processes
            cells = [cell for arm in arms for seed in asked for cell in look((study, arm, seed), settings.task)]
        left = [one["estimate"] for one in cells if one["state"] != FOUND] if has_cells else [self._like(stage, study)]
        device = max((one.device for one in read), key=("cpu", "auto", "cuda").index, default="cpu")
        threads = max((one.threads for one in read if one.threads), default=None)
        with Placement(gpus=root.execution.gpus_per_run).opened(threads, device=device, project=self.project) as place:
            most = min(place.usual if device != "cpu" else usual or place.usual, place.room, len(left))
        return {
            "cells": cells,
            "workers": (workers := int(max(1, most))),
            "cpus": threads or 1,
            "gpus": int(place.room < float("inf")),
            "estimate": makespan([*filter(None, left)], workers),
            "unknown": left.count(None),
        }

    def _training(self, name: tuple[str, str, int], task: str) -> list[dict[str, Any]]:
        """Return a cell to train, after those that it starts from and that are not counted yet."""
        try:
            prepared.check_prepared(self.project, self.setup.configuration, task)
            return self._jobs(study_cells.training_job(self.setup, *name))
        except InputError as error:
            return [_cell(name, RUN, note=str(error))]

    def _jobs(self, work: train.CellJob) -> list[dict[str, Any]]:
        if work.run.digest in self._counted or stored.files_of(work.run.project, work.run.digest):
            return [_cell(work.cell, FOUND)]
        self._to_train.add(work.run.digest)
        self._counted.add(work.run.digest)
        starts = [cell for start in work.starts.values() for cell in self._jobs(start) if cell["state"] != FOUND]
        known = train.expected(work, self.history) or (self._timed(work) if self.measure else None)
        begun = work.run.states.is_dir() and not stored.finished(self.project, work.run.digest)
        why = [one.text for one in cause(work.run).differences]
        return [*starts, _cell(work.cell, RESUME if begun else RUN, known, why=why)]

    def _timed(self, work: train.CellJob) -> Estimate:
        """Return the estimate for a cell from a few updates of its arm, done now in a temporary folder."""
        if (arm := work.cell[:2]) not in self._of_arm:
            total = updates_of(tree.flatten(work.run.identity.params), work.job.manifest["splits"]["train"])
            do = partial(built_in.load(built_in.STAGES, "train").rehearse, work.job)
            # The first loads what all need.
            _, few, more = (timeit(partial(do, min(one, total)), number=1) for one in (WARM, WARM, WARM + TIMED))
            self._of_arm[arm] = combined([((few, max(0.0, more - few) / TIMED), 1.0)], total) | {"runs": 0}
        return self._of_arm[arm]

    def _states(self, name: tuple[str, str, int], task: str) -> list[dict[str, Any]]:
        """Return a cell of `states`; of a model that is to be trained, it is to run."""
        with suppress(InputError):
            trained = study_cells.training_job(self.setup, *name).run.digest not in self._to_train
            looked = _Looked(*name, task, self.project, publish=False, stop=StopSignal(), find=True)
            if trained and states.states(self.root.extraction, self.root.measures, looked):
                return [_cell(name, FOUND)]
        parts = [part for stage in ("extract", "measure") if (part := self._like(stage, name[0]))]
        return [_cell(name, RUN, makespan(parts, 1) if len(parts) == 2 else None)]

    def _like(self, stage: str, study: str) -> Estimate | None:
        """Return the estimate from runs of a stage: of this study, else of any."""
        return self.history.estimate(
            (lambda run: run.stage == stage and study in (run.study, ""), lambda run: run.stage == stage)
        )


def _overlap(some: Iterable[str], others: Iterable[str], by: str) -> bool:
    """Return whether a name of `some` lies in a name of `others`, or the reverse."""
    return any(f"{a}{by}".startswith(f"{b}{by}") or f"{b}{by}".startswith(f"{a}{by}") for a in some for b in others)


def _cell(name: tuple[str, str, int], state: str, estimate: Estimate | None = None, **about: Any) -> dict[str, Any]:
    return {**dict(zip(("study", "arm", "seed"), name, strict=True)), "state": state, "estimate": estimate, **about}


def makespan(parts: list[Estimate], workers: int) -> Estimate:
    """Return the estimate for runs in this order, each begun by the first free worker, with their size and memory."""
    ends = [dict.fromkeys(TIMES, 0.0) for _ in range(workers)]
    for part in parts:
        first = min(ends, key=lambda one: one["seconds"])
        first |= {name: busy + part[name] for name, busy in first.items()}
    return {
        **{name: max(one[name] for one in ends) for name in TIMES},
        "size": sum(one["size"] for one in parts),
        "memory": max((one["memory"] for one in parts), default=0),
    }


def plan(planner: Planner, target: str | None) -> dict[str, Any]:
    """Return what would run: all stages, or those of a study, comparison or kind of stage, as JSON data.

    Raises `InputError` for another target, or if DVC refuses.
    """
    names = dict.fromkeys(part for one in planner.names for part in one.split("@"))
    if target not in (None, *names, *planner.names):
        raise InputError(
            f"plan {target}: no study, comparison or stage of the project; choose from: {', '.join(names)}"
        )
    stages = [*planner.stages(target)]
    left = [cell["estimate"] for one in stages for cell in one["cells"] if cell["state"] != FOUND]
    cluster = {name: max((one[name] for one in stages), default=0) for name in ("workers", "cpus", "gpus")}
    cluster |= {"runs": len(left), "longest": max((one["seconds"] for one in left if one), default=0)}
    known = makespan([one["estimate"] for one in stages], 1)
    about = {"past": planner.history.past(), "measured": planner.measure}
    return {"stages": stages, "total": known, "cluster": cluster, **about}


def text(plan: Mapping[str, Any]) -> str:
    """Return a plan for people."""
    stages, total, cluster, past = (plan[name] for name in ("stages", "total", "cluster", "past"))
    rows = [
        (
            one["stage"],
            *(sum(cell["state"] == state for cell in one["cells"]) or "" for state in STATES),
            "not known" if one["unknown"] else _time(one["estimate"]),
            "; ".join(one["why"][:2]) + "; …" * (len(one["why"]) > 2),
        )
        for one in stages
    ]
    unknown = ", ".join(one["stage"] for one in stages if one["unknown"])
    lines = {
        "\n".join(ROW.format(*row) for row in (("stage", *STATES, "time", "why"), *rows)): stages,
        (f"about {_time(total)}" if total["seconds"] or not unknown else "time not known")
        + f", {total['size'] / 1e6:.0f} MB" * bool(total["size"])
        + f", {count(cluster['workers'], 'worker')}"
        + f", {total['memory'] / 1e3:.1f} GB of memory in use on the machine" * bool(total["memory"]): stages,
        f"not recorded, so not counted: {unknown}"
        + "; isoscope plan --measure times models" * (not plan["measured"]): unknown,
        f"on a cluster: {count(cluster['runs'], 'run')}, each on {count(cluster['cpus'], 'CPU')}"
        + " and a GPU" * cluster["gpus"]
        + f", the longest for {cluster['longest']:.0f} s" * bool(cluster["longest"]): cluster["runs"],
        f"past estimates: median error {past['median_error']:.0%} of {count(past['runs'], 'run')}": past["runs"],
        "nothing to do": not stages,
        **{cell["note"]: True for one in stages for cell in one["cells"] if "note" in cell},
    }
    return "\n".join(line for line, holds in lines.items() if holds)


def _time(of: Estimate) -> str:
    """Return a time with its interval, such as 12 min (9 to 16)."""
    by, unit = (60, "min") if of["seconds"] >= 150 else (1, "s")
    return f"{of['seconds'] / by:.0f} {unit} ({of['low'] / by:.0f} to {of['high'] / by:.0f})"
