"""What a new run has of the finished runs of its study, arm and seed: the state to start from, or why it has none.

A run of more epochs has a shorter run as its beginning if all else is equal and nothing in it depends on its length.
"""

import json
import math
import shutil
from pathlib import Path
from typing import Any

from isoscope.base.atomic_files import MANIFEST, fault, replacing, seal
from isoscope.base.paths import Project
from isoscope.platform.config.tree import Tree
from isoscope.platform.runs import stored
from isoscope.platform.runs.differences import differences
from isoscope.platform.runs.lines import PLUGIN, Run
from isoscope.platform.runs.output_files import METRICS
from isoscope.platform.runs.record import identities
from isoscope.platform.runs.run import Run as OwnedRun

_SHOWN = 3
_LENGTH = ("training.epochs", "training.budget", "training.schedule")


def continued(run: OwnedRun) -> str | None:
    """Give a new run the kept state of the longest finished run that is its beginning; only for the run's owner.

    Return a line that says so, or why it does not continue a finished run of its names; None if there is no such run.
    Runs of a search are no such runs: they differ by their purpose.
    """
    params, done = run.identity.params, finished_runs(run.project, other_than=run.digest, **run.identity.names)
    if run.tags or not done:
        return None
    last = done[-1]
    epochs = {one.digest: one.params.get("training.epochs") for one in done}
    asked = {one: params | {"training": params["training"] | {"epochs": many}} for one, many in epochs.items()}
    alike = [one for one in done if run.identity._replace(params=asked[one.digest]).digest == one.digest]
    if shorter := [one for one in alike if epochs[one.digest] < params["training"]["epochs"]]:
        states = {one.digest: stored.states_of(run.project.runs / one.digest) for one in shorter}
        last = max(shorter, key=lambda one: (bool(states[one.digest]), epochs[one.digest]))
        called = f"the run of {epochs[last.digest]} epoch{'s' * (epochs[last.digest] != 1)}"
        why = _take_state(run, last, states[last.digest], called)
        if why is None:
            return f"continues {called} ({last.digest[:12]}) from its kept state"
    changed = differences(run.project, last, run.line, brief=True)
    if not shorter:
        why = _unmet(params, math.inf) if any(one.name.startswith(_LENGTH) for one in changed) else None
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    starts = any(role.startswith("start_") for role in run.identity.inputs)
    reused = "the prepared data" + " and the runs that it starts from" * starts
    return (
        f"not a continuation of the finished run {last.digest[:12]}: {', '.join(one.text for one in changed[:_SHOWN])}"
        f"{more}{f'; {why}' if why else ''}; it trains from epoch 1, and reuses {reused}"
    )


def finished_runs(project: Project, other_than: str = "", **names: Any) -> list[Run]:
    """Return the identities of the finished runs of these names, the last at the end; none that a search began."""
    same = [one for one in identities(project.records) if {name: getattr(one, name) for name in names} == names]
    before = [one for one in same if all(name.startswith(PLUGIN) for name in one.tags)]
    done = [one for one in before if one.digest != other_than and stored.finished(project, one.digest)]
    return sorted(done, key=lambda one: one.t)


def _unmet(params: Tree, updates: float) -> str | None:
    """Return the first condition that a run fails, so that no shorter run, of so many `updates`, is its beginning."""
    training, observers = params["training"], ", ".join(params["observers"])
    patience, warmup = training["patience"], params["penalty"].get("warmup", 0)
    intervals = [(f"training.{name}", training[name]) for name in ("allocation", "slices") if training.get(name)]
    conditions = {
        "training.budget is not null: it decides where a run ends": training["budget"] is not None,
        "training.schedule.epochs is null: the schedule of the learning rate covers the whole run": (
            training["schedule"]["epochs"] is None
        ),
        f"training.patience is {patience}, not null: early stopping decides where a run ends": patience is not None,
        f"penalty.warmup is {warmup}: a share of the whole run": warmup > 0,
        **{f"{name}.chords is not 0: they cover the whole run": one["chords"] > 0 for name, one in intervals},
        **{
            f"{name}.dense exceeds the {updates} updates of the shorter run": one["dense"] > updates
            for name, one in intervals
        },
        f"observers ({observers}): what a plugin observes may depend on the length of the run": bool(observers),
    }
    return next((why for why, failed in conditions.items() if failed), None)


def _take_state(run: OwnedRun, shorter: Run, states: list[Path], called: str) -> str | None:
    """Copy the last of a finished run's `states`, with the files that it needs, to `run`; return why it is not usable.

    The files are linked or copied; both runs only ever replace them. The folder of states comes last and whole, so a
    kill before leaves a run that has not begun.
    """
    step = int(states[-1].name.partition("-")[2]) if states else math.inf
    if wrong := _unmet(run.identity.params, step):
        return wrong
    if not states:
        return f"{called} kept no state (training.keep_state)"
    if wrong := fault(states[-1]):
        return f"{called} kept a damaged state: {wrong}"
    files = stored.files_of(run.project, shorter.digest)
    if METRICS not in files:
        return f"the output of {called} is not here; restore it with dvc pull"
    held = json.loads((states[-1] / "progress.json").read_text("utf-8"))["held"]
    with replacing(run.work, "checkpoint") as fresh:
        for name in (
            one for one in files if one.startswith((METRICS, *(f"{of}/" for of in held))) and not one.endswith(MANIFEST)
        ):
            (fresh / name).parent.mkdir(parents=True, exist_ok=True)
            stored.duplicate(files[name], fresh / name)
        for name in held:
            seal(fresh / name)  # as it was: a published output has no manifests
    with replacing(run.states, "state") as fresh:
        shutil.copytree(states[-1], fresh / states[-1].name, copy_function=stored.duplicate)
        (fresh / stored.BEGAN).write_text(json.dumps({"run": shorter.digest, "step": step}) + "\n", "utf-8")
    return None
