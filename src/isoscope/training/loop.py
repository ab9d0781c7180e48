"""The training loop: updates over length-bucketed batches, evaluation by epoch, exact resume."""

import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from accelerate import Accelerator
from torch.nn import functional as F

from isoscope.config.training import Training
from isoscope.corpora.batches import collate, epoch_batches
from isoscope.corpora.tokens import Encoded
from isoscope.errors import RunError
from isoscope.models import build
from isoscope.sealing import write_text
from isoscope.training import trace
from isoscope.training.checkpoint import (
    State,
    load_state,
    optimizer_tensors,
    read_state,
    restore_optimizer,
    save_state,
)
from isoscope.training.determinism import restore_rng, rng_state, seed_dropout
from isoscope.training.display import Display, Log
from isoscope.training.evaluation import Evaluation, Sums, evaluate, joined, sums, to_device
from isoscope.training.keeping import Keeper
from isoscope.training.optim import parameter_groups, schedule_factor
from isoscope.training.progress import Points, Progress
from isoscope.training.ranks import Ranks


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
        work: Path,
        states: Path,
        keeper: Keeper,
        log: Log,
        display: Display,
        stop: Callable[[], bool],
    ) -> None:
        self.settings, self.seed, self.pad_id = settings, seed, pad_id
        self.train, self.validation = train, validation
        self.work, self.states, self.keeper = work, states, keeper
        self.log, self.display, self.stop = log, display, stop
        self.accelerator, self.ranks = accelerator, Ranks(accelerator)
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
        seed_dropout(settings.determinism, seed, rank=self.ranks.rank)
        state = self._agreed_state()
        if state is not None:
            self._restore(state)
        self.resumed_at = self.progress.step if state is not None else None
        self._stopping = False
        if self.ranks.main:
            self.points = Points(work / "metrics.jsonl", self.progress.points)
            if state is None:
                shutil.rmtree(work / "checkpoints", ignore_errors=True)
                shutil.rmtree(work / "snapshots", ignore_errors=True)

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
        if self.ranks.main:
            write_text(self.work / trace.FILE, json.dumps(progress.trace, indent=1) + "\n", "points")
            self.keeper.load(self.raw_model, chosen)
            self.points.flush()
        self.raw_model.load_state_dict(self.ranks.send(self.raw_model.state_dict()))
        return Fitted(chosen, progress.step)

    def rehearse(self, updates: int) -> trace.Trace:
        """The golden trace alone: the first `updates` of the run, nothing written."""
        self.model.train()
        self._begin()
        for epoch in range(1, self.settings.epochs + 1):
            self._freeze(epoch <= self.settings.freeze.epochs)
            for rows in self._batches(epoch):
                self._update(rows)
                if self.progress.step == updates:
                    return self.progress.trace
        return self.progress.trace

    def _begin(self) -> dict[str, float]:
        """Score the validation split before the first update."""
        figures = self.evaluate(self.validation).sums.figures()
        self.progress.trace = trace.begin(figures)
        return figures

    def point(self, name: str, value: float, epoch: int | None) -> None:
        """Add one point to the output and to the log."""
        if self.ranks.main:
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
            self._keep_snapshot()
            if self._stopping or (step % self.settings.checkpoint_every == 0 and step < epoch * self.per_epoch):
                self._save()
            if self._stopping:
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
        mine = self.ranks.share(rows)
        micros = np.array_split(mine, settings.accumulation) if settings.accumulation > 1 else [mine]
        if self.ranks.size == 1:
            micros = [micro for micro in micros if len(micro)]
        for number, micro in enumerate(micros, start=1):
            # Gradients are averaged over processes, and each must take part: one without rows gives a row no weight.
            used = micro if len(micro) else rows[:1]
            inputs = to_device(collate(self.train, used, pad_id=self.pad_id), self.accelerator.device)
            labels = inputs.pop("labels")
            with self.ranks.hold_gradients(self.model, number < len(micros)):
                scores = self.model(**inputs).logits.float()
                loss = F.cross_entropy(scores, labels, reduction="sum")
                self.accelerator.backward(loss / (len(rows) / self.ranks.size) if len(micro) else 0 * loss)
            if len(micro):
                part += sums(loss, scores, labels, progress.classes)
        part, self._stopping = joined(self.ranks, part, self.stop())
        if not np.isfinite(part.loss):
            raise DivergedError(
                f"loss is {part.loss / len(rows)} at step {progress.step + 1}: try a lower learning rate"
            )
        bound = settings.clip_norm if settings.clip_norm is not None else float("inf")
        norm = float(torch.nn.utils.clip_grad_norm_(self.names.keys(), bound, foreach=True))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        progress.add(part, norm)
        mean = part.loss / len(rows)
        trace.add(progress.trace, mean, norm, lambda: self.raw_model.state_dict().items())
        return mean, norm

    def _close_epoch(self) -> None:
        progress = self.progress
        train = {**progress.sums.figures(), "gradient_norm": progress.gradient_norm / max(progress.updates, 1)}
        figures = self.evaluate(self.validation).sums.figures()
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
        self._save()
        self.display.epoch(epoch, progress.step, self.total, {"train": train, "validation": figures})

    def evaluate(self, split: Encoded) -> Evaluation:
        """Score a split with the weights the model holds now."""
        size = max(self.settings.batch_size, 64)
        device = self.accelerator.device
        return evaluate(self.raw_model, split, batch_size=size, pad_id=self.pad_id, device=device, ranks=self.ranks)

    def _point_all(self, split: str, figures: dict[str, float], epoch: int) -> None:
        for name, value in figures.items():
            self.point(f"{split}/{name}", value, epoch)

    def _keep_snapshot(self) -> None:
        every, step = self.settings.snapshots.steps, self.progress.step
        due = (step & (step - 1) == 0) if every == "powers" else (every != "none" and step % every == 0)
        if due and self.ranks.main:
            self.keeper.snapshot(self.raw_model, step)

    def _freeze(self, frozen: bool) -> None:
        for name, parameter in self.raw_model.named_parameters():
            if name in self.frozen:
                parameter.requires_grad_(not frozen)

    def _save(self) -> None:
        rng = {
            f"{rank}/{name}": value
            for rank, one in enumerate(self.ranks.gather(rng_state()))
            for name, value in one.items()
        }
        if not self.ranks.main:
            return
        self.points.flush()
        self.progress.points = self.points.count
        model = self.raw_model.state_dict()  # buffers too: a fusion of one's own may have some
        optimizer = optimizer_tensors(self.optimizer, self.names)
        save_state(self.states, self.progress.step, State(model, optimizer, rng, self.progress.as_dict()))

    def _agreed_state(self) -> State | None:
        """The state that the first process finds good, in every process."""
        state = load_state(self.states) if self.ranks.main else None
        step = self.ranks.from_main(0 if state is None else int(state.progress["step"]))
        return read_state(self.states, step) if step and state is None else state

    def _restore(self, state: State) -> None:
        self.raw_model.load_state_dict(state.model)
        restore_optimizer(self.optimizer, self.names, state.optimizer)
        self.progress = Progress(**state.progress)
        prefix = f"{self.ranks.rank}/"
        mine = {name.removeprefix(prefix): value for name, value in state.rng.items() if name.startswith(prefix)}
        if mine:
            restore_rng(mine)
        else:  # saved by fewer processes
            seed_dropout(self.settings.determinism, self.seed, rank=self.ranks.rank, step=self.progress.step)
