"""Compare training speed with transformers' Trainer, and the time of each fusion with the plain sum.

python benchmarks/training.py [--rounds 3] [--steps 24] [--smoke]   prints Markdown; run it with the virtual
environment's python.

It measures the embedded profile (task `sentiment`, model of params.yaml). If ISOSCOPE_HUB names a folder with
`sst2_sentence/` and `sentence-transformers/all-MiniLM-L6-v2/`, it also measures that model on that data. All runs
share one process, interleaved, with equal weights and sentences. Tokens are counted without padding.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import torch
from accelerate import Accelerator
from timing import Timing, bound, conclude, interleave, table
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    DataCollatorWithPadding,
    PrinterCallback,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from isoscope.base.paths import Project
from isoscope.data import tokens
from isoscope.data.batches import collate, epoch_batches
from isoscope.data.tokens import Encoded
from isoscope.models import build, published
from isoscope.objectives import Objective, Task
from isoscope.objectives.classification import Classification
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.training import Training
from isoscope.platform.stages.prepare import prepare
from isoscope.training.keeping import Keeper
from isoscope.training.loop import Loop
from isoscope.training.observers import Observer

ROOT = Path(__file__).parents[1]
CHECKPOINT, DATA = "sentence-transformers/all-MiniLM-L6-v2", "sst2_sentence"
LABELS = ["negative", "positive"]


class Setting(NamedTuple):
    """Encoded sentences, their tokenizer, and a function that builds a model for a fusion's name."""

    title: str
    train: Encoded
    tokenizer: Path
    pad_id: int
    longest: int
    model: Callable[[str], Any]


class Meter:
    """The loop's log and display; keeps the reported speed."""

    speed = 0.0

    def metric(self, name: str, value: float, *, step: int, epoch: int | None = None) -> None:
        if name == "speed/tokens_per_second":
            self.speed = value

    def update(self, step: int, total: int, figures: dict[str, float]) -> None: ...

    def epoch(self, epoch: int, step: int, total: int, figures: dict[str, float]) -> None: ...


class Clock(TrainerCallback):
    """Seconds between the start and the end of the Trainer's own loop."""

    seconds = 0.0

    def on_train_begin(self, *_: object, **__: object) -> None:
        self.began = time.perf_counter()

    def on_train_end(self, *_: object, **__: object) -> None:
        self.seconds = time.perf_counter() - self.began


def settings(configuration: Configuration, folder: Path, sentences: int, hubs: Sequence[str]) -> list[Setting]:
    """Return the embedded profile, and MiniLM if one of the folders `hubs` has it."""
    model, fusions = configuration.cell("fusion", "additive").cell.model, {}
    for arm in configuration.study("fusion").axes["fusion"]:
        fusions[arm] = configuration.cell("fusion", arm).cell.model.fusion.model_dump(mode="json")

    task = prepare(configuration.data("sentiment"), task="sentiment", project=Project(folder, folder))
    pieces = tokens.load(task / "tokenizer")
    scratch = partial(
        build.from_scratch,
        vocab_size=pieces.vocab_size,
        labels=LABELS,
        pad_id=pieces.pad_id,
        seed=0,
        **model.encoder.model_dump(exclude={"kind", "tokenizer"}),
    )
    rows = _first(pq.read_table(task / "train.parquet"), sentences)
    train = tokens.encode(pieces, rows, max_length=model.max_length)
    found = [
        Setting(
            f"embedded: sentiment, {model.encoder.layers} layers of {model.encoder.hidden_size}",
            train,
            task / "tokenizer",
            pieces.pad_id,
            model.max_length,
            lambda arm: scratch(fusion=fusions[arm]),
        )
    ]
    for hub in hubs:
        checkpoint, data = Path(hub) / CHECKPOINT, Path(hub) / DATA
        if hub and checkpoint.is_dir() and data.is_dir():
            pieces = tokens.load(checkpoint)
            rows = _first(pq.read_table(data / "train.parquet"), sentences)
            train = tokens.encode(pieces, rows, max_length=128)
            pretrained = partial(published.classifier, checkpoint, labels=LABELS, seed=0)
            found.append(
                Setting(
                    "MiniLM (6 layers of 384) on SST-2's sentences",
                    train,
                    checkpoint,
                    pieces.pad_id,
                    128,
                    lambda arm, pretrained=pretrained: pretrained(fusion=fusions[arm]),
                )
            )
    return found


