"""The training loop: updates over length-bucketed batches, evaluation by epoch, exact resume."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn import functional as F

from isoscope.config.training import Training
from isoscope.corpora.batches import collate, epoch_batches
from isoscope.corpora.tokens import Encoded
from isoscope.errors import RunError
from isoscope.models import build
from isoscope.training.checkpoint import (
    State,
    load_state,
    optimizer_tensors,
    restore_optimizer,
    restore_rng,
    rng_state,
    save_state,
)
from isoscope.training.evaluation import Evaluation, Sums, evaluate, sums, to_device
from isoscope.training.keeping import Keeper
from isoscope.training.optim import parameter_groups, schedule_factor
from isoscope.training.progress import Points, Progress


class Log(Protocol):
    """Where points go beside the output: the run's record."""

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None: ...


class Display(Protocol):
    """Where a person watches: a bar on a terminal, lines in a log."""

    def update(self, step: int, total: int, figures: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, dict[str, float]]) -> None: ...


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
        work: Path,
        states: Path,
        keeper: Keeper,
        log: Log,
        display: Display,
        stop: Callable[[], bool],
    ) -> None:
        self.settings, self.seed, self.pad_id = settings, seed, pad_id
        self.train, self.validation = train, validation
        self.states, self.keeper, self.log, self.display, self.stop = states, keeper, log, display, stop
        self.accelerator = accelerator
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
        self.progress = Progress(classes=int(model.config.num_labels))
        state = load_state(states)
        if state is not None:
            self._restore(state)
        self.resumed_at = self.progress.step if state is not None else None
        self.points = Points(work / "metrics.jsonl", self.progress.points)
        if state is None:
            shutil.rmtree(work / "checkpoints", ignore_errors=True)
            shutil.rmtree(work / "snapshots", ignore_errors=True)

    def fit(self) -> Fitted:
        """Train to the end and leave the chosen epoch's weights in the model."""
        progress, settings = self.progress, self.settings
        self.model.train()
        if progress.step == 0 and progress.points == 0:
            self._point_all("validation", self._validate().sums.figures(), epoch=0)
            self._keep_snapshot()
        while progress.epochs_done < settings.epochs and not self._exhausted():
            self._train_epoch(progress.epochs_done + 1)
            self._close_epoch()
        chosen = self.keeper.chosen(best=progress.best_epoch, last=progress.epochs_done)
        self.keeper.load(self.raw_model, chosen)
        self.points.flush()
        return Fitted(chosen, progress.step)

    def point(self, name: str, value: float, epoch: int | None) -> None:
        """Add one point to the output and to the log."""
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
        tokens, began = 0, time.perf_counter()
        for rows in self._batches(epoch)[done:]:
            tokens += int(self.lengths[rows].sum())
            loss, norm = self._update(rows)
            step = self.progress.step
            if step % self.settings.log_every == 0:
                self.point("step/loss", loss, None)
                self.point("step/gradient_norm", norm, None)
                self.point("step/learning_rate", self.optimizer.param_groups[0]["lr"], None)
                self.display.update(step, self.total, {"loss": loss})
            if step & (step - 1) == 0:
                self._keep_snapshot()
            stopping = self.stop()
            if stopping or (step % self.settings.checkpoint_every == 0 and step < epoch * self.per_epoch):
                self._save()
            if stopping:
                raise InterruptedRunError
        if tokens:  # none where a run stopped on an epoch's last step goes on
            speed = tokens / (time.perf_counter() - began)
            self.log.metric("speed/tokens_per_second", speed, step=self.progress.step, epoch=epoch)

    def _update(self, rows: np.ndarray) -> tuple[float, float]:
        """One optimiser step on the global batch `rows`: its mean loss and its gradient norm before clipping."""
        settings, progress = self.settings, self.progress
        schedule = settings.schedule
        horizon = self.per_epoch * (schedule.epochs or settings.epochs)
        factor = schedule_factor(schedule.kind, progress.step, total=horizon, warmup=schedule.warmup)
        for group in self.optimizer.param_groups:
            group["lr"] = group["peak"] * factor
        part = Sums.zero(progress.classes)
        for micro in np.array_split(rows, settings.accumulation) if settings.accumulation > 1 else [rows]:
            if not len(micro):
                continue
            inputs = to_device(collate(self.train, micro, pad_id=self.pad_id), self.accelerator.device)
            labels = inputs.pop("labels")
            scores = self.model(**inputs).logits.float()
            loss = F.cross_entropy(scores, labels, reduction="sum")
            self.accelerator.backward(loss / len(rows))
            part += sums(loss, scores, labels, progress.classes)
        if not np.isfinite(part.loss):
            raise DivergedError(
                f"loss is {part.loss / len(rows)} at step {progress.step + 1}: try a lower learning rate"
            )
        bound = settings.clip_norm if settings.clip_norm is not None else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.names.keys(), bound, foreach=True))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.add(part, norm)
        return part.loss / len(rows), norm

    def _close_epoch(self) -> None:
        progress = self.progress
        train = {**progress.sums.figures(), "gradient_norm": progress.gradient_norm / max(progress.updates, 1)}
        figures = self._validate().sums.figures()
        better = progress.close_epoch(figures[self.settings.select], self.settings.select)
        epoch = progress.epochs_done
        self._point_all("train", train, epoch)
        self._point_all("validation", figures, epoch)
        moved = build.fusion_distance(self.raw_model, self.fusion_start)
        if moved is not None:
            self.point("fusion/moved", moved, epoch)
        self.keeper.epoch(self.raw_model, epoch, better=better)
        if self.settings.snapshots.epochs:
            self.keeper.snapshot(self.raw_model, progress.step)
        self._save()
        self.display.epoch(epoch, progress.step, self.total, {"train": train, "validation": figures})

    def _validate(self) -> Evaluation:
        return self.evaluate(self.validation)

    def evaluate(self, split: Encoded) -> Evaluation:
        """Score a split with the weights the model holds now."""
        size = max(self.settings.batch_size, 64)
        return evaluate(self.model, split, batch_size=size, pad_id=self.pad_id, device=self.accelerator.device)

    def _point_all(self, split: str, figures: dict[str, float], epoch: int) -> None:
        for name, value in figures.items():
            self.point(f"{split}/{name}", value, epoch)

    def _keep_snapshot(self) -> None:
        if self.settings.snapshots.steps == "powers":
            self.keeper.snapshot(self.raw_model, self.progress.step)

    def _freeze(self, frozen: bool) -> None:
        for name, parameter in self.raw_model.named_parameters():
            if name in self.frozen:
                parameter.requires_grad_(not frozen)

    def _save(self) -> None:
        self.points.flush()
        self.progress.points = self.points.count
        model = self.raw_model.state_dict()  # buffers too: a fusion of one's own may have some
        optimizer = optimizer_tensors(self.optimizer, self.names)
        save_state(self.states, self.progress.step, State(model, optimizer, rng_state(), self.progress.as_dict()))

    def _restore(self, state: State) -> None:
        self.raw_model.load_state_dict(state.model)
        restore_optimizer(self.optimizer, self.names, state.optimizer)
        restore_rng(state.rng)
        self.progress = Progress(**state.progress)
