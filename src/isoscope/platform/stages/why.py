"""Why a study's runs would train again, and why DVC would run its stages."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base import code_closure, paths
from isoscope.base.errors import InputError
from isoscope.base.kind import of_study
from isoscope.platform.config.explain import nearest
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.runs.differences import ABSENT, CODE, Difference, differences, environment, values_that_differ
from isoscope.platform.runs.earlier import identities, last_finished
from isoscope.platform.runs.provenance import environment as circumstances
from isoscope.platform.runs.record import read
from isoscope.platform.runs.run import Run
from isoscope.platform.runs.stored import LOCK, finished, output_fault, whole_files

FINISHED, RESUME, TRAIN = "finished", "would resume", "would train"
OF_STUDY, ALONE = ("train", "states", "analyse"), ("search", "report")
MOST = 8
"""Differences of a run, or reasons of a stage, that a text shows."""


ASKED = ("device", "threads", "processes", "precision")
SET_LATER = ("CUBLAS_WORKSPACE_CONFIG", ABSENT)
"""A variable that training sets itself, unless the shell has set it."""


class Cause(NamedTuple):
    """What a training run would do, and how it differs from the last finished run of its study, arm and seed.

    `last`: digest of that run. `beside`: circumstances that have changed, which are not in a digest.
    """

    run: str
    digest: str
    state: str
    last: str | None = None
    differences: tuple[Difference, ...] = ()
    beside: tuple[Difference, ...] = ()

    @property
    def said(self) -> list[str]:
        """The lines below the names of runs with equal causes."""
        if self.state == FINISHED:
            return [f"  beside: {one.text} (in no digest: nothing trains again)" for one in self.beside]
        if self.last is None:
            return ["  no finished run of this study, arm and seed"]
        lines = [f"  {one.kind}: {one.text}" for one in self.differences]
        return [*shortened(lines), *(f"  beside: {one.text} (not a reason)" for one in self.beside)]

    @property
    def acceptable(self) -> bool:
        """Whether only the code differs."""
        return self.last is not None and {one.kind for one in self.differences} == {CODE}


def shortened(lines: Sequence[str]) -> list[str]:
    """Return at most `MOST` lines, and how many more there are."""
    return [*lines[:MOST], *([f"  and {len(lines) - MOST} more (--json has all)"] if len(lines) > MOST else [])]


def cause(run: Run) -> Cause:
    """Return why a training run would train, resume, or be found finished. Writes nothing."""
    about, project = (run.identity.title, run.digest), run.project
    if output_fault(project, run.digest) is None or whole_files(project, run.digest, finished(project, run.digest)):
        return Cause(*about, FINISHED, beside=_beside(run, run.digest))
    steps = [int(one.name.removeprefix("step-")) for one in run.states.glob("step-*")]
    state = f"{RESUME} from update {max(steps)}" if steps else TRAIN
    if (last := last_finished(run)) is None:
        return Cause(*about, state)
    found = differences(project, last, run.line, now=run.identity.functions)
    return Cause(*about, state, last.digest, tuple(found), _beside(run, last.digest))


def _beside(run: Run, digest: str) -> tuple[Difference, ...]:
    """Return how the versions of libraries and the shell differ from those that made a finished run."""
    file = run.project.records / f"{digest}.jsonl"
    author = read(file).author if file.is_file() else None
    if author is None:
        return ()
    asked: dict[str, Any] = {name: author.environment.get(name) for name in ASKED}
    found = environment(author.environment, circumstances(**asked))
    return tuple(one for one in found if (one.name, one.new) != SET_LATER)


def causes_said(causes: Iterable[Cause]) -> list[str]:
    """Return the causes as lines; runs of equal causes stand together."""
    lines = []
    for told, some in groupby(causes, key=lambda one: (one.state, one.said)):
        seeds: dict[str, list[str]] = {}
        for one in some:
            arm, _, seed = one.run.rpartition(" seed ")
            seeds.setdefault(arm, []).append(seed)
        runs = ", ".join(f"{arm} seed{'s' * (len(of) > 1)} {', '.join(of)}" for arm, of in seeds.items())
        lines += [f"  {runs}: {told[0]}", *(f"  {line}" for line in told[1])]
    return lines


def targets(configuration: Configuration, name: str) -> list[str]:
    """Return the DVC stages of a study or comparison, or the stage of this name, in the order of the pipeline.

    Raises `InputError` if params.yaml has no such name.
    """
    root = configuration.root
    every = {
        one: [f"prepare@{study.task}", *(f"{stage}@{one}" for stage in OF_STUDY)] for one, study in root.studies.items()
    }
    every |= {one: [f"compare@{one}"] for one in root.comparisons}
    stages = [*dict.fromkeys(one for several in every.values() for one in several), *ALONE]
    if name in every or name in stages:
        return every.get(name, [name])
    raise InputError(f"{name}: no study, comparison or stage of {paths.PARAMS}{nearest(name, every)}")


def stage_reasons(configuration: Configuration, project: paths.Project, targets: Sequence[str]) -> dict[str, list[str]]:
    """Return DVC stage → why DVC would run it; of `targets` (none: of all stages). Stages that are up to date lack."""
    lock = read_yaml(project.folder, LOCK, most=None) if (project.folder / LOCK).is_file() else {}
    params = flatten(configuration.raw)
    found = {}
    for stage, parts in dvc_status(project, targets).items():
        known, (kind, _, name) = (lock.get("stages") or {}).get(stage, {}), stage.partition("@")
        section = {**configuration.root.studies, **configuration.root.comparisons}.get(name)
        loads = None if section is None else tuple(module for one in of_study(section.kind) for module in one.modules)
        of = {"states": [("extract", None), ("measure", None)]}.get(kind, [(kind, loads)])

        def code_said(
            changed: Sequence[str], of: Sequence[Any] = of, name: str = name, kind: str = kind
        ) -> Iterable[str]:
            said = [line for part, by in of for line in code_reasons(project, part, name, by)]
            return said if said and kind != "train" else [f"{', '.join(changed)}: modified"]

        found[stage] = [line for part in parts for line in _reasons(part, known, params, code_said)]
    return found


def dvc_status(project: paths.Project, targets: Sequence[str]) -> dict[str, list[Any]]:
    """Return what `dvc status --json` says of stages. Raises `InputError` with DVC's own line if it fails."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    if (dvc := shutil.which("dvc", path=path)) is None:
        raise InputError(f"dvc: not found next to {sys.executable} or on PATH; install the project with: make install")
    command, env = [dvc, "status", "--json", *targets], {**os.environ, "PATH": path, "DVC_NO_ANALYTICS": "1"}
    done = subprocess.run(command, cwd=project.folder, env=env, capture_output=True, text=True)
    if done.returncode:
        raise InputError(f"dvc status: {(done.stderr.strip().splitlines() or ['failed'])[0]}")
    found: dict[str, list[Any]] = json.loads(done.stdout)
    return found