def _first(rows: pa.Table, count: int) -> pa.Table:
    return rows.select(["sentence", "label"]).slice(0, count)


def looped(
    model: Any,
    objective: Objective,
    training: Training,
    work: Path,
    *,
    tokenizer: Path,
    longest: int,
    observers: Sequence[Observer] = (),
) -> tuple[Loop, Meter]:
    """Return our loop as a stage makes it, on the CPU, and what it logs to."""
    meter = Meter()
    keeper = Keeper(work / "work", keep="last", tokenizer=tokenizer, max_length=longest)
    loop = Loop(
        model,
        objective,
        settings=training,
        seed=0,
        accelerator=Accelerator(cpu=True),
        penalised=None,
        observers=observers,
        work=work / "work",
        states=work / "states",
        keeper=keeper,
        log=meter,
        display=meter,
        stop=lambda: False,
    )
    return loop, meter


def fitted(model: Any, objective: Objective, training: Training, *, tokenizer: Path, longest: int) -> float:
    """Return tokens per second of one epoch of our loop, as reported in a run."""
    with tempfile.TemporaryDirectory() as work:
        torch.use_deterministic_algorithms(True)  # as the stage does
        loop, meter = looped(model, objective, training, Path(work), tokenizer=tokenizer, longest=longest)
        loop.fit()
        torch.use_deterministic_algorithms(False)
        return meter.speed


def classification(setting: Setting, training: Training, model: Any, held_out: int) -> Classification:
    """Return the objective of a setting; validation and test are its first `held_out` sentences."""
    train = setting.train
    few = Encoded(train.ids[:held_out], train.type_ids[:held_out], train.labels[:held_out], 0)
    numbers = (setting.longest, 1.0, training.batch_size, training.bucket, 0)
    return Classification(
        {"train": train, "validation": few, "test": few},
        labels=LABELS,
        pad_id=setting.pad_id,
        vocab_size=model.config.vocab_size,
        task=Task(setting.tokenizer, {}, setting.tokenizer, *numbers),
    )


def ours(setting: Setting, training: Training, arm: str) -> float:
    """Return tokens per second of one epoch of our loop."""
    model = setting.model(arm)
    objective = classification(setting, training, model, 32)
    return fitted(model, objective, training, tokenizer=setting.tokenizer, longest=setting.longest)


def plain_bert(setting: Setting) -> BertForSequenceClassification:
    """Return transformers' BERT with the weights of our additive model; raise if their logits differ."""
    model = setting.model("additive").eval()
    config = {name: value for name, value in model.config.to_dict().items() if name not in ("model_type", "fusion")}
    peer = BertForSequenceClassification(BertConfig(**config)).eval()
    peer.load_state_dict(model.state_dict(), strict=False)
    batch = collate(setting.train, range(8), pad_id=setting.pad_id)
    inputs = {name: torch.from_numpy(array) for name, array in batch._asdict().items() if name != "labels"}
    with torch.inference_mode():
        torch.testing.assert_close(peer(**inputs).logits, model(**inputs).logits, rtol=0, atol=1e-5)
    return peer


def trainer(setting: Setting, training: Training, padding: str) -> float:
    """Return tokens per second of one epoch of the Trainer; `padding`: "longest" (of a batch) or "max_length"."""
    tokenizer = AutoTokenizer.from_pretrained(setting.tokenizer)
    train = setting.train
    rows = [
        {"input_ids": ids.tolist(), "token_type_ids": types.tolist(), "labels": int(label)}
        for ids, types, label in zip(train.ids, train.type_ids, train.labels, strict=True)
    ]
    collator = DataCollatorWithPadding(tokenizer, padding=padding, max_length=setting.longest)
    seconds = trainer_seconds(plain_bert(setting), rows, collator, training, num_train_epochs=1)
    return int(train.lengths.sum()) / seconds


