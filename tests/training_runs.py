"""A tiny classification task and a loop over it, for the tests of training."""

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from accelerate import Accelerator

from isoscope.data import tokens
from isoscope.data.corpus import text_columns
from isoscope.objectives import Task, classification
from isoscope.training.job import observers_of
from isoscope.training.keeping import Keeper
from isoscope.training.loop import Loop
from isoscope.training.penalised import penalised

WORDS = ("good", "bad", "film", "plot", "very", "not", "and", "slow", "fine", "dull")
SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "budget": None,
    "fraction": 1.0,
    "batch_size": 8,
    "accumulation": 1,
    "bucket": 2,
    "learning_rate": 1e-3,
    "fusion_lr": None,
    "weight_decay": 0.01,
    "adam_betas": [0.9, 0.999],
    "adam_epsilon": 1e-8,
    "clip_norm": 1.0,
    "schedule": {"kind": "linear", "warmup": 0.1, "epochs": None},
    "select": "loss",
    "patience": None,
    "determinism": "strict",
    "precision": "fp32",
    "device": "cpu",
    "threads": 1,
    "keep": "best",
    "snapshots": {"steps": "none", "epochs": False},
    "evaluations": 1,
    "watch": None,
    "allocation": None,
    "slices": None,
    "freeze": None,
    "frozen_head": None,
    "log_every": 1,
    "checkpoint_every": 3,
}


ENCODER: dict[str, Any] = {
    "family": "bert",
    "hidden_size": 16,
    "layers": 2,
    "heads": 2,
    "intermediate_size": 32,
    "activation": "gelu",
    "norm": "post",
    "positions": "learned",
    "max_positions": 12,
    "dropout": 0.1,
    "attention_dropout": 0.1,
    "init_std": 0.02,
    "initializer_range": 0.02,
}
POINTS = {"layer": -1, "vectors": "first", "most": None}
BASE = {"weight": 0.5, "warmup": 0.0, "points": POINTS}
ENTROPY = {
    "kind": "persistent_entropy",
    "clouds": "class",
    "selection": "all",
    "k": None,
    "in_cluster": 0.0,
    **BASE,
}
PENALTIES: dict[str, dict[str, Any]] = {
    "all": ENTROPY,
    "selected": ENTROPY | {"selection": "c-ratio", "in_cluster": 0.1},
    "random": ENTROPY | {"selection": "random-k"},
    "shuffled": ENTROPY | {"clouds": "shuffled"},
    "tokens": ENTROPY | {"clouds": "batch", "points": {"layer": 1, "vectors": "tokens", "most": 20}},
    "mean": ENTROPY | {"points": {"layer": 0, "vectors": "mean", "most": None}},
    "cosine": {"kind": "cosine", **BASE},
    "spectrum": {"kind": "spectrum", "prior": "exponential", "rate": 0.05, "power": 1.0, **BASE},
    "isoscore": {"kind": "isoscore", "zeta": 0.2, "reference": 40, **BASE},
}


def attributes(tree: Any) -> Any:
    """Settings as attributes, as training takes them."""
    if isinstance(tree, dict):
        return SimpleNamespace(**{name: attributes(value) for name, value in tree.items()})
    return tuple(map(attributes, tree)) if isinstance(tree, list) else tree


class Silent:
    """A display and a log that only remember."""

    def __init__(self) -> None:
        self.points: list[tuple[str, float, int, int | None]] = []

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None:
        self.points.append((name, value, step, epoch))

    def update(self, step: int, total: int, figures: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, dict[str, float]]) -> None: ...


