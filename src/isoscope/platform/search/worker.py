"""A search worker: claim a trial (new, or of a dead worker), run it, store the result."""

import contextlib
import copy
import math
import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from isoscope.base.errors import InputError
from isoscope.platform.executor.execute import Requests
from isoscope.platform.search import samplers, space
from isoscope.platform.search.leases import BASELINE, turn
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.running import (
    LOOK,
    QUIET,
    AskedError,
    Effort,
    EndedError,
    LostError,
    Plan,
    Runner,
    judged,
    last_line,
    means_of,
)
from isoscope.platform.search.storage import AWAY
from isoscope.platform.search.study import BASE, OpenStudy, spent


class Worker:
    """Work on a study until its budget is spent and every trial has ended, or until asked to stop."""

    def __init__(
        self,
        opened: OpenStudy,
        plan: Plan,
        *,
        requests: Requests,
        note: Callable[[FrozenTrial], None],
        say: Callable[[str], None],
        provenance: Mapping[str, Any],
    ) -> None:
        """`note`: called before a result is stored, again after a failure to store it; `provenance`: of every trial."""
        self.opened, self.study, self.leases, self.search = opened, opened.study, opened.leases, opened.search
        self.plan, self.requests, self.note, self.say = plan, requests, note, say
        self.provenance = {
            **provenance,
            "seeds": list(self.search.seeds),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }
        self.running = Runner(opened, requests, say)
        self._persist = self.running.persist

    def run(self) -> None:
        """Raises `InputError` for errors that a retry does not help, such as an objective that no run logs."""
        try:
            if self.search.constraints:
                self._measure_default()
            pause = LOOK
            while not (self.requests.finish or self.requests.stop):
                effort, left = self._persist(self.claim)
                if effort is not None:
                    self._work(effort)
                    pause = LOOK
                elif left:
                    time.sleep(pause)  # their workers may die
                    pause = min(2 * pause, QUIET)
                else:
                    return
        except AskedError:
            return
        finally:
            self.leases.close()

    def claim(self) -> tuple[Effort | None, bool]:
        """Lease a trial to work on; without one, whether other workers still run trials."""
        with turn(self.leases):
            study = copy.copy(self.study)  # a fresh cache: samplers cache trials in the study
            trials = study.get_trials(deepcopy=False)
            running = [trial.number for trial in trials if trial.state == TrialState.RUNNING]
            for number in filter(self.leases.take, running):
                with self._released_on_error(number):
                    taken = self._taken_over(study, number)
                if taken is not None:
                    return taken, True
                self.leases.release(number)
            if spent(trials, self.search):
                return None, bool(running)
            waiting = [trial.number for trial in trials if trial.state == TrialState.WAITING]
            return self._asked(study, min(waiting, default=len(trials))), True

    def _taken_over(self, study: Study, number: int) -> Effort | None:
        """A running trial whose worker is gone, with its missing names drawn; None if it has ended by now."""
        storage = self.opened.storage
        study_id = storage.get_study_id_from_name(study.study_name)
        trial_id = storage.get_trial_id_from_study_id_trial_number(study_id, number)
        known = storage.get_trial(trial_id)
        if known.state != TrialState.RUNNING:
            return None
        self.say(f"trial {number}: taken over, its worker has died")
        study.sampler = samplers.sampler(self.search, number)
        trial = Trial(study, trial_id)
        space.suggest(self.search, trial)
        return Effort(trial, frozenset(known.intermediate_values))

    def _asked(self, study: Study, number: int) -> Effort | None:
        """A new trial, or a queued trial with its choices; None if another worker holds the lease of its number.

        If this worker dies before it takes the lease, another worker takes the trial over.
        """
        study.sampler = samplers.sampler(self.search, number)
        trial = study.ask()
        if not self.leases.take(trial.number):
            return None
        with self._released_on_error(trial.number):
            space.suggest(self.search, trial)
            return Effort(trial)

    @contextlib.contextmanager
    def _released_on_error(self, number: int) -> Iterator[None]:
        """Release the lease if the storage fails while a trial starts: the next worker takes the trial over."""
        try:
            yield
        except BaseException:
            self.leases.release(number)
            raise

    def _work(self, effort: Effort) -> None:
        trial = effort.trial
        jobs = self.plan(space.chosen(self.search, trial.params))
        effort.facts = {**self.provenance, "digests": [job.digest for job in jobs]}
        values: list[float] | None = None
        constraints: dict[str, float] = {}
        state, error = TrialState.COMPLETE, None
        try:
            self._persist(lambda: effort.note(at_once=True))
            values, constraints = self._judged(effort, self.running.run(jobs, effort))
        except AskedError:
            with contextlib.suppress(UpdateFinishedTrialError, *AWAY):
                effort.note(at_once=True)
            raise
        except (LostError, UpdateFinishedTrialError):  # the lease was lost with a connection
            self._leave(trial)
            return
        except EndedError as ended:
            state, error = ended.state, ended
        failure = {"error": str(error)} if state == TrialState.FAIL else {}
        result = create_trial(
            state=state,
            values=values,
            params=trial.params,
            distributions=trial.distributions,
            user_attrs={PROVENANCE: effort.provenance, **failure},
            constraints=constraints,
        )
        result.number = trial.number
        self._tell(trial, result)
        if error is not None and error.wrong:
            raise InputError(str(error))

    def _judged(self, effort: Effort, metrics: list[Mapping[str, float]]) -> tuple[list[float], dict[str, float]]:
        """Objectives and constraints of a trial with finished runs. Raises `EndedError` without such numbers."""
        values = self._means(effort, metrics)
        base = self._persist(lambda: self.study.user_attrs.get(BASE, {})) if self.search.constraints else {}
        return judged(self.search, values, base)

    def _means(self, effort: Effort, metrics: list[Mapping[str, float]]) -> dict[str, float]:
        """Means of objectives and constraints over runs. Raises `EndedError` for a mean that is not finite."""
        means = means_of(self.search, metrics)
        for name, value in means.items():
            if not math.isfinite(value):
                self.say(f"{effort.title}: failed: {name} is {value}")
                raise EndedError(TrialState.FAIL, f"{name} is {value}")
        return means

    def _tell(self, trial: Trial, result: FrozenTrial) -> None:
        def tell() -> None:
            for name, value in result.user_attrs.items():
                if trial.user_attrs.get(name) != value:
                    trial.set_user_attr(name, value)
            known = trial.constraints if result.constraints else {}  # saves a query
            for name, value in result.constraints.items():
                if name not in known:
                    trial.set_constraint(name, value)
            self.study.tell(trial, result.values, result.state, skip_if_finished=True)

        if not self._persist(lambda: self.leases.held(trial.number)):
            self._leave(trial)
            return
        self.note(result)
        with contextlib.suppress(UpdateFinishedTrialError):  # stored before the connection was lost
            self._persist(tell)
        self.leases.release(trial.number)

    def _leave(self, trial: Trial) -> None:
        self.say(f"trial {trial.number}: another worker has taken it over")
        self.leases.release(trial.number)

    def _measure_default(self) -> None:
        """Run the default arm once for all workers: constraints compare with it."""
        measured = partial(self._persist, lambda: BASE in self.study.user_attrs)
        while not (self.requests.stop or measured()):
            if not self._persist(lambda: self.leases.take(BASELINE)):
                time.sleep(QUIET)
                continue
            try:
                if not measured():
                    self.say("running the default arm first: constraints compare with it")
                    effort = Effort(None)
                    values = self._means(effort, self.running.run(self.plan({}), effort))
                    self._persist(partial(self.study.set_user_attr, BASE, values))
            except LostError:
                continue
            except EndedError as error:
                reason = f"the default arm failed: {last_line(str(error))}"
                raise InputError(f"search.arm: {reason}; constraints compare with it: choose another arm") from None
            finally:
                self.leases.release(BASELINE)
