"""One worker of a search: asks for a trial or takes over one whose worker died, runs it, and tells what came of it."""

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import Trial, TrialState

from isoscope.errors import InputError
from isoscope.search import children, samplers, space
from isoscope.search.children import Child, Ending
from isoscope.search.jobs import Job, Outcome, Plan, Reported, Wishes, mean
from isoscope.search.leases import BASELINE, turn
from isoscope.search.study import BASE, EXHAUSTED, Opened, away, persist, spent

LOOK, QUIET = 0.05, 1.0  # seconds between two looks at a run, and at trials of others
GRACE = 30.0  # seconds that a run has to save its state


class AskedError(Exception):
    """To stop at once, so that another can go on, or because another does."""


class Worker:
    """Works on a study until its budget is spent and every trial has ended, or until it is told not to."""

    def __init__(
        self,
        opened: Opened,
        plan: Plan,
        *,
        wishes: Wishes,
        note: Callable[[Outcome], None],
        say: Callable[[str], None],
        provenance: Mapping[str, Any],
    ) -> None:
        """`note`: called before a trial's end is told, and again if that was not told; `provenance`: of every trial."""
        self.study, self.leases, self.search, self.where = opened
        self.plan, self.wishes, self.note, self.say, self.provenance = plan, wishes, note, say, provenance
        self._what = f"storage {self.where.shown}"

    def run(self) -> None:
        """Raises `InputError` for what no repetition helps, such as an objective that no run logs."""
        try:
            if self.search.constraints:
                self._measure_default()
            while not (self.wishes.finish() or self.wishes.stop()):
                trial, left = self._persist(self._next)
                if trial is not None:
                    self._work(trial)
                elif left:
                    time.sleep(QUIET)  # of those, some may lose their worker
                else:
                    return
        except AskedError:
            return
        finally:
            self.leases.close()

    def _persist(self, call: Callable[[], Any]) -> Any:
        return persist(call, self._what, self.say)

    def _next(self) -> tuple[Trial | None, bool]:
        """A trial that is ours now; without one, whether some still run."""
        with turn(self.leases):
            study = self.study
            study._thread_local.cached_all_trials = None
            trials = study.get_trials(deepcopy=False)
            running = [trial for trial in trials if trial.state == TrialState.RUNNING]
            for known in running:
                if not self.leases.take(known.number):
                    continue
                if study._storage.get_trial(known._trial_id).state == TrialState.RUNNING:
                    self.say(f"trial {known.number}: taken over, its worker is gone")
                    return self._suggested(Trial(self._of(known.number), known._trial_id)), True
                self.leases.release(known.number)  # it ended while we looked
            if spent(study, trials, self.search):
                return None, bool(running)
            waiting = [trial.number for trial in trials if trial.state == TrialState.WAITING]
            number = min(waiting, default=len(trials))
            self.leases.take(number)
            return self._suggested(self._of(number).ask()), True

    def _of(self, number: int) -> Study:
        """The study with the sampler of a trial."""
        self.study.sampler = samplers.sampler(self.search, number)
        return self.study

    def _suggested(self, trial: Trial) -> Trial:
        space.suggest(self.search, trial)
        return trial

    def _work(self, trial: Trial) -> None:
        began = time.time()
        jobs = self.plan(space.chosen(self.search, trial.params))
        # Three attributes, not ten: each is a transaction.
        provenance = {**self.provenance, **_whereabouts(), "seeds": list(self.search.seeds)}
        facts: dict[str, Any] = {"provenance": provenance, "digests": [job.digest for job in jobs]}
        before = trial.user_attrs.get("seconds", 0.0)
        try:
            figures = self._run(jobs, trial)
        except AskedError:
            with contextlib.suppress(UpdateFinishedTrialError):
                self._persist(lambda: trial.set_user_attr("seconds", before + time.time() - began))
            self.leases.release(trial.number)
            raise
        except (_LostError, UpdateFinishedTrialError):  # a connection was lost, and with it the lease for a while
            self._leave(trial)
            return
        except _EndedError as error:
            outcome = Outcome(trial.number, error.state, None, trial.params, {**facts, **error.facts}, began)
            wrong = error.wrong
        else:
            outcome, wrong = self._judged(trial, figures, facts, began)
        seconds = before + time.time() - began
        self._tell(trial, outcome._replace(facts={**outcome.facts, "seconds": seconds}))
        if wrong:
            raise InputError(wrong)

    def _judged(
        self, trial: Trial, figures: list[Mapping[str, float]], facts: dict[str, Any], began: float
    ) -> tuple[Outcome, str]:
        """The outcome of a trial whose runs are done, and what is wrong with the search if it shows that."""
        try:
            values = {name: mean(figures, name) for name in (*self.search.objectives, *self.search.constraints)}
        except InputError as error:
            facts["error"] = str(error)
            return Outcome(trial.number, TrialState.FAIL, None, trial.params, facts, began), str(error)
        for name, value in values.items():
            if not math.isfinite(value):
                facts["error"] = f"{name} is {value}"
                self.say(f"trial {trial.number}: failed: {name} is {value}")
                return Outcome(trial.number, TrialState.FAIL, None, trial.params, facts, began), ""
        base = self._persist(lambda: self.study.user_attrs.get(BASE, {})) if self.search.constraints else {}
        for name, one in self.search.constraints.items():
            worse = (base[name] - values[name]) * (1 if one.better == "maximise" else -1)
            facts[f"constraint {name}"] = worse - one.margin
        objectives = [values[name] for name in self.search.objectives]
        return Outcome(trial.number, TrialState.COMPLETE, objectives, trial.params, facts, began), ""

    def _run(self, jobs: Sequence[Job], trial: Trial | None) -> list[Mapping[str, float]]:
        """The figures of each job, all run."""
        logs = self.where.folder / self.study.study_name
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / f"{'default' if trial is None else trial.number}.log"
        reported = self._persist(lambda: Reported(self.search, trial, jobs))
        for index, job in enumerate(jobs):
            tries = self.search.retries
            while (ending := self._watched(job, index, reported, log)).kind != children.DONE:
                if ending.kind in (children.CRASHED, children.KILLED) and tries:
                    tries -= 1
                    self.say(f"{_title(trial)}: {_last_line(ending.text)}; tried again ({log})")
                    continue
                if ending.kind == children.STOPPED:  # by somebody else than this worker, as one who wants the room
                    self.say(f"{_title(trial)}: stopped from outside; it goes on ({log})")
                    continue
                self.say(f"{_title(trial)}: failed: {ending.text.rstrip()}")
                raise _EndedError(TrialState.FAIL, {"error": ending.text}, ending)
            self._look(job, index, reported, ended=True)
            try:
                hopeless = self._persist(partial(reported.finished, index, job))
            except InputError as error:  # it has not logged the objective
                wrong = Ending(children.WRONG, str(error))
                raise _EndedError(TrialState.FAIL, {"error": wrong.text}, wrong) from None
            if hopeless:
                raise _EndedError(TrialState.PRUNED, {}, ending)
        return [job.figures() for job in jobs]

    def _watched(self, job: Job, index: int, reported: Reported, log: Path) -> Ending:
        """Run a job in a process of its own, its values reported as they come."""
        child = Child(job.run, log)
        looked = time.monotonic()
        try:
            while (ending := child.ending(LOOK)) is None:
                if self.wishes.stop():
                    raise AskedError
                if self._look(job, index, reported):
                    raise _EndedError(TrialState.PRUNED, {}, Ending(children.STOPPED, ""))
                if time.monotonic() - looked > QUIET:
                    looked = time.monotonic()
                    with contextlib.suppress(*away()):  # whoever comes back first has it
                        if not self.leases.held():
                            raise _LostError
            return ending
        finally:
            child.stop()
            if child.ending(GRACE) is None:
                child.stop(9)
                child.ending(GRACE)

    def _look(self, job: Job, index: int, reported: Reported, *, ended: bool = False) -> bool:
        """Report what is new; whether the trial is to end, which one whose job has `ended` is not."""
        return bool(reported.wanted and self._persist(lambda: reported.look(index, job, ended=ended)))

    def _tell(self, trial: Trial, outcome: Outcome) -> None:
        facts = {name: value for name, value in outcome.facts.items() if not name.startswith("constraint ")}

        def tell() -> None:
            for name, value in facts.items():
                if trial.user_attrs.get(name) != value:
                    trial.set_user_attr(name, value)
            known = trial.constraints
            for name in self.search.constraints:
                if f"constraint {name}" in outcome.facts and name not in known:
                    trial.set_constraint(name, outcome.facts[f"constraint {name}"])
            try:
                self.study.tell(trial, outcome.values, state=outcome.state, skip_if_finished=True)
            except RuntimeError as error:  # told, but a grid that is exhausted asks for an end in this way
                if "Study.stop" not in str(error):
                    raise
                self.study.set_user_attr(EXHAUSTED, True)

        if not self._persist(self.leases.held):
            self._leave(trial)
            return
        self.note(outcome)
        with contextlib.suppress(UpdateFinishedTrialError):  # told before the connection was lost
            self._persist(tell)
        self.leases.release(trial.number)

    def _leave(self, trial: Trial) -> None:
        self.say(f"trial {trial.number}: another worker has it")
        self.leases.release(trial.number)

    def _measure_default(self) -> None:
        """Run the default arm, once for all workers, for constraints to be held against."""
        while not self.wishes.stop():
            self.study._thread_local.cached_all_trials = None
            if BASE in self._persist(lambda: self.study.user_attrs):
                return
            if not self._persist(lambda: self.leases.take(BASELINE)):
                time.sleep(QUIET)
                continue
            if BASE not in self._persist(lambda: self.study.user_attrs):
                self.say("the default arm is run first, for constraints to be held against")
                try:
                    figures = self._run(self.plan({}), None)
                except _LostError:
                    self.leases.release(BASELINE)
                    continue
                except _EndedError as error:
                    raise InputError(f"search.arm: the default failed: {_last_line(error.ending.text)}") from None
                names = (*self.search.objectives, *self.search.constraints)
                self._keep_default({name: mean(figures, name) for name in names})
            self.leases.release(BASELINE)

    def _keep_default(self, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            if not math.isfinite(value):
                raise InputError(f"search.arm: the default's {name} is {value}: nothing can be held against it")
        self._persist(lambda: self.study.set_user_attr(BASE, values))


class _LostError(Exception):
    """The lease went with a connection, and another worker has taken it."""


class _EndedError(Exception):
    """The trial ends without a value."""

    def __init__(self, state: TrialState, facts: dict[str, Any], ending: Ending) -> None:
        super().__init__(state.name)
        self.state, self.facts, self.ending = state, facts, ending
        self.wrong = ending.text if ending.kind == children.WRONG else ""


def _title(trial: Trial | None) -> str:
    return "default arm" if trial is None else f"trial {trial.number}"


def _last_line(text: str) -> str:
    return text.rstrip().rpartition("\n")[2]


def _whereabouts() -> dict[str, Any]:
    """Where a trial is run, for its attributes."""
    return {"host": socket.gethostname(), "pid": os.getpid()}
