"""Why a study's runs would train again, and why DVC would run its stages. Nothing here writes."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, groupby
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base import code_closure, paths
from isoscope.base.errors import InputError
from isoscope.base.kind import of_study
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.new_project import outdated
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.runs.differences import (
    ABSENT,
    CODE,
    ENVIRONMENT,
    Difference,
    differences,
    values_that_differ,
)
from isoscope.platform.runs.earlier import finished_runs
from isoscope.platform.runs.locks import held
from isoscope.platform.runs.provenance import environment
from isoscope.platform.runs.record import read
from isoscope.platform.runs.run import Run
from isoscope.platform.runs.stored import LOCK, files_of, finished
from isoscope.platform.stages.repro import dvc_status

FINISHED, RUNNING, RESUME, TRAIN = "finished", "is running", "would resume", "would train"
ASKED = ("device", "threads", "processes", "precision")
SET_LATER = ("CUBLAS_WORKSPACE_CONFIG", ABSENT)
"""A variable that training sets itself, unless the shell has set it."""
OF_STUDY, ALONE = ("train", "states", "analyse"), ("search", "report")
"""Stages of each study, and stages of the whole project."""
PARTS = {"states": ("extract", "measure"), "analyse": ("analyse",), "compare": ("compare",)}
"""Stage → its runs, whose records tell the code."""


class Cause(NamedTuple):
    """What a training run would do, and how it differs from the last finished run of its study, arm and seed.

    `last`: digest of that run. `beside`: circumstances that have changed, which are in no digest.
    """

    run: str
    digest: str
    state: str
    last: str | None = None
    differences: tuple[Difference, ...] = ()
    beside: tuple[Difference, ...] = ()

    @property
    def said(self) -> list[str]:
        """The lines below its name."""
        first = self.state not in (FINISHED, RUNNING) and self.last is None
        lines = ["no finished run of this study, arm and seed"] * first
        lines += ["its record says that it finished, but its output is not here"] * (self.last == self.digest)
        lines += [f"{one.kind}: {one.text}" for one in self.differences]
        return [*lines, *(f"beside: {one.text} (in no digest: not a reason)" for one in self.beside)]

    @property
    def values(self) -> dict[str, Any]:
        """Its fields, for machines."""
        lists = {name: [one._asdict() for one in getattr(self, name)] for name in ("differences", "beside")}
        return self._asdict() | lists

    @property
    def acceptable(self) -> bool:
        """Whether only the code differs."""
        return {one.kind for one in self.differences} == {CODE}


def cause(run: Run) -> Cause:
    """Return why a training run would train or resume; or that it is found finished."""
    about, project = (run.identity.title, run.digest), run.project
    if files_of(project, run.digest):
        return Cause(*about, FINISHED, beside=_beside(run, run.digest))
    if finished(project, run.digest):
        return Cause(*about, TRAIN, run.digest)
    if held(run.folder):
        return Cause(*about, RUNNING)
    updates = [int(one.name.removeprefix("step-")) for one in run.states.glob("step-*")]
    state = f"{RESUME} from update {max(updates)}" if updates else TRAIN
    names = {name: run.identity.names[name] for name in ("stage", "study", "arm", "seed")}
    if not (before := finished_runs(project, other_than=run.digest, **names)):
        return Cause(*about, state)
    last = before[-1]
    found = differences(project, last, run.line, now=run.identity.functions)
    return Cause(*about, state, last.digest, tuple(found), _beside(run, last.digest))


def _beside(run: Run, digest: str) -> tuple[Difference, ...]:
    """Return how libraries and shell differ from those that made a finished run."""
    file = run.project.records / f"{digest}.jsonl"
    author = read(file).author if file.is_file() else None
    if author is None:
        return ()
    asked: dict[str, Any] = {name: author.environment.get(name) for name in ASKED}
    found = values_that_differ(author.environment, environment(**asked), ENVIRONMENT)
    return tuple(one for one in found if (one.name, one.new) != SET_LATER)


def causes_said(causes: Iterable[Cause]) -> list[str]:
    """Return the causes as lines; neighbours of equal causes stand together."""
    lines = []
    for (state, said), some in groupby(causes, key=lambda one: (one.state, one.said)):
        lines += [f"  {', '.join(one.run for one in some)}: {state}", *(f"    {line}" for line in said)]
    return lines


def targets(configuration: Configuration, name: str) -> list[str]:
    """Return the DVC stages of a study or comparison, the stage of this name, or those of a command (`prepare`).

    Raises `InputError` if params.yaml has no such name.
    """
    root = configuration.root
    every = {one: [f"prepare@{of.task}", *(f"{stage}@{one}" for stage in OF_STUDY)] for one, of in root.studies.items()}
    every |= {one: [f"compare@{one}"] for one in root.comparisons}
    known = read_yaml(configuration.folder, Path("dvc.yaml"))["stages"]
    every = {one: [stage for stage in several if stage.partition("@")[0] in known] for one, several in every.items()}
    if name in every or name in ALONE:
        return every.get(name, [name])
    stages = dict.fromkeys(chain((f"prepare@{task}" for task in root.tasks), *every.values()))
    if found := [stage for stage in stages if name in (stage, stage.partition("@")[0])]:
        return found
    raise InputError(f"{name}: no study, comparison or stage of {paths.PARAMS}{nearest(name, every)}")


def stage_reasons(
    configuration: Configuration, project: paths.Project, names: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return DVC stage → why DVC would run it, of some stages [default: all]; without those that are up to date."""
    lock = read_yaml(project.folder, LOCK, most=None) if (project.folder / LOCK).is_file() else {}
    now, found = flatten(configuration.raw), {}
    status, outdated_code = dvc_status(project.folder, *names), outdated(project.folder)
    known = names or lock.get("stages") or ()
    status |= {one: [f"{paths.CODE}: other code"] for one in known if one.partition("@")[0] in outdated_code}
    for stage, parts in status.items():
        then = (lock.get("stages") or {}).get(stage, {}).get("params", {})
        lines = [line for part in parts for line in _reasons(part, then, now)]
        sources = [line for line in lines if line.startswith(("src/", str(paths.CODE)))]
        said = _code_said(configuration, project, stage) if sources else []
        found[stage] = [*(line for line in lines if line not in sources or not said), *said]
    return found