def _reasons(
    part: Any, known: Mapping[str, Any], params: Mapping[str, Any], code_said: Callable[[Sequence[str]], Iterable[str]]
) -> Iterator[str]:
    """Yield the reasons in a part of DVC's status.

    `known`: the stage in dvc.lock; `params`: params.yaml by name; `code_said`: what to say of changed sources.
    """
    if isinstance(part, str):
        yield part
        return
    for what, items in part.items():
        code = [path for path in items if path.startswith("src/") or path == str(paths.CODE)]
        yield from code_said(code) if code else ()
        for path, state in ((path, state) for path, state in items.items() if path not in code):
            if isinstance(state, Mapping):  # sections of a file of parameters
                before = known.get("params", {}).get(path, {})
                for section in state:
                    old = flatten(before.get(section, {}), section)
                    now = {name: one for name, one in params.items() if f"{name}.".startswith(f"{section}.")}
                    yield from (one.text for one in values_that_differ("parameter", old, now))
            else:
                yield f"{path}: {state}" if what == "changed deps" else f"output {path}: {state}"


def code_reasons(project: paths.Project, stage: str, name: str, loads: tuple[str, ...] | None = None) -> list[str]:
    """Return which functions changed since the last finished run of a stage over a study or comparison.

    `loads`: as for `code_version`. Empty if there is no such run.
    """
    before = [one for one in identities(project) if (one.stage, one.study) == (stage, name)]
    last = max((one for one in before if finished(project, one.digest)), key=lambda one: one.t, default=None)
    if last is None:
        return []
    now = last._replace(code=code_closure.code_version(stage, None, loads))
    found = differences(project, last, now, now=code_closure.code_of(stage, None, loads))
    return [one.text for one in found] or [f"no function that {stage} uses changed: its result will be the same"]
