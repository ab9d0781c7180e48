"""A tracked run: identity, owner, record and output; carried out under its lease, then published."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

from isoscope.base import paths
from isoscope.base.atomic_files import announce, seal
from isoscope.base.errors import RunError, plugins_named
from isoscope.base.processes import StopSignal
from isoscope.platform.config.tree import changes, dump_yaml, flatten
from isoscope.platform.runs import follower, lines, stored
from isoscope.platform.runs.card import cards
from isoscope.platform.runs.code_changes import keep_functions
from isoscope.platform.runs.follower import FOLLOWED, PARENT_RUN
from isoscope.platform.runs.identity import Identity
from isoscope.platform.runs.lines import FINISHED, plugin_tags
from isoscope.platform.runs.locks import Lease
from isoscope.platform.runs.machine_load import LoadSampler
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.runs.provenance import dvc_md5, environment, git_state
from isoscope.platform.runs.record import Record
from isoscope.platform.runs.secrets import scrub_run


class Run:
    """A run's folder `.isoscope/runs/<digest>/`: unfinished `work`, `states` to resume from, finished `output`.

    `start`: the model that training starts from, if it is made of parts.

    If `isoscope accept` has accepted the same run of another version, this is the accepted run, with its digest,
    record and output. `inputs`: hashes what it reads again, by role. `under_way`: whether this process has started work
    on it. `tags`: of its record.
    """

    def __init__(
        self, project: paths.Project, identity: Identity, *, inputs: Callable[[], Mapping[str, str]] = dict
    ) -> None:
        self.project, self.identity, self._inputs = project, identity, inputs
        self.digest, self.code = stored.accepted_run(project, identity.digest) or (identity.digest, identity.code)
        self.folder = project.runs / self.digest
        self.under_way = False
        self.tags: dict[str, str] = {}
        self._sampler: LoadSampler | None = None
        self.work, self.states, self.output = (self.folder / name for name in ("work", "states", "output"))
        self.start = self.folder / "start"

    @cached_property
    def record(self) -> Record:
        """The run's record, opened on first access; only the run's owner may access it."""
        return Record(self.project.records / f"{self.digest}.jsonl")

    @property
    def finished(self) -> bool:
        """Whether the run has an intact output; restores a missing output first. Only for the run's owner."""
        wrong = stored.output_fault(self.project, self.digest) if self.output.is_dir() else None
        if self.output.is_dir() and wrong is None:
            return True
        whole = stored.take_back(self.project, self.digest)
        if wrong is not None:
            then = "restored from its published copy" if whole else "the run starts again"
            print(f"warning: {self.output}: {wrong}; {then}", file=sys.stderr)
        return whole

    def begin(self, *, estimate: Mapping[str, Any] | None = None, **made_by: Any) -> None:
        """Write the run's identity and this attempt to the record; `made_by`: of `provenance.environment`."""
        self.under_way = True
        self._introduce()
        now = environment(**made_by)
        if self.record.before.attempts:
            changed = ", ".join(changes(self.record.before.attempts[-1].environment, now).values())
            if changed:
                line = f"warning: {self.identity.title}: environment changed since the last attempt: {changed}"
                print(line, file=sys.stderr)
        file = self.states / stored.BEGAN
        self.record.attempt(
            git=git_state(self.project.folder),
            environment=now,
            parent_run=os.environ.get(PARENT_RUN),
            began=json.loads(file.read_text("utf-8")) if file.is_file() else None,
            estimate=estimate,
        )
        self._sampler = LoadSampler(self.record, gpus=made_by["device"].startswith("cuda"))
        keep_functions(self.project, self.identity)

    def stop_sampling(self) -> None:
        """Record the machine's load no longer: the work is done, or has failed."""
        if self._sampler is not None:
            self._sampler.stop()
            self._sampler = None

    def mend(self, points: Iterable[Mapping[str, Any]], *, source: str) -> None:
        """Restore missing points of the record from the run's `points`, which come from the file `source`.

        An empty record stays empty: its attempts are lost, and the output can be mirrored without a record.
        """
        if not self.record.begun and self.record.before.damaged:
            self._introduce()
        if self.record.begun:
            self.record.mend(points, source=source)

    def _introduce(self) -> None:
        """Write the run's identity to the record."""
        self.record.run(**{name: value for name, value in self.line._asdict().items() if name not in ("t", "parent")})

    @property
    def line(self) -> lines.Run:
        """Its identity as the record has it, without a time."""
        one, tags = self.identity, self.tags | plugin_tags(self.identity.plugins)
        about = {"params": flatten(one.params), "inputs": one.input_paths, "code": self.code, "tags": tags}
        return lines.Run(**{"t": 0, "digest": self.digest, **one.names, **about})

    def check_inputs(self) -> None:
        """Raise `RunError` with the role of an input that is not what the digest names."""
        now = self._inputs()
        for role, known in self.identity.inputs.items():
            if now.get(role, known) != known:
                raise RunError(
                    f"{self.identity.title}: {role} has changed since this run began, and a result must not stand "
                    "under the digest of other inputs; run the same command again: it resumes if the input is put back"
                )

    def complete(self, *, keep_state: bool = False) -> None:
        """Seal the work, make it the run's output, and remove the states to resume from [or: all but the last]."""
        self.stop_sampling()
        self.check_inputs()
        seal(self.work, of=self.digest)
        announce("output", self.output)
        shutil.rmtree(self.output, ignore_errors=True)  # a damaged output
        self.work.rename(self.output)
        self.record.end("FINISHED")  # even if nothing is published
        older = stored.states_of(self.folder)[:-1] if keep_state else [self.states]
        for left in (*older, self.start):
            shutil.rmtree(left, ignore_errors=True)

    def publish(self, target: Path, **facts: Any) -> str:
        """Link or copy the output to `target` with a config.yaml of the run's names and `facts`; return DVC's md5.

        Each checkpoint gets a model card.
        """
        one, extra = self.identity, {"config.yaml": self.summary(**facts)}
        if one.task is not None and (self.output / "checkpoints").is_dir():
            known = {**one.names, "digest": self.digest, "code": self.code, "params": one.params}
            data = self.project.folder / paths.processed(one.task)
            extra |= cards(self.output, known, read_metrics(self.output), data)
        stored.publish(self.output, target, extra=extra)
        return dvc_md5(target)

    def summary(self, **facts: Any) -> str:
        """Return the text of an output's config.yaml: run, inputs, parameters, and `facts`."""
        one = self.identity
        origin = {"plugins": one.plugins, "inputs": one.input_paths, "params": one.params}
        return dump_yaml(scrub_run({**one.names, "digest": self.digest, "code": self.code, **origin}) | facts)

    def finished_as(self, target: Path, md5: str) -> None:
        """Write the end to the record, unless the record is lost: a published output can be mirrored without it."""
        self.stop_sampling()
        known = self.record.before.end
        stands = known is not None and (known.status, known.output, known.output_md5)
        if self.record.begun and (self.under_way or stands != (FINISHED, self.name_of(target), md5)):
            self.record.end(FINISHED, output=self.name_of(target), output_md5=md5)

    def name_of(self, path: Path) -> str:
        """Return a path for the record: relative to the project's folder or state folder if it lies below."""
        for folder in (self.project.folder, self.project.state):
            if path.is_relative_to(folder):
                return path.relative_to(folder).as_posix()
        return str(path)


