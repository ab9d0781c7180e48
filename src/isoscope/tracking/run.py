"""A tracked run: its identity, its one owner, its record, and its way to the output."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from isoscope import launched, paths
from isoscope.code import code_version
from isoscope.config.digest import run_digest
from isoscope.config.tree import Tree, dump_yaml, flatten
from isoscope.guard import StopSignal
from isoscope.sealing import announce, fault, seal
from isoscope.tracking import accepted, stored
from isoscope.tracking.lease import Lease
from isoscope.tracking.lines import FINISHED
from isoscope.tracking.provenance import dvc_md5, environment, git_state
from isoscope.tracking.publish import publish
from isoscope.tracking.record import Record
from isoscope.tracking.secrets import scrub_tree

FOLLOWED = "ISOSCOPE_FOLLOWED"  # set where a parent already mirrors the records
PARENT_RUN = "ISOSCOPE_PARENT_RUN"  # the MLflow run that `mlflow run` opened around the pipeline
FLUSH_SECONDS = 10.0


class Identity(NamedTuple):
    """What a run is, and the names it goes by."""

    stage: str
    study: str | None
    arm: str | None
    seed: int | None
    task: str | None
    axes: dict[str, str]
    params: Tree
    inputs: dict[str, str]
    """Role → hash; part of the digest."""
    input_paths: dict[str, str]
    """Path → hash, for people."""
    plugins: dict[str, str]
    """File name → sha256 of its code."""

    @property
    def code(self) -> str:
        return code_version(self.stage)

    @property
    def digest(self) -> str:
        return self.digest_under(self.code)

    def digest_under(self, code: str) -> str:
        """The digest that the same work has under a version of the code."""
        return run_digest(
            stage=self.stage,
            params=self.params,
            seed=self.seed,
            inputs=self.inputs,
            code=code,
            plugins=self.plugins,
        )

    @property
    def title(self) -> str:
        """How a run is called in logs and in MLflow."""
        name = self.arm or f"{self.stage} {self.study or ''}".strip()
        return name if self.seed is None else f"{name} seed {self.seed}"

    def summary(self, code: str) -> dict[str, Any]:
        """The deterministic facts that stand in an output's config.yaml, made by a version of the code."""
        return {
            "stage": self.stage,
            "study": self.study,
            "arm": self.arm,
            "seed": self.seed,
            "task": self.task,
            "axes": self.axes,
            "digest": self.digest_under(code),
            "code": code,
            "plugins": self.plugins,
            "inputs": self.input_paths,
            "params": self.params,
        }


class Run:
    """One run's folder `.isoscope/runs/<digest>/`: `work` under way, `states` to resume from, `output` at the end.

    Where another version of the code has made the same run and `isoscope accept` has found its numbers unchanged, this
    is that run: its digest, its record, its output.
    """

    def __init__(self, project: paths.Project, identity: Identity) -> None:
        self.project, self.identity = project, identity
        self.code = accepted.code(project, identity.digest) or identity.code
        self.digest = identity.digest_under(self.code)
        self.folder = project.runs / self.digest
        self.under_way = False
        """Whether this process has worked on it."""
        self.work, self.states, self.output = (self.folder / name for name in ("work", "states", "output"))

    @cached_property
    def record(self) -> Record:
        """The run's record, opened when first asked for: by the run's owner, so that nobody else writes it."""
        return Record(self.project.records / f"{self.digest}.jsonl")

    @property
    def finished(self) -> bool:
        """Whether the work was done before, and every byte of it is as it was, or can be put back. For its owner."""
        if not self.output.is_dir():
            return stored.take_back(self.project, self.digest)
        wrong = fault(self.output)
        if wrong is not None:
            print(f"warning: {self.output}: {wrong}; the run is done again", file=sys.stderr)
        return wrong is None

    def begin(self, *, device: str, threads: int | None, processes: int = 1, precision: str) -> None:
        """Open the record: what the run is, and the process, sources and libraries of this attempt."""
        self.under_way = True
        one = self.identity
        names = {"study": one.study, "arm": one.arm, "seed": one.seed, "task": one.task, "axes": one.axes}
        params = flatten(one.params)
        self.record.run(
            digest=self.digest, stage=one.stage, **names, params=params, inputs=one.input_paths, code=self.code
        )
        now = environment(device=device, threads=threads, processes=processes, precision=precision)
        if self.record.before.attempts:
            before = self.record.before.attempts[-1].environment
            changed = {key for key in now | before if now.get(key) != before.get(key)}
            if changed:
                what = ", ".join(f"{key} {before.get(key)} → {now.get(key)}" for key in sorted(changed))
                print(f"warning: {one.title}: environment changed since the last attempt: {what}", file=sys.stderr)
        self.record.attempt(git=git_state(self.project.folder), environment=now, parent_run=os.environ.get(PARENT_RUN))

    def complete(self) -> None:
        """Seal the work and make it the run's output; the states to resume from are no longer needed."""
        seal(self.work)
        announce("output", self.output)
        shutil.rmtree(self.output, ignore_errors=True)  # a damaged one, which this work replaces
        self.work.rename(self.output)
        self.record.end("FINISHED")  # also where nothing is published
        shutil.rmtree(self.states, ignore_errors=True)

    def publish(self, target: Path, **facts: Any) -> str:
        """Link or copy the output to `target` with a config.yaml of the run's names and `facts`; returns DVC's md5."""
        summary = dump_yaml(scrub_tree(self.identity.summary(self.code)) | facts)
        publish(self.output, target, extra={"config.yaml": summary}, leave_out={"manifest.json"})
        return dvc_md5(target)

    def finished_as(self, target: Path, md5: str) -> None:
        """Record the end, unless the record is lost: a published output can be mirrored without one."""
        if self.record.begun:
            self.record.end("FINISHED", output=self.name_of(target), output_md5=md5)

    def name_of(self, path: Path) -> str:
        """A path as the record names it: from the project's folder (or its state's) on, where it lies below one."""
        for folder in (self.project.folder, self.project.state):
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return str(path)


@contextmanager
def tracked(run: Run, stop: StopSignal) -> Iterator[None]:
    """Own the run, mirror its record, and write its true end: FINISHED, KILLED after a signal, FAILED otherwise."""
    with Lease(run.folder, title=run.identity.title), run.record, _follower(run):
        try:
            yield
        except BaseException as error:
            if run.record.begun and (run.under_way or run.record.before.status != FINISHED):
                killed = stop.received is not None or isinstance(error, KeyboardInterrupt)
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                run.record.end("KILLED" if killed else "FAILED", reason=reason)
            raise


@contextmanager
def _follower(run: Run) -> Iterator[None]:
    """A process that mirrors the record into MLflow as it grows, unless a parent does so already.

    It is a process of its own so that nothing MLflow does can stop, slow or alter the run.
    """
    if os.environ.get(FOLLOWED):
        yield
        return
    command = [sys.executable, "-m", "isoscope", "mirror", "--follow", run.digest]
    process = subprocess.Popen(
        command, cwd=run.project.folder, env=launched.alone(), stdin=subprocess.PIPE, start_new_session=True
    )
    try:
        yield
    finally:
        run.record.close()
        if process.stdin is not None:
            process.stdin.close()  # the sign to send what is left and end
        try:
            process.wait(FLUSH_SECONDS)
        except subprocess.TimeoutExpired:
            process.terminate()
            print("warning: MLflow has not taken everything yet; `isoscope mirror` sends the rest", file=sys.stderr)
