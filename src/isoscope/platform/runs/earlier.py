"""What a new run has of the finished runs of its study, arm and seed: the state to start from, or why it has none.

A run of more epochs has a shorter run as its beginning if all else is equal and nothing in it depends on its length.
"""

import json
from collections.abc import Iterator
from pathlib import Path

from isoscope.base.atomic_files import MANIFEST, fault, replacing, seal
from isoscope.platform.config.tree import NOT_IN_DIGEST, Tree, changes, flatten
from isoscope.platform.runs.lines import Run, RunRecord, plugin_tags
from isoscope.platform.runs.restored import METRICS
from isoscope.platform.runs.run import Run as OwnedRun
from isoscope.platform.runs.stored import (
    BEGAN,
    duplicate,
    files_in,
    finished,
    output_fault,
    states_of,
    whole_files,
    written,
)

_SHOWN = 3
_LENGTH = ("training.epochs", "training.budget", "training.schedule")


def continued(run: OwnedRun) -> str | None:
    """Give a new run the kept state of the longest finished run that is its beginning; only for the run's owner.

    Return a line that says so, or why it does not continue a finished run of its names; None if there is no such run.
    Runs of a search are no such runs: they differ by their purpose.
    """
    names = run.identity.names
    before = [one for one in _runs(run) if {name: getattr(one, name) for name in names} == names]
    done = [one for one in before if one.digest != run.digest and finished(run.project, one.digest)]
    if run.tags or not done:
        return None
    last, why = max(done, key=lambda one: one.t), None
    shorter = {epochs: one for one in done if (epochs := _epochs(run, one)) is not None}
    unmet = _unmet(run.identity.params)
    for epochs in sorted(shorter, reverse=True):
        wrong = unmet or _take_state(run, shorter[epochs].digest, epochs)
        if wrong is None:
            return f"continues the finished run of {epochs} epochs ({shorter[epochs].digest[:12]}) from its kept state"
        if why is None:
            last, why = shorter[epochs], wrong
    changed = _changes(run, last)
    more = f" and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
    if why is None and any(name.startswith(_LENGTH) for name in changed):
        why = unmet
    starts = any(role.startswith("start_") for role in run.identity.inputs)
    reused = "the prepared data" + " and the runs that it starts from" * starts
    return (
        f"not a continuation of the finished run {last.digest[:12]}: {', '.join([*changed.values()][:_SHOWN])}{more}"
        f"{f'; {why}' if why else ''}; it trains from epoch 1, and reuses {reused}"
    )


def _runs(run: OwnedRun) -> Iterator[Run]:
    """Yield the identity in the first line of every record, except of runs of a search."""
    for path in run.project.records.glob("*.jsonl"):
        record = RunRecord(path=path)
        with path.open("rb") as file:
            record.add(file.readline().rstrip(b"\n"))
        if record.run is not None and not set(record.run.tags) - plugin_tags(run.identity.plugins).keys():
            yield record.run


def _epochs(run: OwnedRun, other: Run) -> int | None:
    """Return the epochs of a run that differs from `run` in its fewer epochs only; None if it is no such run."""
    one, epochs = run.identity, other.params.get("training.epochs")
    training = one.params.get("training", {})
    if not isinstance(epochs, int) or epochs >= training.get("epochs", 0):
        return None
    shorter = one._replace(params=one.params | {"training": training | {"epochs": epochs}})
    return epochs if shorter.digest == other.digest else None


def _unmet(params: Tree) -> str | None:
    """Return the first condition that a run with these parameters fails, so that no shorter run is its beginning."""
    training, warmup = params["training"], params["penalty"].get("warmup", 0)
    patience, observers = training["patience"], ", ".join(params["observers"])
    chords = {name: settings["chords"] for name, settings in _intervals(training)}
    conditions = (
        (
            training["schedule"]["epochs"] is None,
            "training.schedule.epochs is null: the schedule of the learning rate covers the whole run",
        ),
        (patience is not None, f"training.patience is {patience}, not null: early stopping decides where a run ends"),
        (training["budget"] is not None, "training.budget is not null: it sets the length of the schedule"),
        (warmup > 0, f"penalty.warmup is {warmup}: a share of the whole run"),
        *((many > 0, f"training.{name}.chords is {many}: they cover the whole run") for name, many in chords.items()),
        (bool(observers), f"observers: {observers} may depend on the length of the run"),
    )
    return next((why for failed, why in conditions if failed), None)


def _intervals(training: Tree) -> Iterator[tuple[str, Tree]]:
    """Yield the observers whose intervals depend on the length of the run: name and settings."""
    yield from ((name, settings) for name in ("allocation", "slices") if (settings := training.get(name)))


def _take_state(run: OwnedRun, digest: str, epochs: int) -> str | None:
    """Copy the kept state of a finished run, with the files that it relies on, to `run`; return why it is not usable.

    The files are linked or copied; both runs only ever replace them. The folder of states comes last and whole, so a
    kill before leaves a run that has not begun.
    """
    project, called = run.project, f"the run of {epochs} epochs"
    source = project.runs / digest
    if not (states := states_of(source)):
        return f"{called} kept no state (training.keep_state)"
    if wrong := fault(state := states[-1]):
        return f"{called} kept a damaged state: {wrong}"
    step = int(state.name.partition("-")[2])
    for name, settings in _intervals(run.identity.params["training"]):
        if settings["dense"] > step:
            return f"training.{name}.dense is {settings['dense']}, but {called} has {step} updates"
    output = source / "output"
    intact = output_fault(project, digest) is None
    files = written(files_in(output) if intact else whole_files(project, digest, finished(project, digest)))
    if METRICS not in files:
        return f"the output of {called} is not here; restore it with dvc pull"
    held = json.loads((state / "progress.json").read_text("utf-8"))["held"]
    needed = tuple(f"{name}/" for name in held)
    with replacing(run.work, "checkpoint") as fresh:
        own = {name: path for name, path in files.items() if name == METRICS or name.startswith(needed)}
        _link({name: path for name, path in own.items() if path.name != MANIFEST}, fresh)
        for name in held:
            seal(fresh / name)  # as it was: a published output has no manifests
    with replacing(run.states, "state") as fresh:
        _link({f"{state.name}/{name}": path for name, path in files_in(state).items()}, fresh)
        began = {"run": digest, "epochs": epochs, "step": step}
        (fresh / BEGAN).write_text(json.dumps(began) + "\n", "utf-8")
    return None


def _link(files: dict[str, Path], to: Path) -> None:
    """Link or copy files into a new folder, by relative path."""
    for name, path in files.items():
        (to / name).parent.mkdir(parents=True, exist_ok=True)
        duplicate(path, to / name)


def _changes(run: OwnedRun, last: Run) -> dict[str, str]:
    """Return name → what has changed: parameters with both values, then inputs, then the code."""
    one = run.identity
    changed = changes(last.params, flatten(one.params))
    found = {name: text for name, text in changed.items() if name not in NOT_IN_DIGEST}
    inputs = sorted(name for name in one.input_paths if one.input_paths[name] != last.inputs.get(name))
    found |= {name: f"{name} has changed" for name in inputs}
    return found or {"code": "the code or a plugin has changed"}
