"""Run the training loop: updates over length-bucketed batches, evaluation by epoch, exact resume."""

import json
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from accelerate import Accelerator

from isoscope.base.atomic_files import write_text
from isoscope.data.batches import drawn_rows
from isoscope.models import build
from isoscope.objectives import Indices, Objective, Place, Scored, Tally
from isoscope.training.backward import Backward
from isoscope.training.determinism import seed_dropout
from isoscope.training.display import Display, Log
from isoscope.training.evaluation import evaluate
from isoscope.training.keeping import Keeper
from isoscope.training.observers import Context, Observer, Observers, apart, prefixed
from isoscope.training.observers.guarded import guarded
from isoscope.training.optim import epoch_plan, parameter_groups, schedule_factor, updates_within
from isoscope.training.penalised import WeightedPenalty
from isoscope.training.progress import (
    TRACE_FILE,
    TRACED,
    InterruptedRunError,
    Points,
    Progress,
    Trace,
    add_to_trace,
    begin_trace,
)
from isoscope.training.ranks import Ranks
from isoscope.training.resumption import Resumption
from isoscope.training.unread import Read, Unread, Update

RowScores = Callable[[Any, Any], Mapping[str, float]]
"""Scores of targets and predictions of all rows of a split."""


class Loop:
    """One training run, from its first update or its last good state to its best epoch.

    The loop trains any `Objective` and calls any `observers`. `settings`: the section `training`, as attributes.
    `further`: further scores of the objective's predictions.

    `work` receives the output (metrics.jsonl, checkpoints, snapshots); `states` holds what resuming needs. Batches are
    pure functions of (seed, epoch). Dropout draws from torch's generator, whose state is saved. So a resumed run is
    bitwise equal to an uninterrupted run. Raises `InterruptedRunError` when `stop()` turns true, and `DivergedError` if
    the loss is not finite: when numbers are read, which is at every `log_every` updates and before a state is saved.

    Several processes (`Ranks`) run the same loop: each computes its rows of every batch, gradients and sums are added
    up, and only rank 0 writes. All processes must see the same `states`.
    """

    def __init__(
        self,
        model: Any,
        objective: Objective,
        *,
        settings: Any,
        seed: int,
        accelerator: Accelerator,
        penalised: WeightedPenalty | None,
        observers: Sequence[Observer],
        work: Path,
        states: Path,
        keeper: Keeper,
        log: Log,
        display: Display,
        stop: Callable[[], bool],
        further: Sequence[RowScores] = (),
    ) -> None:
        self.settings, self.seed, self.objective = settings, seed, objective
        self.work, self.keeper = work, keeper
        self.log, self.display, self.stop = log, display, stop
        self.ranks = Ranks(accelerator)
        groups = parameter_groups(model, build.fusion_parameters(model).keys(), settings)
        optimizer = torch.optim.AdamW(
            groups, lr=settings.learning_rate, betas=settings.adam_betas, eps=settings.adam_epsilon, fused=True
        )
        self.raw_model, self.optimizer, self.parameters = model, optimizer, [*model.parameters()]
        # Accelerate does not wrap the optimiser: its wrapper serves loss scaling and its own accumulation, and costs a
        # tiny model several per cent per update.
        self.model = accelerator.prepare(model)
        self.per_epoch = len(objective.plan("train", 1))
        self.total = self.per_epoch * settings.epochs
        if (budget := settings.budget) is not None:
            self.total = updates_within(budget.kind, budget.number, objective, epochs=settings.epochs)
        self.epochs = math.ceil(self.total / self.per_epoch)
        self.row_scores = [*filter(None, [getattr(objective, "row_scores", None)]), *further]
        self.penalised = penalised
        self.observers = Observers(guarded(observers))
        run = Context(model, optimizer, objective, seed, self.total, settings.log_every, self.ranks)
        self.observers.begin(run)
        self.backward = Backward(self.model, objective, self.ranks, settings.accumulation, penalised)
        seed_dropout(settings.determinism, seed, rank=self.ranks.rank)
        metrics = work / "metrics.jsonl"
        self.resumption = Resumption(
            states,
            run,
            metrics=metrics,
            keeper=keeper,
            penalised=penalised,
            observers=self.observers,
            determinism=settings.determinism,
        )
        self.progress = self.resumption.restore() or Progress()
        self.unread, self._stopping = Unread(self.ranks, objective), False
        self.points = Points(metrics, self.progress.points) if self.ranks.main else None

    def fit(self) -> int:
        """Train to the end, leave the chosen epoch's weights in the model, and return the epoch."""
        progress, settings = self.progress, self.settings
        self.model.train()
        if progress.step == 0:
            self._point_all(self._begin(), epoch=0)
            if self._snapshot_due(0) and self.ranks.main:
                self.keeper.snapshot(self.raw_model, 0)
            if not self.total and self.ranks.main:
                self.keeper.epoch(self.raw_model, 0, better=True)
        patience = settings.patience or settings.epochs
        while progress.epochs_done < self.epochs and progress.stale < patience:
            self._train_epoch(progress.epochs_done + 1)
            self._close_epoch()
        chosen = progress.epochs_done if settings.keep == "last" else progress.best_epoch  # which alone is kept
        if self.points is not None:
            write_text(self.work / TRACE_FILE, json.dumps(progress.trace, indent=1) + "\n", "points")
            self.keeper.load(self.raw_model, chosen)  # before `drop` deletes what an older state may need
            self.keeper.drop()
            self.points.flush()
        self.raw_model.load_state_dict(self.ranks.send(self.raw_model.state_dict()))
        return chosen

    def rehearse(self, updates: int) -> Trace:
        """Return the golden trace: run the first `updates` of the run and write nothing."""
        self.model.train()
        self._begin()
        for epoch in range(1, self.settings.epochs + 1) if updates else ():
            self._refer(epoch)
            for rows in self.objective.plan("train", epoch):
                self._update(rows, epoch, read=True)
                if self.progress.step == updates:
                    return self.progress.trace
        return self.progress.trace

    def test(self, epoch: int) -> None:
        """Evaluate the test split once: log the chosen epoch's metrics, write the files of objective and observers."""
        if getattr(self.objective, "chooses", False):
            self._scores(self._evaluate("validation"))  # what was chosen in this epoch
        scored = self._evaluate("test", self.observers.places(None), columns=True)
        self._point_all(apart(self._scores(scored), self.observers.evaluated(scored, epoch)), epoch)
        self._point_all({"training/best_epoch": float(epoch)}, None)
        if self.points is not None:
            more = self.objective.finish(self.raw_model, scored, self.work)
            self._point_all(prefixed("test/", more), epoch)
            self.observers.finish(self.work)
            self.points.flush()

    def _begin(self) -> dict[str, float]:
        """Evaluate the validation split before the first update."""
        metrics = self._validate(0)
        self.progress.trace = begin_trace({name.removeprefix("validation/"): one for name, one in metrics.items()})
        return metrics

    def _validate(self, epoch: int | None) -> dict[str, float]:
        """Return the metrics of the validation split, from the objective and the observers."""
        scored = self._evaluate("validation", self.observers.places(None))
        return apart(self._scores(scored), self.observers.evaluated(scored, epoch))

    def _evaluate(self, split: str, places: Collection[Place] = (), columns: bool = False, **options: Any) -> Scored:
        columns = columns or bool(self.row_scores)
        return evaluate(self.raw_model, self.objective, split, self.ranks, places=places, columns=columns, **options)

    def _scores(self, scored: Scored) -> dict[str, float]:
        """Return the metrics of an evaluated split: of the tally, and those that need all predictions."""
        found = scored.tally.metrics()
        if self.row_scores:
            predictions, targets = self.objective.predicted(self.raw_model, scored)  # type: ignore[attr-defined]
            for scores in self.row_scores:
                found |= scores(targets, predictions)
        return prefixed(f"{scored.split}/", found)

    def _train_epoch(self, epoch: int) -> None:
        done = self.progress.step - (epoch - 1) * self.per_epoch
        between = {self.per_epoch * k // self.settings.evaluations for k in range(1, self.settings.evaluations)}
        if done == 0:
            self._refer(epoch)
        tokens, began = 0, time.perf_counter()
        last = min(epoch * self.per_epoch, self.total)
        for rows in epoch_plan(self.objective, epoch, self.per_epoch)[done : last - (epoch - 1) * self.per_epoch]:
            tokens += self.objective.tokens("train", rows)
            step = self.progress.step + 1
            logged, snapshot = step % self.settings.log_every == 0, self._snapshot_due(step)
            within = step - (epoch - 1) * self.per_epoch in between and step < last
            checkpoint = step % self.settings.checkpoint_every == 0 and step < last
            read = logged or snapshot or within or checkpoint or step == last or step <= TRACED
            metrics = self._update(rows, epoch, read=read)
            if logged:
                self._point_all(metrics, None)
                self.display.update(step, self.total, {"loss": metrics["step/loss"]})
            if snapshot and self.ranks.main:
                self.keeper.snapshot(self.raw_model, step)
            if within:
                self._point_all(self._validate(None), None)
            if self._stopping or checkpoint:
                self.resumption.save(self.progress, self.points)
            if self._stopping:
                raise InterruptedRunError(f"stopped at step {step}/{self.total}")
        if tokens:  # no batch is left if the run was stopped after the epoch's last step
            speed = tokens / (time.perf_counter() - began)
            self.log.metric("speed/tokens_per_second", speed, step=self.progress.step, epoch=epoch)

    def _update(self, rows: Indices, epoch: int, *, read: bool) -> dict[str, float]:
        """Take one optimiser step on the global batch `rows`.

        Its numbers stay on the device until they are `read`. Then return its mean loss, its gradient norm before
        clipping, and the metrics of the penalty and the observers.
        """
        settings, progress = self.settings, self.progress
        schedule = settings.schedule
        horizon = self.per_epoch * schedule.epochs if schedule.epochs else self.total
        factor = schedule_factor(schedule.kind, progress.step, total=horizon, warmup=schedule.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        number = progress.step + 1
        found = self.backward.add(
            rows, epoch=epoch, step=progress.step, total=self.total, observed=self.observers.places(number)
        )
        stop, seen = self.stop(), self.observers.before_update(number)
        bound = settings.clip_norm if settings.clip_norm is not None else float("inf")
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, bound, foreach=True)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.step = number
        weight = self.objective.weight("train", rows, epoch)
        self.unread.add(Update(number, found.tally, weight, norm, found.metrics, stop))
        last = self._read() if read or (stop and self.ranks.size == 1) else None
        seen |= self.observers.after_update(number, found.points)
        if last is None:
            return seen
        rate = self.optimizer.param_groups[0]["lr"]
        own = {"step/loss": last.loss, "step/gradient_norm": last.norm, "step/learning_rate": rate}
        return apart(prefixed("step/", last.penalty) | own, seen)

    def _read(self) -> Read | None:
        """Count the updates since the last call; return the last of them, None if there is none."""
        progress, last = self.progress, None
        for last in self.unread.read():
            progress.add((self._tally() + last.part).vector().tolist(), last.norm)
            add_to_trace(progress.trace, last.loss, last.norm, lambda: self.raw_model.state_dict().items())
        self._stopping |= self.unread.told
        return last

    def _tally(self) -> Tally:
        """Return the tally of the current epoch so far."""
        return self.objective.tally(np.array(self.progress.tally) if self.progress.tally else None)

    def _close_epoch(self) -> None:
        progress, select = self.progress, self.settings.select
        norm = progress.gradient_norm / max(progress.updates, 1)
        train = self._tally().metrics() | {"gradient_norm": norm}
        epoch = progress.epochs_done + 1
        validation = self._validate(epoch)
        direction = next(one.better for one in self.objective.metrics if one.name == select)
        better = progress.close_epoch(validation[f"validation/{select}"], direction)
        self._point_all(prefixed("train/", train) | validation, epoch)
        if self.ranks.main:
            self.keeper.epoch(self.raw_model, epoch, better=better)
            if self.settings.snapshots.epochs:
                self.keeper.snapshot(self.raw_model, progress.step)
        self.resumption.save(self.progress, self.points)
        shown = {name: validation[f"validation/{name}"] for name, *_ in self.objective.metrics[:2]}
        self.display.epoch(epoch, progress.step, self.total, {"train": {"loss": train["loss"]}, "validation": shown})

    def _refer(self, epoch: int) -> None:
        """Give the penalty this epoch's reference."""
        penalised = self.penalised
        if penalised is not None and penalised.reference is not None:
            rows = drawn_rows(self.objective.size("train"), penalised.reference, self.seed, epoch)
            place = penalised.place
            scored = self._evaluate("train", [place], rows=rows)
            penalised.refer_to(torch.from_numpy(scored.points[place]).to(self.ranks.device))

    def _point_all(self, metrics: dict[str, float], epoch: int | None) -> None:
        """Add points to the output and to the log."""
        for name, value in metrics.items():
            if self.points is not None:
                self.points.write(name, value, step=self.progress.step, epoch=epoch)
            self.log.metric(name, value, step=self.progress.step, epoch=epoch)

    def _snapshot_due(self, step: int) -> bool:
        every = self.settings.snapshots.steps
        return (step & (step - 1) == 0) if every == "powers" else (every != "none" and step % every == 0)
