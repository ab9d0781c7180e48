"""`isoscope plan`: what `isoscope repro` would do and what it would take, without doing it.

DVC says which stages have changed. A stage after them runs if their outputs change: those of `train` and `states` do if
a cell is not found. Nothing is written but what DVC keeps about hashes.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from math import inf
from pathlib import Path
from timeit import timeit
from typing import Any

from isoscope.base import built_in, kind, paths
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.platform.config import load, new_project, tree
from isoscope.platform.executor.placement import Placement
from isoscope.platform.runs import prepared, stored
from isoscope.platform.runs.durations import Estimate, History, combined, updates_of
from isoscope.platform.stages import states, study_cells, train

ORDER = ("prepare", "search", "train", "states", "analyse", "compare", "report")
STATES = FOUND, RESUME, RUN = "found", "resume", "run"
TIMES = ("seconds", "low", "high")
# Updates that --measure does first, because the first updates take longer, and updates that it times.
WARM, TIMED = 2, 8
ROW = "{:24} {:>5} {:>6} {:>4}  {:22} {}"


class _Looked(states.Cell):
    """A cell of `states` whose runs are only looked at."""

    def carry(self, run: Any, *_: Any, **about: Any) -> Path | None:
        return run.output if is_finished(run) else None


class Planner:
    """Looks at the stages of a project. `measure`: time updates of models that no recorded run is like."""

    def __init__(self, configuration: load.Configuration, project: paths.Project, *, measure: bool = False) -> None:
        self.setup, self.measure = study_cells.Setup(configuration, project, "train"), measure
        self.project, self.root, self.history = project, configuration.root, History(project)
        self._to_train, self._of_arm = set[str](), dict[Any, Estimate]()

    def stages(self) -> Iterator[dict[str, Any]]:
        """Yield the stages that would run, in the pipeline's order, as JSON data. Raises `InputError` if DVC refuses.

        `cells`: of arm and seed, each with its `state` and the estimate of what is left. `estimate`: of the known
        part; `unknown`: how many cells have none.
        """
        folder, root, lock = self.project.folder, self.root, self.project.folder / stored.LOCK
        status, code, overrides = dvc_status(folder), new_project.outdated(folder), self.setup.configuration.overrides
        locked = tree.read_yaml(folder, stored.LOCK, most=None)["stages"] if lock.is_file() else {}
        of, changing = (
            {"prepare": root.tasks, "compare": root.comparisons, "search": ("",), "report": ("",)},
            list[str](),
        )
        names = [f"{one}@{name}".rstrip("@") for one in ORDER for name in of.get(one, root.studies)]
        for name in dict.fromkeys([*names, *status]):
            own, (stage, _, study) = locked.get(name, {}), name.partition("@")
            changes = (pair for one in status.get(name, ()) for pair in tree.flatten(one).items())
            sections, deps = own.get("params", {}).get(str(paths.PARAMS), ()), _paths(own, "deps")
            why = [
                *(f"{what.partition('.')[2]} {how}".strip() for what, how in changes),
                *["code.yaml: other code"] * (stage in code),
                *(f"-S {one.name}" for one in overrides if _overlap([one.name], sections, ".")),
                *(f"after {one}" for one in changing if _overlap(_paths(locked.get(one, {}), "outs"), deps, "/")),
            ]
            if why:
                yield (found := {"stage": name, "why": why, **self._stage(stage, study)})
                same = stage in ("train", "states") and all(one["state"] == FOUND for one in found["cells"])
                changing += [] if same else [name]

    def _stage(self, stage: str, study: str) -> dict[str, Any]:
        """Return the cells of a stage that would run, and its estimate."""
        if stage not in ("train", "states"):
            known = self._like(stage, study)
            return {"cells": [], "workers": 1, "cpus": 1, "gpus": 0, "estimate": known, "unknown": int(known is None)}
        settings, arms, root = self.root.studies[study], self.setup.configuration.cells(study), self.root
        read: list[Any] = [root.extraction, root.measures]
        look, asked = self._states, settings.states or kind.kind(settings.kind).stores
        if stage == "train":
            read, look, asked = [one.cell.training for one in arms.values()], self._training, True
        every = [(study, arm, seed) for arm in arms for seed in settings.seeds if asked]
        cells = [cell for one in every for cell in look(one, settings.task)]
        left = [one["estimate"] for one in cells if one["state"] != FOUND]
        device = max((one.device for one in read), key=("cpu", "auto", "cuda").index, default="cpu")
        threads = max((one.threads for one in read if one.threads), default=None)
        usual = root.measures.processes if stage == "states" and device == "cpu" else None
        with Placement(gpus=root.execution.gpus_per_run).opened(threads, device=device, project=self.project) as place:
            workers = int(max(1, min(usual or place.usual, place.room, len(left))))
        needs = {"workers": workers, "cpus": threads or 1, "gpus": int(place.room < inf), "unknown": left.count(None)}
        return {"cells": cells, **needs, "estimate": makespan([*filter(None, left)], workers)}

    def _training(self, name: tuple[str, str, int], task: str) -> list[dict[str, Any]]:
        """Return a cell to train, after those that it starts from and that are not counted yet."""
        try:
            prepared.check_prepared(self.project, self.setup.configuration, task)
            return self._jobs(study_cells.training_job(self.setup, *name))
        except InputError as error:
            return [_cell(name, RUN, note=str(error))]

    def _jobs(self, work: train.CellJob) -> list[dict[str, Any]]:
        if work.run.digest in self._to_train or is_finished(work.run):
            return [_cell(work.cell, FOUND)]
        self._to_train.add(work.run.digest)
        starts = [cell for start in work.starts.values() for cell in self._jobs(start) if cell["state"] != FOUND]
        device, threads = work.job.parts.training.device, work.job.parts.training.threads
        where = {"device": None if device == "auto" else device, "threads": threads, "processes": 1}
        known = train.expected(work, self.history, **where) or (self._timed(work) if self.measure else None)
        return [*starts, _cell(work.cell, RESUME if work.run.states.is_dir() else RUN, known)]

    def _timed(self, work: train.CellJob) -> Estimate:
        """Return the estimate for a cell from a few updates of its arm, done now in a temporary folder."""
        if (arm := work.cell[:2]) not in self._of_arm:
            science, split = built_in.load(built_in.STAGES, "train"), work.job.manifest["splits"]["train"]
            total = updates_of(tree.flatten(work.run.identity.params), split)
            rehearsals = [partial(science.rehearse, work.job, min(one, total)) for one in (WARM, WARM, WARM + TIMED)]
            _, few, more = (timeit(one, number=1) for one in rehearsals)  # the first loads what all need
            self._of_arm[arm] = combined([((few, max(0.0, more - few) / TIMED), 1.0)], total) | {"runs": 0}
        return self._of_arm[arm]

    def _states(self, name: tuple[str, str, int], task: str) -> list[dict[str, Any]]:
        """Return a cell of `states`; of a model that is to be trained, it is to run."""
        looked = _Looked(*name, task, self.project, publish=False, stop=StopSignal(), find=True)
        with suppress(InputError):
            trained = study_cells.training_job(self.setup, *name).run.digest not in self._to_train
            if trained and states.states(self.root.extraction, self.root.measures, looked):
                return [_cell(name, FOUND)]
        parts = [part for stage in ("extract", "measure") if (part := self._like(stage, name[0]))]
        return [_cell(name, RUN, makespan(parts, 1) if len(parts) == 2 else None)]

    def _like(self, stage: str, study: str) -> Estimate | None:
        """Return the estimate from runs of a stage: of this study, else of any."""
        return self.history.estimate(
            (lambda run: run.stage == stage and study in (run.study, ""), lambda run: run.stage == stage)
        )


def is_finished(run: Any) -> bool:
    """Return whether a run is finished here: stored, published, or restorable from DVC's cache. Writes nothing."""
    of = (run.project, run.digest)
    return stored.output_fault(*of) is None or bool(stored.whole_files(*of, stored.finished(*of)))


