"""The runs of one trial: each in a process of its own, watched, tried again, ended early where nothing is to hope."""

import contextlib
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optuna.trial import Trial, TrialState

from isoscope.analysis.provenance import PROVENANCE, worked
from isoscope.errors import InputError
from isoscope.search import children
from isoscope.search.children import Child, Ending
from isoscope.search.jobs import Job, Reported, Wishes
from isoscope.search.leases import BASELINE
from isoscope.search.storage import away, persist
from isoscope.search.study import Opened
from isoscope.tracking.secrets import scrub

LOOK, QUIET = 0.05, 1.0  # seconds between two looks at a run, and at trials of others
NOTED = 60.0  # seconds of work that may go unnoted with a worker that is killed
GRACE = 30.0  # seconds that a run has to save its state


class AskedError(Exception):
    """To stop at once, so that another can go on, or because another does."""


class LostError(Exception):
    """The lease went with a connection, and another worker has taken it."""


class EndedError(Exception):
    """The trial ends without a value."""

    def __init__(self, state: TrialState, facts: dict[str, Any], ending: Ending) -> None:
        super().__init__(state.name)
        self.state, self.facts, self.ending = state, facts, ending
        self.wrong = ending.text if ending.kind == children.WRONG else ""


class Effort:
    """Seconds of work on a trial, those of earlier workers among them; a machine's sleep is none."""

    def __init__(
        self,
        trial: Trial | None,
        provenance: Mapping[str, Any] | None = None,
        *,
        reported: Collection[int] = (),
    ) -> None:
        """`provenance`: what else is noted of the trial; `reported`: steps that earlier workers reported."""
        self.trial, self.reported, self._others = trial, reported, provenance or {}
        self._before = 0.0 if trial is None else worked(trial) or 0.0
        self._began = self._noted = time.monotonic()

    @property
    def provenance(self) -> dict[str, Any]:
        """What is known of the trial so far."""
        return {**self._others, "seconds": self._before + time.monotonic() - self._began}

    def note(self, *, at_once: bool = False) -> None:
        """Write it down in the study, if it is time."""
        now = time.monotonic()
        if self.trial is not None and (at_once or now - self._noted > NOTED):
            self._noted = now
            self.trial.set_user_attr(PROVENANCE, self.provenance)


class Running:
    """Runs jobs for one worker."""

    def __init__(self, opened: Opened, wishes: Wishes, say: Callable[[str], None]) -> None:
        self.opened, self.leases, self.search, self.where = opened, opened.leases, opened.search, opened.where
        self.wishes, self.say = wishes, say

    def persist(self, call: Callable[[], Any]) -> Any:
        """`call()`, the storage waited for where it is away, unless this worker is to stop."""

        def look() -> None:
            if self.wishes.stop():
                raise AskedError

        return persist(call, f"storage {self.where.shown}", self.say, look=look)

    def run(self, jobs: Sequence[Job], effort: Effort) -> list[Mapping[str, float]]:
        """The figures of each job, all run. Raises `EndedError`, `LostError`, `AskedError`."""
        trial = effort.trial
        title = "default arm" if trial is None else f"trial {trial.number}"
        logs = self.where.folder / self.opened.study.study_name
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{'default' if trial is None else trial.number}.log"
        reported = Reported(self.search, trial, jobs, effort.reported)
        for index, job in enumerate(jobs):
            tries = self.search.retries
            whole = job.done()
            look = partial(self._look, reported, index, job)
            while (ending := self._watched(job, log, effort, lambda: look(ended=whole))).kind != children.DONE:  # noqa: B023
                if ending.kind in (children.CRASHED, children.KILLED) and tries:
                    tries -= 1
                    self.say(f"{title}: {last_line(ending.text)}; tried again ({log})")
                    continue
                if ending.kind == children.STOPPED:  # by somebody else than this worker, as one who wants the room
                    self.say(f"{title}: stopped from outside; it goes on ({log})")
                    continue
                ending = ending._replace(text=scrub(ending.text))  # it is kept, and shown to others
                self.say(f"{title}: failed: {ending.text.rstrip()}")
                raise EndedError(TrialState.FAIL, {"error": ending.text}, ending)
            look(ended=True)
            try:
                hopeless = self.persist(partial(reported.finished, index, job, prune=not whole))
            except InputError as error:  # it has not logged the objective
                wrong = Ending(children.WRONG, str(error))
                raise EndedError(TrialState.FAIL, {"error": wrong.text}, wrong) from None
            if hopeless:
                raise EndedError(TrialState.PRUNED, {}, ending)
        return [job.figures() for job in jobs]

    def _watched(self, job: Job, log: Path, effort: Effort, hopeless: Callable[[], bool]) -> Ending:
        """Run a job in a process of its own, its values reported as they come."""
        child = Child(job.run, log)
        looked = time.monotonic()
        try:
            while (ending := child.ending(LOOK)) is None:
                if self.wishes.stop():
                    raise AskedError
                if hopeless():
                    raise EndedError(TrialState.PRUNED, {}, Ending(children.STOPPED, ""))
                if time.monotonic() - looked > QUIET:
                    looked = time.monotonic()
                    with contextlib.suppress(*away()):  # whoever comes back first has it
                        if not self.leases.held(BASELINE if effort.trial is None else effort.trial.number):
                            raise LostError
                        effort.note()
            return ending
        finally:
            child.stop()
            if child.ending(GRACE) is None:
                child.stop(9)
                child.ending(GRACE)

    def _look(self, reported: Reported, index: int, job: Job, *, ended: bool) -> bool:
        """Report what is new; whether the trial is to end, which one whose job has `ended` is not."""
        return bool(reported.wanted and self.persist(lambda: reported.look(index, job, ended=ended)))


def last_line(text: str) -> str:
    """What a traceback ends with."""
    return text.rstrip().rpartition("\n")[2]
