"""Use an observer in transformers' Trainer: `trainer.add_callback(ObserverCallback(observer, trainer))`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import TrainerCallback

from isoscope.base.errors import InputError
from isoscope.objectives import Place, Scored, points_at
from isoscope.training.observers import Context, Observer
from isoscope.training.observers.trainer_data import TrainerData
from isoscope.training.ranks import Ranks


class ObserverCallback(TrainerCallback):
    """Run an isoscope observer in a Trainer and log its metrics with `trainer.log`.

    The evaluation data are the split `validation`; the epoch is the Trainer's epoch, rounded. Each checkpoint holds the
    observer's state, so a resumed run restores it. Files of the observer are written into the Trainer's output folder
    when training ends. The observer sees the gradients that the optimiser sees: the Trainer clips them before any
    callback (`max_grad_norm=0` turns clipping off).

    Raises `InputError` with several processes, with FSDP or DeepSpeed, and for an observer that needs unclipped
    gradients unless `max_grad_norm=0` and fp16 is off.
    """

    def __init__(self, observer: Observer, trainer: Any) -> None:
        self.observer, self.trainer = observer, trainer
        self._asked: list[Place] = []
        self._parts: dict[Place, list[Tensor]] = {}
        self._found: dict[str, float] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        trainer = self.trainer
        self._check(args)
        data: Any = TrainerData(trainer) if trainer.eval_dataset is not None else None
        every, ranks = max(1, int(args.logging_steps)), Ranks(trainer.accelerator)
        self.observer.begin(Context(trainer.model, trainer.optimizer, data, args.seed, state.max_steps, every, ranks))
        self._data = data
        kept = self._file(args, state)
        if state.global_step and kept.is_file():
            self.observer.restore(load_file(kept))
        model = trainer.model
        before = model.register_forward_pre_hook(self._ask, with_kwargs=True)
        after = model.register_forward_hook(self._take, with_kwargs=True)
        self._hooks = (before, after)

    def _check(self, args: Any) -> None:
        """Raise `InputError` if the Trainer cannot show what the observer must see."""
        if self.trainer.is_fsdp_enabled or self.trainer.is_deepspeed_enabled:
            raise InputError("ObserverCallback: FSDP and DeepSpeed shard weights or optimiser states; use one process")
        if args.world_size > 1:
            raise InputError(f"ObserverCallback: {args.world_size} processes; only one is supported")
        name = self.observer.name
        if self.observer.unclipped and args.max_grad_norm:
            raise InputError(
                f"max_grad_norm: {args.max_grad_norm}, but {name} needs gradients from before clipping, and the "
                "Trainer clips before its callbacks; set max_grad_norm=0, or minibatch=False"
            )
        if self.observer.unclipped and args.fp16:
            raise InputError(f"fp16: {name} needs unscaled gradients; use bf16 or fp32, or minibatch=False")

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
        self.observer.finish(Path(args.output_dir))

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