def dvc_status(folder: Path) -> dict[str, list[Any]]:
    """Return stage → what has changed of it, as `dvc status --json` says. Raises `InputError` if DVC refuses."""
    command = (sys.executable, "-m", "dvc", "status", "--json")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"dvc status: {(done.stderr.strip().splitlines() or ['failed'])[-1]}")
    return dict(json.loads(done.stdout))


def _paths(of: Mapping[str, Any], what: str) -> list[str]:
    return [str(one["path"]) for one in of.get(what, ())]


def _overlap(some: Iterable[str], others: Iterable[str], by: str) -> bool:
    """Return whether a name of `some` lies in a name of `others`, or the reverse."""
    return any(f"{a}{by}".startswith(f"{b}{by}") or f"{b}{by}".startswith(f"{a}{by}") for a in some for b in others)


def _cell(name: tuple[str, str, int], state: str, estimate: Estimate | None = None, **note: str) -> dict[str, Any]:
    return {**dict(zip(("study", "arm", "seed"), name, strict=True)), "state": state, "estimate": estimate, **note}


def makespan(parts: list[Estimate], workers: int) -> Estimate:
    """Return the estimate for runs in this order, each begun by the first free worker, with their size and memory."""
    ends = [dict.fromkeys(TIMES, 0.0) for _ in range(workers)]
    for part in parts:
        first = min(ends, key=lambda one: one["seconds"])
        first |= {name: busy + part[name] for name, busy in first.items()}
    return {name: max(one[name] for one in ends) for name in TIMES} | _needs(parts)


