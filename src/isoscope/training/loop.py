"""The training loop: updates over length-bucketed batches, evaluation by epoch, exact resume."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator

from isoscope.config.training import Training
from isoscope.corpora.batches import drawn_rows, epoch_batches
from isoscope.corpora.tokens import Encoded
from isoscope.errors import RunError
from isoscope.models import build
from isoscope.sealing import write_text
from isoscope.training import trace
from isoscope.training.determinism import seed_dropout
from isoscope.training.display import Display, Log
from isoscope.training.evaluation import Place, joined
from isoscope.training.keeping import Keeper
from isoscope.training.objective import Objective
from isoscope.training.optim import parameter_groups, schedule_factor
from isoscope.training.penalised import Penalised
from isoscope.training.progress import Points, Progress
from isoscope.training.ranks import Ranks
from isoscope.training.resumption import Resumption
from isoscope.training.scoring import Scorer


class DivergedError(RunError):
    """The loss is no longer a number."""


class InterruptedRunError(Exception):
    """A stop was asked for; the state is saved."""


class Fitted(NamedTuple):
    """The epoch whose weights the model now holds, and updates done in all."""

    epoch: int
    steps: int


class Loop:
    """One training run of a classifier, from its first update or its last good state to its best epoch.

    `work` collects the output (metrics.jsonl, checkpoints, snapshots); `states` holds what resuming needs. Batches are
    pure functions of (seed, epoch), dropout draws from torch's generator, whose state is saved: a resumed run is
    bitwise the one that never stopped. Raises `InterruptedRunError` when `stop()` turns true, `DivergedError` on a
    loss that is no number.

    Several processes (`Ranks`) run the same loop: each computes its rows of every batch, gradients and sums are added
    up, and only the first one writes. They must see the same `states`.
    """

    def __init__(
        self,
        model: Any,
        *,
        train: Encoded,
        validation: Encoded,
        settings: Training,
        seed: int,
        pad_id: int,
        accelerator: Accelerator,
        penalised: Penalised | None,
        work: Path,
        states: Path,
        keeper: Keeper,
        log: Log,
        display: Display,
        stop: Callable[[], bool],
    ) -> None:
        self.settings, self.seed, self.train = settings, seed, train
        self.work, self.keeper = work, keeper
        self.log, self.display, self.stop = log, display, stop
        self.ranks = Ranks(accelerator)
        self.fusion_start = {name: value.detach().clone() for name, value in build.fusion_parameters(model).items()}
        self.frozen = build.freezable(model, embeddings=settings.freeze.embeddings, layers=settings.freeze.layers)
        groups = parameter_groups(
            model.named_parameters(),
            fusion=self.fusion_start.keys(),
            learning_rate=settings.learning_rate,
            fusion_lr=settings.fusion_lr,
            weight_decay=settings.weight_decay,
        )
        optimizer = torch.optim.AdamW(
            groups, lr=settings.learning_rate, betas=settings.adam_betas, eps=settings.adam_epsilon, fused=True
        )
        self.names = {parameter: name for name, parameter in model.named_parameters()}
        self.raw_model, self.optimizer = model, optimizer
        # The optimiser stays as it is: Accelerate's wrapper is for loss scaling and for its own accumulation, and costs
        # a tiny model's update several per cent.
        self.model = accelerator.prepare(model)
        self.lengths = train.lengths
        self.per_epoch = len(self._batches(1))
        self.total = self.per_epoch * settings.epochs
        classes = int(model.config.num_labels)
        self.scorer = Scorer(
            model,
            validation,
            batch_size=settings.batch_size,
            pad_id=pad_id,
            device=accelerator.device,
            ranks=self.ranks,
            watch=settings.watch,
        )
        self.penalised = penalised
        self.objective = Objective(
            self.model,
            train,
            pad_id=pad_id,
            accelerator=accelerator,
            ranks=self.ranks,
            accumulation=settings.accumulation,
            classes=classes,
            penalised=penalised,
            watch=settings.watch,
        )
        seed_dropout(settings.determinism, seed, rank=self.ranks.rank)
        self.resumption = Resumption(
            states,
            metrics=work / "metrics.jsonl",
            keeper=keeper,
            model=model,
            optimizer=optimizer,
            names=self.names,
            penalised=penalised,
            ranks=self.ranks,
            determinism=settings.determinism,
            seed=seed,
        )
        resumed = self.resumption.restore()
        self.progress = resumed or Progress(classes=classes)
        self.resumed_at = None if resumed is None else resumed.step
        self._stopping = False
        self.points = Points(work / "metrics.jsonl", self.progress.points) if self.ranks.main else None

    def fit(self) -> Fitted:
        """Train to the end and leave the chosen epoch's weights in the model."""
        progress, settings = self.progress, self.settings
        self.model.train()
        if progress.step == 0:
            self._point_all("validation", self._begin(), epoch=0)
            self._keep_snapshot()
        while progress.epochs_done < settings.epochs and not self._exhausted():
            self._train_epoch(progress.epochs_done + 1)
            self._close_epoch()
        chosen = self.keeper.chosen(best=progress.best_epoch, last=progress.epochs_done)
        if self.points is not None:
            write_text(self.work / trace.FILE, json.dumps(progress.trace, indent=1) + "\n", "points")
            self.keeper.load(self.raw_model, chosen)  # before the rest goes: an older state may need that
            self.keeper.drop()
            self.points.flush()
        self.raw_model.load_state_dict(self.ranks.send(self.raw_model.state_dict()))
        return Fitted(chosen, progress.step)

    def rehearse(self, updates: int) -> trace.Trace:
        """The golden trace alone: the first `updates` of the run, nothing written."""
        self.model.train()
        self._begin()
        for epoch in range(1, self.settings.epochs + 1):
            self._freeze(epoch <= self.settings.freeze.epochs)
            self._refer(epoch)
            for rows in self._batches(epoch):
                self._update(rows)
                if self.progress.step == updates:
                    return self.progress.trace
        return self.progress.trace

    def _begin(self) -> dict[str, float]:
        """Score the validation split before the first update."""
        figures = self.scorer.validate()
        self.progress.trace = trace.begin(figures)
        return figures

    def point(self, name: str, value: float, epoch: int | None) -> None:
        """Add one point to the output and to the log."""
        if self.points is not None:
            self.points.write(name, value, step=self.progress.step, epoch=epoch)
        self.log.metric(name, value, step=self.progress.step, epoch=epoch)

    def _exhausted(self) -> bool:
        return self.settings.patience is not None and self.progress.stale >= self.settings.patience

    def _batches(self, epoch: int) -> list[np.ndarray]:
        settings = self.settings
        return epoch_batches(
            self.lengths, batch_size=settings.batch_size, seed=self.seed, epoch=epoch, bucket=settings.bucket
        )

    def _train_epoch(self, epoch: int) -> None:
        self._freeze(epoch <= self.settings.freeze.epochs)
        done = self.progress.step - (epoch - 1) * self.per_epoch
        between = {self.per_epoch * k // self.settings.evaluations for k in range(1, self.settings.evaluations)}
        if done == 0:
            self._refer(epoch)
        tokens, began = 0, time.perf_counter()
        for rows in self._batches(epoch)[done:]:
            tokens += int(self.lengths[rows].sum())
            figures = self._update(rows)
            step = self.progress.step
            if step % self.settings.log_every == 0:
                self._point_all("step", figures, None)
                self.display.update(step, self.total, {"loss": figures["loss"]})
            self._keep_snapshot()
            if step - (epoch - 1) * self.per_epoch in between:
                self._point_all("validation", self.scorer.validate(), None)
            if self._stopping or (step % self.settings.checkpoint_every == 0 and step < epoch * self.per_epoch):
                self.resumption.save(self.progress, self.points)
            if self._stopping:
                raise InterruptedRunError
        if tokens:  # none where a run stopped on an epoch's last step goes on
            speed = tokens / (time.perf_counter() - began)
            self.log.metric("speed/tokens_per_second", speed, step=self.progress.step, epoch=epoch)

    def _update(self, rows: np.ndarray) -> dict[str, float]:
        """One optimiser step on the global batch `rows`: its mean loss, its gradient norm before clipping, and what
        the penalty and the watch over anisotropy saw.
        """
        settings, progress = self.settings, self.progress
        schedule = settings.schedule
        horizon = self.per_epoch * (schedule.epochs or settings.epochs)
        factor = schedule_factor(schedule.kind, progress.step, total=horizon, warmup=schedule.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        part, looked = self.objective.backward(
            rows, step=progress.step, total=self.total, watched=(progress.step + 1) % settings.log_every == 0
        )
        part, self._stopping = joined(self.ranks, part, self.stop())
        if not np.isfinite(mean := part.loss / len(rows)):
            raise DivergedError(f"loss is {mean} at step {progress.step + 1}: try a lower learning rate")
        if looked.get("penalty_weight") and not np.isfinite(looked["penalty"]):
            raise DivergedError(f"penalty is {looked['penalty']} at step {progress.step + 1}: it takes no such batch")
        bound = settings.clip_norm if settings.clip_norm is not None else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.names.keys(), bound, foreach=True))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.add(part, norm)
        trace.add(progress.trace, mean, norm, lambda: self.raw_model.state_dict().items())
        return looked | {"loss": mean, "gradient_norm": norm, "learning_rate": self.optimizer.param_groups[0]["lr"]}

    def _close_epoch(self) -> None:
        progress = self.progress
        train = {**progress.sums.figures(), "gradient_norm": progress.gradient_norm / max(progress.updates, 1)}
        figures = self.scorer.validate()
        better = progress.close_epoch(figures[self.settings.select], self.settings.select)
        epoch = progress.epochs_done
        self._point_all("train", train, epoch)
        self._point_all("validation", figures, epoch)
        moved = build.fusion_distance(self.raw_model, self.fusion_start)
        if moved is not None:
            self.point("fusion/moved", moved, epoch)
        if self.ranks.main:
            self.keeper.epoch(self.raw_model, epoch, better=better)
            if self.settings.snapshots.epochs:
                self.keeper.snapshot(self.raw_model, progress.step)
        self.resumption.save(self.progress, self.points)
        self.display.epoch(epoch, progress.step, self.total, {"train": train, "validation": figures})

    def _refer(self, epoch: int) -> None:
        """Give the penalty its reference of this epoch."""
        penalised = self.penalised
        if penalised is not None and penalised.reference is not None:
            rows = drawn_rows(len(self.lengths), penalised.reference, self.seed, epoch)
            place = Place(penalised.points.layer, penalised.points.vectors)
            penalised.refer_to(self.scorer.points(self.train.take(rows), place))

    def _point_all(self, group: str, figures: dict[str, float], epoch: int | None) -> None:
        for name, value in figures.items():
            self.point(f"{group}/{name}", value, epoch)

    def _keep_snapshot(self) -> None:
        every, step = self.settings.snapshots.steps, self.progress.step
        due = (step & (step - 1) == 0) if every == "powers" else (every != "none" and step % every == 0)
        if due and self.ranks.main:
            self.keeper.snapshot(self.raw_model, step)

    def _freeze(self, frozen: bool) -> None:
        for name, parameter in self.raw_model.named_parameters():
            if name in self.frozen:
                parameter.requires_grad_(not frozen)