def texts(rows: int, seed: int) -> pa.Table:
    """Sentences of two to six words, positive if 'good' comes before 'bad' or without it."""
    draw = np.random.default_rng(seed)
    sentences = [list(draw.choice(WORDS, draw.integers(2, 7))) for _ in range(rows)]
    where = [(s.index("good") if "good" in s else 99, s.index("bad") if "bad" in s else 99) for s in sentences]
    return pa.table({"sentence": [" ".join(s) for s in sentences], "label": [int(good < bad) for good, bad in where]})


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def weights(loop: Loop) -> dict[str, torch.Tensor]:
    return {name: value.detach().clone() for name, value in loop.raw_model.named_parameters()}


def equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def prepare(folder: Path, table: Any = texts, rows: int = 44) -> dict[str, Any]:
    """Write a task and its tokenizer to a folder; return its manifest."""
    tokens.train_wordpiece([" ".join(WORDS)], folder / "tokenizer", vocab_size=60, lowercase=True)
    tables = {"train": table(rows, 1), "validation": table(30, 2), "test": table(20, 3)}
    for name, one in tables.items():
        pq.write_table(one, folder / f"{name}.parquet")
    return {"labels": ["negative", "positive"], "columns": text_columns(tables["train"])}


class Killed(BaseException):
    """The end of a process at once."""


def stop_after(update: int) -> Callable[[], bool]:
    """A stop signal that comes once, when the loop has done `update` updates since it began."""
    calls = iter(range(1, 10_000))
    return lambda: next(calls) == update


def kill_in(update: int) -> Callable[[], bool]:
    """A signal that kills the loop in this update since it began, before the update counts."""
    asked = stop_after(update)

    def kill() -> bool:
        if asked():
            raise Killed
        return False

    return kill


def diverging(loop: Loop) -> None:
    """Let it learn at a rate that no configuration may ask for."""
    for group in loop.optimizer.param_groups:
        group["peak"] = 1e30


def make_loop(
    folder: Path,
    *,
    family: str = "bert",
    fusion: dict[str, Any] | None = None,
    seed: int = 0,
    rows: int = 44,
    dropout: float = 0.1,
    stop: Any = lambda: False,
    penalty: dict[str, Any] | None = None,
    observers: Any = None,
    make: Any = None,
    table: Any = texts,
    accelerator: Any = None,
    published: Path | None = None,
    **settings: Any,
) -> Loop:
    """A loop on a two-layer encoder of width 16, its output in `folder/work`, its states in `folder/states`.

    `published`: a checkpoint with a tokenizer to start from.
    """
    given = attributes(SETTINGS | settings)
    manifest = prepare(folder, table, rows)
    tokenizer = published or folder / "tokenizer"
    task = Task(folder, manifest, tokenizer, 12, 1.0, given.batch_size, given.bucket, seed)
    objective = (make or classification.objective)(task)
    encoder = ENCODER | {"family": family, "dropout": dropout, "attention_dropout": dropout}
    encoder = {"kind": "pretrained"} if published else encoder
    silent = Silent()
    work = folder / "work"
    return Loop(
        objective.build({"encoder": encoder, "fusion": fusion or {"kind": "additive"}}, published),
        objective,
        settings=given,
        seed=seed,
        accelerator=accelerator or Accelerator(cpu=True),
        penalised=penalised(attributes(penalty or {"kind": "none"}), classes=objective.classes, seed=seed),
        observers=[*observers_of(given, {}), *(observers or ())],
        work=work,
        states=folder / "states",
        keeper=Keeper(work, keep=given.keep, tokenizer=tokenizer, max_length=12),
        log=silent,
        display=silent,
        stop=stop,
    )


def fitted(folder: Path, **settings: Any) -> Loop:
    """A loop after its training."""
    loop = make_loop(folder, **settings)
    loop.fit()
    return loop


def completed(folder: Path, **settings: Any) -> Loop:
    """A loop after its training and its evaluation of the test split."""
    loop = make_loop(folder, **settings)
    loop.test(loop.fit())
    return loop


def logged(loop: Loop, name: str) -> list[float]:
    """The values of a metric, in their order."""
    return [value for found, value, *_ in loop.log.points if found == name]