@contextmanager
def tracked(run: Run, stop: StopSignal) -> Iterator[None]:
    """Own the run, mirror its record, and on an error write its end: KILLED after a signal, FAILED otherwise."""
    with Lease(run.folder, title=run.identity.title), run.record, _follower(run):
        try:
            try:
                with plugins_named():
                    yield
            finally:
                run.stop_sampling()
        except BaseException as error:
            if run.record.begun and (run.under_way or run.record.before.status != FINISHED):
                killed = stop.received is not None or isinstance(error, KeyboardInterrupt)
                reason = f"{type(error).__name__}: {error}".splitlines()[0]
                run.record.end("KILLED" if killed else "FAILED", reason=reason)
            raise


@contextmanager
def _follower(run: Run) -> Iterator[None]:
    """Mirror the growing record to MLflow, unless a parent process already does, or nothing is written."""
    if os.environ.get(FOLLOWED):
        yield
        return
    process, patience = follower.start(run.project.folder, run.digest), follower.PATIENCE
    try:
        yield
    except BaseException:
        patience = follower.LAST_TRY  # do not delay a user who stops the run
        raise
    finally:
        run.record.close()
        if run.record.written:
            follower.finish(process, patience=patience)
        else:
            process.kill()
            process.communicate()


def carry_out(
    run: Run,
    do: Callable[[bool], None] | None,
    *,
    stop: StopSignal,
    output: Path | None,
    points: Callable[[Path], Iterable[Mapping[str, Any]]],
    source: str,
    facts: Callable[[Path], Mapping[str, Any]],
) -> Path | None:
    """Own the run, `do` its work unless it is finished, and publish it; return the folder with the result.

    `do(finished)` must do nothing if `finished` is true. `do=None`: skip an unfinished run and return None. `output`:
    folder to publish to; None: publish nothing. `points`: reads the metric points of a finished output from its file
    `source`. `facts`: further entries of config.yaml.
    """
    with tracked(run, stop):
        finished = run.finished
        if do is not None:
            do(finished)
        elif not finished:
            return None
        if finished:
            run.mend(points(run.output), source=source)
            run.record.finish()
        if output is None:
            return run.output
        run.finished_as(output, run.publish(output, **facts(run.output)))
    return output