def _needs(parts: list[Estimate]) -> Estimate:
    return {"size": sum(one["size"] for one in parts), "memory": max((one["memory"] for one in parts), default=0)}


def plan(planner: Planner, target: str | None) -> dict[str, Any]:
    """Return what would run: all stages, or those of a study, comparison or kind of stage, as JSON data."""
    stages = [one for one in planner.stages() if target in (None, one["stage"], *one["stage"].split("@"))]
    known = [one["estimate"] for one in stages if one["estimate"]]
    left = [cell["estimate"] for one in stages for cell in one["cells"] if cell["state"] != FOUND]
    cluster = {name: max((one[name] for one in stages), default=0) for name in ("workers", "cpus", "gpus")}
    cluster |= {"runs": len(left), "longest": max((one["seconds"] for one in left if one), default=0)}
    total = {name: sum(one[name] for one in known) for name in TIMES} | _needs(known)
    return {"stages": stages, "total": total, "cluster": cluster, "past": planner.history.past()}


def text(plan: Mapping[str, Any]) -> str:
    """Return a plan for people."""
    stages, total, cluster, past = (plan[name] for name in ("stages", "total", "cluster", "past"))
    counts = ([sum(cell["state"] == one for cell in stage["cells"]) or "" for one in STATES] for stage in stages)
    times = (_time(one["estimate"]) if one["estimate"] else "not known" for one in stages)
    why = ("; ".join(one["why"][:2]) + "; …" * (len(one["why"]) > 2) for one in stages)
    rows = [(one["stage"], *count, time, of) for one, count, time, of in zip(stages, counts, times, why, strict=True)]
    unknown = ", ".join(one["stage"] for one in stages if one["unknown"])
    memory = f", {total['memory'] / 1e3:.1f} GB in use on the machine" * bool(total["memory"])
    said = {
        f"about {_time(total)}, {total['size'] / 1e6:.0f} MB, {cluster['workers']} workers{memory}": stages,
        f"not recorded, so not counted: {unknown}; isoscope plan --measure times models": unknown,
        f"on a cluster: {cluster['runs']} runs, each on {cluster['cpus']} CPUs{' and a GPU' * cluster['gpus']}, the "
        f"longest for {cluster['longest']:.0f} s": cluster["runs"],
        f"past estimates: median error {past['median_error']:.0%} of {past['runs']} runs": past["runs"],
        "nothing to do": not stages,
    }
    notes = {cell["note"]: None for one in stages for cell in one["cells"] if "note" in cell}
    table = [ROW.format(*row) for row in (("stage", *STATES, "time", "why"), *rows)] if stages else []
    return "\n".join([*table, *(line for line, holds in said.items() if holds), *notes])


def _time(of: Estimate) -> str:
    """Return a time with its interval, such as 12 min (9 to 16)."""
    by, unit = (60, "min") if of["seconds"] >= 150 else (1, "s")
    return f"{of['seconds'] / by:.0f} {unit} ({of['low'] / by:.0f} to {of['high'] / by:.0f})"