def _reasons(part: Any, then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """Yield the reasons in a part of DVC's status; `then`: file → parameters in dvc.lock, `now`: in params.yaml."""
    if isinstance(part, str):
        yield part
        return
    for path, state in (item for items in part.values() for item in items.items()):
        if isinstance(state, str):
            yield f"{path}: {state}"
            continue
        if path != str(paths.PARAMS):
            yield f"{path}: other code"
            continue
        for section in state:
            below = {name: one for name, one in now.items() if f"{name}.".startswith(f"{section}.")}
            old = flatten(then.get(path, {}).get(section, {}), section)
            yield from (one.text for one in values_that_differ(old, below))


def _code_said(configuration: Configuration, project: paths.Project, stage: str) -> list[str]:
    """Return which functions changed since the last runs of a stage; nothing if they are not known, or if it trains."""
    kind, _, name = stage.partition("@")
    section = {**configuration.root.studies, **configuration.root.comparisons}.get(name)
    whole = (
        None
        if section is None or kind == "states"
        else tuple(one for of in of_study(section.kind) for one in of.modules)
    )
    lasts = {part: finished_runs(project, stage=part, study=name)[-1:] for part in PARTS.get(kind, ())}
    found = {
        one.text: None
        for part, runs in lasts.items()
        for last in runs
        for code in [(part, None, whole)]
        for one in differences(
            project, last, last._replace(code=code_closure.code_version(*code)), now=code_closure.code_of(*code)
        )
    }
    unchanged = all(lasts.values()) and bool(lasts)
    return [*found] or ["its code: no function that it uses changed"] * unchanged