def trainer_seconds(model: Any, rows: list[dict[str, Any]], collator: Any, training: Training, **length: int) -> float:
    """Return the seconds of the Trainer's own loop; `length`: its epochs or updates."""
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        peer = Trainer(
            model=model,
            args=TrainingArguments(
                output_dir=folder,
                per_device_train_batch_size=training.batch_size,
                learning_rate=training.learning_rate,
                warmup_steps=training.schedule.warmup,
                max_grad_norm=training.clip_norm or 0.0,
                logging_steps=training.log_every,
                save_strategy="no",
                report_to="none",
                use_cpu=True,
                dataloader_pin_memory=False,
                disable_tqdm=True,
                log_level="error",
                seed=0,
                **length,
            ),
            train_dataset=rows,
            data_collator=collator,
            callbacks=[clock],
        )
        peer.remove_callback(PrinterCallback)
        peer.train()
    return clock.seconds


def speeds(setting: Setting, training: Training, rounds: int) -> str:
    """Return best and median tokens per second of each loop, interleaved."""
    runs = {
        "isoscope, additive": lambda: ours(setting, training, "additive"),
        "Trainer, dynamic padding": lambda: trainer(setting, training, "longest"),
        f"Trainer, padded to {setting.longest}": lambda: trainer(setting, training, "max_length"),
    }
    seen: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            seen[name].append(run())
    best = {name: max(values) for name, values in seen.items()}
    one, peer, _ = best.values()
    bound(f"{setting.title}: tokens/s, to the Trainer with dynamic padding", one / peer, 1.5, least=True)
    rows = [
        (
            name,
            f"{best[name]:,.0f}",
            f"{sorted(values)[len(values) // 2]:,.0f}",
            f"{max(seen['isoscope, additive']) / best[name]:.2f} ×",
        )
        for name, values in seen.items()
    ]
    return table(setting.title, ("loop", "best tokens/s", "median", "isoscope is faster by"), rows)


def fusions(setting: Setting, training: Training, steps: int) -> str:
    """Return the seconds of one update with each fusion, on one batch of medium length, interleaved."""
    lengths = setting.train.lengths
    batches = epoch_batches(lengths, batch_size=training.batch_size, seed=0, epoch=1, bucket=training.bucket)
    rows = sorted(batches, key=lambda rows: int(lengths[rows].sum()))[len(batches) // 2]
    batch = collate(setting.train, rows, pad_id=setting.pad_id)
    inputs = {name: torch.from_numpy(array) for name, array in batch._asdict().items()}

    def update(model: Any, optimizer: torch.optim.Optimizer) -> None:
        model(**inputs).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    cases = {}
    for arm in ("additive", "conv2d", "fft"):
        model = setting.model(arm).train()
        cases[arm] = partial(update, model, torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True))
    timings: dict[str, Timing] = interleave(cases, steps, warm_up=3)
    base = timings["additive"].least
    for arm in ("conv2d", "fft"):
        ratio = timings[arm].least / base
        bound(f"{setting.title}: an update with {arm}, to additive", ratio, 1.05)
    lines = [
        (name, f"{1000 * timing.least:.1f}", f"{1000 * timing.middle:.1f}", f"{timing.least / base - 1:+.1%}")
        for name, timing in timings.items()
    ]
    width = inputs["input_ids"].shape
    title = f"{setting.title}: one update, {width[0]} × {width[1]} tokens (ms, of {steps})"
    return table(title, ("fusion", "least", "median", "beyond additive"), lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="epochs of each loop (default: 3)")
    parser.add_argument("--steps", type=int, default=24, help="updates of an epoch, and of each fusion (default: 24)")
    parser.add_argument("--smoke", action="store_true", help="test the script: one short epoch, without MiniLM")
    options = parser.parse_args()
    hubs = os.environ.get("ISOSCOPE_HUB", "").split(os.pathsep)
    if options.smoke:
        options.rounds, options.steps, hubs = 1, 3, []
    configuration = Configuration(ROOT)
    training = configuration.cell("fusion", "additive").cell.training
    snapshots = training.snapshots.model_copy(update={"steps": "none", "epochs": False})
    changes = {"epochs": 1, "keep": "last", "snapshots": snapshots, "checkpoint_every": 10**9}
    training = training.model_copy(update=changes)
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}\n")
    with tempfile.TemporaryDirectory() as folder:
        for setting in settings(configuration, Path(folder), options.steps * training.batch_size, hubs):
            print(speeds(setting, training, options.rounds), flush=True)
            print(fusions(setting, training, options.steps), flush=True)
    conclude(smoke=options.smoke)


if __name__ == "__main__":
    main()
