"""The driver of a search: ask Optuna for a trial, let the executor carry out its runs, tell Optuna the result.

One driver owns a study. A trial that is stored as running and not under way here was interrupted: it is taken up first.
"""

import copy
import math
import os
import socket
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TypeVar

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from isoscope.base.errors import InputError
from isoscope.platform.executor.child import CROWDED, DONE, WRONG, Ending
from isoscope.platform.executor.execute import Piece, Place, Pool
from isoscope.platform.runs.secrets import scrub
from isoscope.platform.search import space
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.records import Records
from isoscope.platform.search.status import Interrupts, LiveStatus
from isoscope.platform.search.storage import TROUBLE, persist
from isoscope.platform.search.study import BASE, HeldStudy, spent
from isoscope.platform.search.under_way import Plan, UnderWay, judged, means_of

Returned = TypeVar("Returned")


class AskedError(Exception):
    """The search was asked to stop now."""


class Driver:
    """Work on a study until its budget is spent and every trial has ended, or until asked to stop."""

    def __init__(
        self,
        one: HeldStudy,
        plan: Plan,
        *,
        workers: int,
        place: Place | None,
        screen: LiveStatus,
        asked: Interrupts,
        records: Records,
    ) -> None:
        """`workers`: trials at a time; `place`: where their runs work (None: this machine)."""
        self.one, self.search, self.plan, self.workers = one, one.search, plan, workers
        self.screen, self.asked, self.records = screen, asked, records
        self.pool = Pool(screen, place, heard=lambda piece, line: self._log(piece.name, line))
        self.trials: dict[str, UnderWay] = {}
        """Trials under way, by title."""
        self.crowded: list[UnderWay] = []
        """Those of them that wait for room on a card."""
        self.facts = {
            **records.provenance,
            "seeds": list(self.search.seeds),
            "host": socket.gethostname(),
            "pid": os.getpid(),
        }

    def run(self) -> None:
        """Raises `InputError` for errors that a retry does not help, such as an objective that no run logs."""
        try:
            with self.pool:
                if self.search.constraints and BASE not in self._persist(lambda: self.one.study.user_attrs):
                    self.screen.say("running the default arm first: constraints compare with it")
                    self._drive(iter([UnderWay(self.search, None, self.plan({}), {})]))
                self._drive(iter(self._claimed, None))
        except AskedError:
            pass
        finally:
            for trial in self.trials.values():
                with suppress(*TROUBLE):
                    trial.note(at_once=True)

    def _drive(self, trials: Iterator[UnderWay | None]) -> None:
        """Keep `workers` trials under way until there is no other, or until asked to finish."""
        while True:
            self._check_asked()
            while self.crowded and self.pool.takes(self.workers):
                self._start(self.crowded.pop())
            while self.pool.takes(self.workers) and not self.asked.finish and (fresh := next(trials, None)):
                self.trials[fresh.title] = fresh
                self._persist(partial(fresh.note, at_once=True))
                self._start(fresh)
            if not self.trials:
                return
            for piece, ending in self.pool.ended():
                self._ended(self.trials[piece.name], ending)
            for trial in [*self.trials.values()]:
                trial.clock(at_work=self.pool.at_work(trial.title))
                if not trial.pruned and self._persist(trial.hopeless):
                    trial.pruned = True
                    if trial in self.crowded:  # no process would end
                        self.crowded.remove(trial)
                        self._tell(trial, TrialState.PRUNED)
                        continue
                    self.pool.stop(trial.title)
                with suppress(*TROUBLE):
                    trial.note()
            self.screen.look()

    def _persist(self, call: Callable[[], Returned]) -> Returned:
        """`call()`; wait while the storage is away, unless asked to stop."""
        return persist(call, f"storage {self.one.where.shown}", self.screen.say, look=self._check_asked)

    def _check_asked(self) -> None:
        if self.asked.stop:
            raise AskedError

    def _claimed(self) -> UnderWay | None:
        """The next trial and its runs; None if there is none left to begin."""
        claimed = self._persist(self._claim)
        if claimed is None:
            return None
        trial, reported = claimed
        return UnderWay(self.search, trial, self.plan(space.chosen(self.search, trial.params)), self.facts, reported)

    def _claim(self) -> tuple[Trial, Collection[int]] | None:
        """An interrupted trial, or a trial that Optuna proposes, and the steps that it has reported.

        It may be repeated if the storage fails in between: a trial that was begun meanwhile counts as interrupted, and
        a name that was drawn keeps its value.
        """
        self.one.check()
        study = copy.copy(self.one.study)  # a fresh cache: samplers cache trials in the study
        trials = study.get_trials(deepcopy=False)
        running = [one for one in trials if one.state == TrialState.RUNNING]
        left = next((one for one in running if f"trial {one.number}" not in self.trials), None)
        if left is None and spent(trials, self.search):
            return None
        waiting = [one.number for one in trials if one.state == TrialState.WAITING]
        number = left.number if left else min(waiting, default=len(trials))
        study.sampler = space.sampler(self.search, number)
        if left is None:
            trial = study.ask()
        else:
            storage = self.one.storage
            known = storage.get_study_id_from_name(study.study_name)
            trial = Trial(study, storage.get_trial_id_from_study_id_trial_number(known, number))
        space.suggest(self.search, trial)
        return trial, left.intermediate_values if left else ()

    def _start(self, one: UnderWay) -> None:
        """Start the run at work in a process, which inherits no connection to the storage."""
        self.one.storage.engine.dispose()
        self.pool.start(Piece(one.title, one.job.do, one.job.arguments, alone=True))  # the study's lock is ours

    def _ended(self, one: UnderWay, ending: Ending) -> None:
        """Start the next run of a trial, or the same again, or tell Optuna how the trial has ended."""
        done = ending.kind == DONE
        if not done and ending.text:
            self._log(one.title, ending.text)
        if one.pruned or (done and self._persist(partial(one.hopeless, ended=True))):
            self._tell(one, TrialState.PRUNED)
        elif (done and one.advance()) or one.again(ending):
            if not done:
                self.screen.say(f"{one.title}: {ending.line}; run again")
            if ending.kind == CROWDED:  # when its card has fewer runs
                self.crowded.append(one)
            else:
                self._start(one)
        elif done:
            self._judge(one)
        else:
            self._fail(one, ending.text, wrong=ending.kind == WRONG)

    def _judge(self, one: UnderWay) -> None:
        """Tell the objectives and constraints of a trial, or store the metrics of the default arm."""
        try:
            means = means_of(self.search, [job.metrics() for job in one.jobs])
        except InputError as wrong:
            self._fail(one, str(wrong), wrong=True)
            return
        if endless := [f"{name} is {value}" for name, value in means.items() if not math.isfinite(value)]:
            self._fail(one, endless[0])
        elif one.trial is None:
            self._persist(partial(self.one.study.set_user_attr, BASE, means))
            del self.trials[one.title]
        else:
            base = self._persist(lambda: self.one.study.user_attrs.get(BASE, {}))
            self._tell(one, TrialState.COMPLETE, *judged(self.search, means, base))

    def _fail(self, one: UnderWay, text: str, *, wrong: bool = False) -> None:
        """Tell that a trial has failed. Raises `InputError` if the search is `wrong`, or if it is the default arm."""
        self.plan({})  # raises for other data than those of the search: then the trial is taken up again, not failed
        text = scrub(text.rstrip())  # it is stored and published
        if one.trial is None:
            last = text.rpartition("\n")[2]
            raise InputError(
                f"search.arm: the default arm failed: {last}; constraints compare with it: choose another arm"
            )
        self.screen.say(f"{one.title}: failed: {text}")
        self._tell(one, TrialState.FAIL, error=text)
        if wrong:
            raise InputError(text)

    def _tell(
        self,
        one: UnderWay,
        state: TrialState,
        values: list[float] | None = None,
        constraints: Mapping[str, float] | None = None,
        *,
        error: str | None = None,
    ) -> None:
        """Write the record of an ended trial, and store its result."""
        result = create_trial(
            state=state,
            values=values,
            params=one.trial.params,
            distributions=one.trial.distributions,
            user_attrs={PROVENANCE: one.provenance, **({"error": error} if error else {})},
            constraints=dict(constraints or {}),
        )
        result.number, result.datetime_start = one.trial.number, one.trial.datetime_start
        self._persist(self.one.check)
        self.records.trial(result)
        with suppress(UpdateFinishedTrialError):  # stored before the connection was lost
            self._persist(partial(self._store, one.trial, result))
        del self.trials[one.title]

    def _store(self, trial: Trial, result: FrozenTrial) -> None:
        for name, value in result.user_attrs.items():
            trial.set_user_attr(name, value)
        for name, value in result.constraints.items():
            trial.set_constraint(name, value)
        self.one.study.tell(trial, result.values, result.state, skip_if_finished=True)

    def _log(self, title: str, text: str) -> None:
        """Write what a run prints, or why it has failed, to the log of its trial."""
        name = title.removeprefix("trial ").removesuffix(" arm")
        log = self.one.where.folder / self.one.study.study_name / f"{name}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")
