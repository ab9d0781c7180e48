"""Run the training runs of a trial: each in its own process, watched, retried after a crash, pruned."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optuna.trial import Trial, TrialState

from isoscope.errors import InputError
from isoscope.executor.child import CRASHED, DONE, KILLED, STOPPED, WRONG, Child, Ending
from isoscope.executor.execute import Requests
from isoscope.runs.secrets import scrub
from isoscope.search.jobs import Job, Reporter
from isoscope.search.leases import BASELINE
from isoscope.search.storage import away, persist
from isoscope.search.study import OpenStudy
from isoscope.search.trial_notes import PROVENANCE, worked

LOOK, QUIET = 0.05, 1.0  # seconds between polls of a run, and of other workers' trials
NOTED = 60.0  # seconds of work that a killed worker may leave unrecorded
GRACE = 30.0  # seconds for a run to save its state


class AskedError(Exception):
    """The worker was asked to stop now; another worker can resume its trial."""


class LostError(Exception):
    """The lease was lost with a connection, and another worker has taken it."""


class EndedError(Exception):
    """The trial ended without a value: failed or pruned."""

    def __init__(self, state: TrialState, facts: dict[str, Any], ending: Ending) -> None:
        super().__init__(state.name)
        self.state, self.facts, self.ending = state, facts, ending
        self.wrong = ending.text if ending.kind == WRONG else ""


class Effort:
    """Seconds of work on a trial, earlier workers included, time of a suspended machine excluded."""

    def __init__(
        self,
        trial: Trial | None,
        provenance: Mapping[str, Any] | None = None,
        *,
        reported: Collection[int] = (),
    ) -> None:
        """`provenance`: other facts to store with the trial; `reported`: steps that earlier workers reported."""
        self.trial, self.reported, self._others = trial, reported, provenance or {}
        self._before = 0.0 if trial is None else worked(trial) or 0.0
        self._began = self._noted = time.monotonic()

    @property
    def provenance(self) -> dict[str, Any]:
        """Facts about the trial so far."""
        return {**self._others, "seconds": self._before + time.monotonic() - self._began}

    def note(self, *, at_once: bool = False) -> None:
        """Store them in the study, if it is time."""
        now = time.monotonic()
        if self.trial is not None and (at_once or now - self._noted > NOTED):
            self._noted = now
            self.trial.set_user_attr(PROVENANCE, self.provenance)


class Runner:
    """Run the jobs of one worker."""

    def __init__(self, opened: OpenStudy, requests: Requests, say: Callable[[str], None]) -> None:
        self.opened, self.leases, self.search, self.where = opened, opened.leases, opened.search, opened.where
        self.requests, self.say = requests, say

    def persist(self, call: Callable[[], Any]) -> Any:
        """`call()`; wait while the storage is away, unless this worker is asked to stop."""

        def look() -> None:
            if self.requests.stop:
                raise AskedError

        return persist(call, f"storage {self.where.shown}", self.say, look=look)

    def run(self, jobs: Sequence[Job], effort: Effort) -> list[Mapping[str, float]]:
        """Run all jobs; return the metrics of each. Raises `EndedError`, `LostError`, `AskedError`."""
        trial = effort.trial
        title = "default arm" if trial is None else f"trial {trial.number}"
        logs = self.where.folder / self.opened.study.study_name
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{'default' if trial is None else trial.number}.log"
        reported = Reporter(self.search, trial, jobs, effort.reported)
        for index, job in enumerate(jobs):
            tries = self.search.retries
            whole = job.done()
            look = partial(self._look, reported, index, job)
            while (ending := self._watched(job, log, effort, lambda: look(ended=whole))).kind != DONE:  # noqa: B023
                if ending.kind in (CRASHED, KILLED) and tries:
                    tries -= 1
                    self.say(f"{title}: {last_line(ending.text)}; retrying ({log})")
                    continue
                if ending.kind == STOPPED:  # by another process, such as a scheduler
                    self.say(f"{title}: stopped by another process; resuming ({log})")
                    continue
                ending = ending._replace(text=scrub(ending.text))  # it is stored and published
                self.say(f"{title}: failed: {ending.text.rstrip()}")
                raise EndedError(TrialState.FAIL, {"error": ending.text}, ending)
            look(ended=True)
            try:
                hopeless = self.persist(partial(reported.finished, index, job, prune=not whole))
            except InputError as error:  # the run has not logged the objective
                wrong = Ending(WRONG, str(error))
                raise EndedError(TrialState.FAIL, {"error": wrong.text}, wrong) from None
            if hopeless:
                raise EndedError(TrialState.PRUNED, {}, ending)
        return [job.metrics() for job in jobs]

    def _watched(self, job: Job, log: Path, effort: Effort, hopeless: Callable[[], bool]) -> Ending:
        """Run a job in its own process; report values as they come."""
        child = Child(job.run, log)
        looked = time.monotonic()
        try:
            while (ending := child.ending(LOOK)) is None:
                if self.requests.stop:
                    raise AskedError
                if hopeless():
                    raise EndedError(TrialState.PRUNED, {}, Ending(STOPPED, ""))
                if time.monotonic() - looked > QUIET:
                    looked = time.monotonic()
                    with contextlib.suppress(*away()):  # the first worker to reconnect gets the lease
                        if not self.leases.held(BASELINE if effort.trial is None else effort.trial.number):
                            raise LostError
                        effort.note()
            return ending
        finally:
            child.stop()
            if child.ending(GRACE) is None:
                child.stop(9)
                child.ending(GRACE)

    def _look(self, reported: Reporter, index: int, job: Job, *, ended: bool) -> bool:
        """Report new values; return whether to prune the trial (never once its job has `ended`)."""
        return bool(reported.wanted and self.persist(lambda: reported.look(index, job, ended=ended)))


def last_line(text: str) -> str:
    """Last line of a traceback."""
    return text.rstrip().rpartition("\n")[2]
