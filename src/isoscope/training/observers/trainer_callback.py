"""Use an observer in transformers' Trainer: `trainer.add_callback(ObserverCallback(observer, trainer))`."""

import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import TrainerCallback

from isoscope.base.errors import InputError
from isoscope.objectives import Batch, Forward, Indices, Place, Scored, owners_of, points_at
from isoscope.training.determinism import same_draws
from isoscope.training.observers import Context, Observer
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
        self._hooks = (
            trainer.model.register_forward_pre_hook(self._ask, with_kwargs=True),
            trainer.model.register_forward_hook(self._take, with_kwargs=True),
        )

    def _check(self, args: Any) -> None:
        """Raise `InputError` if the Trainer cannot show what the observer must see."""
        if self.trainer.is_fsdp_enabled or self.trainer.is_deepspeed_enabled or args.world_size > 1:
            raise InputError(
                "ObserverCallback: FSDP and DeepSpeed shard weights or optimiser states, and several processes are not "
                "supported; use one process"
            )
        if self.observer.unclipped and (args.max_grad_norm or args.fp16):
            raise InputError(
                f"max_grad_norm: {args.max_grad_norm}, but {self.observer.name} needs gradients from before clipping "
                "and scaling, which the Trainer does before its callbacks; set max_grad_norm=0 and fp16=False, or "
                "minibatch=False"
            )

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        Path(args.output_dir).mkdir(parents=True, exist_ok=True)
        self.observer.finish(Path(args.output_dir))

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._parts = {place: [] for place in self.observer.places(state.global_step + 1)}

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._found = dict(self.observer.before_update(state.global_step + 1))

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        points = {place: torch.cat(parts) for place, parts in self._parts.items()}
        self._parts = {}
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
        return args, given | {"output_hidden_states": True} if self._parts and model.training else given

    def _take(self, model: Any, args: Any, given: dict[str, Any], output: Any) -> None:
        if self._parts and model.training:
            for place, points in points_at(output.hidden_states, given["attention_mask"], self._parts).items():
                self._parts[place].append(points.detach())


_IGNORED = -100
"""Label of a token without a loss, in transformers."""
_SEED = 0xDA7A
_MOST = 32
"""Rows of a batch: a backward pass may run over it."""


class TrainerData:
    """The Trainer's evaluation data as split `validation`, its training data as `train`.

    Points and owners are those of the evaluation data, in the loader's order. Batches are collated once, by the
    Trainer's own collator under a seed of their rows, so that random masks are the same at every evaluation.
    """

    same_in_any_batch = False
    """A text's random masks depend on the other texts of its batch."""

    def __init__(self, trainer: Any) -> None:
        self.trainer = trainer
        self._batches: dict[tuple[str, bytes], dict[str, np.ndarray[Any, Any]]] = {}
        self._known: tuple[Indices, Indices | None] | None = None

    def size(self, split: str) -> int:
        return len(self._rows(split)) if hasattr(self._rows(split), "__len__") else len(self._read()[0])

    def owners(self, split: str, rows: Indices, place: Place) -> tuple[Indices, Indices | None]:
        lengths, labels = self._read()
        owners = owners_of(lengths[rows], place)
        return owners, None if labels is None else labels[rows[owners]]

    def plan(self, split: str, epoch: int | None, rows: Indices) -> list[Indices]:
        return np.array_split(rows, -(-len(rows) // min(_MOST, self.trainer.args.eval_batch_size)))

    def batch(self, split: str, rows: Indices, epoch: int | None) -> Batch:
        key = split, rows.tobytes()
        if key not in self._batches:
            subset = torch.utils.data.Subset(self._rows(split), rows.tolist())
            with _seeded(rows):
                (found,) = self.trainer.get_eval_dataloader(subset)
            self._batches[key] = {name: value.cpu().numpy() for name, value in found.items()}
        return self._batches[key]

    def weight(self, split: str, rows: Indices, epoch: int | None) -> float:
        """Return the number of labels that have a loss."""
        return sum(self._labels(self.batch(split, part, None)) for part in self.plan(split, epoch, rows))

    def forward(self, model: Any, batch: Mapping[str, Tensor], places: Collection[Place] = ()) -> Forward:
        """Return the summed loss: the model's own mean loss times the number of labels that it is the mean of."""
        output = model(**batch)
        count = self._labels({name: value.cpu().numpy() for name, value in batch.items()})
        loss = output.loss * count if count else 0.0 * output.logits.sum()  # the mean of no label is NaN
        nothing: Any = SimpleNamespace(loss=float(loss.detach()))
        return Forward(loss, nothing, {}, {})

    @torch.no_grad()
    def points(self, places: list[Place]) -> dict[Place, Any]:
        """Return the points `[n, d]` of the evaluation data by place."""
        model = self.trainer.model.eval()
        found: dict[Place, list[Any]] = {place: [] for place in places}
        for batch in self.trainer.get_eval_dataloader() if places else ():
            batch = {name: value.to(model.device) for name, value in batch.items()}
            states = model(**batch, output_hidden_states=True).hidden_states
            for place, points in points_at(states, batch["attention_mask"], places).items():
                found[place].append(points.float().cpu().numpy())
        return {place: np.concatenate(parts) for place, parts in found.items()}

    def _rows(self, split: str) -> Any:
        rows = self.trainer.train_dataset if split == "train" else self.trainer.eval_dataset
        if rows is None or isinstance(rows, dict) or (split == "train" and not hasattr(rows, "__len__")):
            raise InputError(f"the Trainer has no single {split} data set of known length, which this observer needs")
        return rows

    def _labels(self, batch: Batch) -> float:
        if "labels" not in batch:
            raise InputError("a batch has no `labels`; allocation needs a model that returns its loss")
        labels = batch["labels"]
        if labels.ndim == 1 or labels.dtype.kind == "f":  # of texts; several numbers per text have a mean over all
            return float(labels.size)
        if type(self.trainer.model).__name__.endswith(("ForCausalLM", "LMHeadModel")):
            labels = labels[:, 1:]  # these models predict the next token
        return float((labels != _IGNORED).sum())

    def _read(self) -> tuple[Indices, Indices | None]:
        """Return lengths in tokens and, for one label per text, the labels of the evaluation data."""
        if self._known is None:
            loader = self.trainer.get_eval_dataloader()
            batches = [(batch["attention_mask"].sum(1), batch.get("labels")) for batch in loader]
            lengths = np.concatenate([lengths.cpu().numpy() for lengths, _ in batches])
            labels = [labels.cpu().numpy() for _, labels in batches if labels is not None and labels.ndim == 1]
            self._known = lengths, np.concatenate(labels) if labels else None
        return self._known


@contextmanager
def _seeded(rows: Indices) -> Iterator[None]:
    """Draw from seeds of these rows' own, and restore the generators that a collator may use."""
    seed = int(np.random.SeedSequence([_SEED, *rows.tolist()]).generate_state(1)[0])
    with same_draws():
        torch.default_generator.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002 - transformers' collators use it
        yield
