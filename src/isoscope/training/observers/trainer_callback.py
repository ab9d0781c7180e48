"""Use an observer in transformers' Trainer: `trainer.add_callback(ObserverCallback(observer, trainer))`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import TrainerCallback

from isoscope.errors import InputError
from isoscope.objectives import Indices, Place, Scored, owners_of, points_at
from isoscope.training.observers import Context, Observer


class _Data:
    """The Trainer's evaluation data as the part of an objective that observers use; rows in the loader's order."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        batches = [(batch["attention_mask"].sum(1), batch.get("labels")) for batch in trainer.get_eval_dataloader()]
        self.lengths = np.concatenate([lengths.cpu().numpy() for lengths, _ in batches])
        labels = [labels.cpu().numpy() for _, labels in batches if labels is not None and labels.ndim == 1]
        self.labels = np.concatenate(labels) if labels else None

    def size(self, split: str) -> int:
        return len(self.lengths)

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        owners = owners_of(self.lengths[rows], place)
        return owners, None if self.labels is None else self.labels[rows[owners]]

    @torch.no_grad()
    def points(self, places: list[Place]) -> dict[Place, Any]:
        model = self.trainer.model.eval()
        found: dict[Place, list[Any]] = {place: [] for place in places}
        for batch in self.trainer.get_eval_dataloader():
            batch = {name: value.to(model.device) for name, value in batch.items()}
            states = model(**batch, output_hidden_states=True).hidden_states
            for place, points in points_at(states, batch["attention_mask"], places).items():
                found[place].append(points.float().cpu().numpy())
        return {place: np.concatenate(parts) for place, parts in found.items()}


class ObserverCallback(TrainerCallback):
    """Run an isoscope observer in a Trainer and log its metrics with `trainer.log`.

    The evaluation data are the split `validation`; the epoch is the Trainer's epoch, rounded. Each checkpoint holds the
    observer's state, so a resumed run restores it. The observer sees the gradients that the optimiser sees: the Trainer
    clips them before any callback (`max_grad_norm=0` turns clipping off). Raises `InputError` with several processes.
    """

    def __init__(self, observer: Observer, trainer: Any) -> None:
        self.observer, self.trainer = observer, trainer
        self._asked: list[Place] = []
        self._parts: dict[Place, list[Tensor]] = {}
        self._found: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.world_size > 1:
            raise InputError(f"ObserverCallback: {args.world_size} processes; only one is supported")
        trainer = self.trainer
        data: Any = _Data(trainer) if trainer.eval_dataset is not None else None
        every = max(1, int(args.logging_steps))
        self.observer.begin(Context(trainer.model, trainer.optimizer, data, args.seed, state.max_steps, every))
        self._data = data
        kept = self._file(args, state)
        if state.global_step and kept.is_file():
            self.observer.restore(load_file(kept))
        model = trainer.model
        before = model.register_forward_pre_hook(self._ask, with_kwargs=True)
        after = model.register_forward_hook(self._take, with_kwargs=True)
        self._hooks = (before, after)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for hook in self._hooks:
            hook.remove()

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._asked = list(self.observer.places(state.global_step + 1))
        self._parts = {place: [] for place in self._asked}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._found = dict(self.observer.before_update(state.global_step + 1))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        points = {place: torch.cat(parts) for place, parts in self._parts.items()}
        self._asked = []
        self._log(self._found | dict(self.observer.after_update(state.global_step, points)))

    def on_evaluate(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        if self._data is None:
            return
        mode = self.trainer.model.training
        points = self._data.points(list(self.observer.places(None)))
        tally: Any = SimpleNamespace(metrics=lambda: given["metrics"])
        self._log(dict(self.observer.evaluated(Scored("validation", tally, points, {}), round(state.epoch or 0))))
        self.trainer.model.train(mode)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if kept := self.observer.state():
            save_file(kept, self._file(args, state))

    def _file(self, args: Any, state: Any) -> Path:
        return Path(args.output_dir) / f"checkpoint-{state.global_step}" / f"observer-{self.observer.name}.safetensors"

    def _log(self, metrics: dict[str, float]) -> None:
        if metrics:
            self.trainer.log(metrics)

    def _ask(self, model: Any, args: Any, given: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, given | {"output_hidden_states": True} if self._asked and model.training else given

    def _take(self, model: Any, args: Any, given: dict[str, Any], output: Any) -> None:
        if self._asked and model.training:
            for place, points in points_at(output.hidden_states, given["attention_mask"], self._asked).items():
                self._parts[place].append(points.detach())
