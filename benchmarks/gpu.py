"""Measure isoscope on a GPU: penalty, fusions, training, runs side by side, extraction, measures, allocation.

python benchmarks/gpu.py --minutes 8 --out DIR   prints each row as soon as it is measured, and writes DIR/gpu.md and
DIR/gpu.json after each row. Each part is a process with its share of the minutes: if it fails or takes too long, the
rows that it has measured stay, and the next part begins. `--smoke` runs on the CPU, too, with tiny sizes. It needs
neither MLflow nor DVC.
"""

import argparse
import hashlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import torch

ROOT = Path(__file__).parents[1]
LABELS = ["negative", "positive"]
ROW = "row: "
"""Begins a line of a part's process that is a row; libraries print other lines."""


class Row(NamedTuple):
    """What was measured, and the most that it may be (with `least`: the least); no `limit`: only for information."""

    what: str
    value: float
    unit: str
    limit: float | None = None
    least: bool = False

    @property
    def verdict(self) -> str:
        """Return whether the bound was kept."""
        if self.limit is None:
            return ""
        kept = self.value >= self.limit if self.least else self.value <= self.limit
        return f"{'at least' if self.least else 'at most'} {self.limit:g}: {'kept' if kept else '**missed**'}"


class Size(NamedTuple):
    """An encoder from random weights, and how much is done with it."""

    layers: int
    width: int
    heads: int
    batches: tuple[int, ...]
    updates: int
    tokens: int = 64


BASE, MINILM = Size(12, 768, 12, (32, 256), 40), Size(6, 384, 12, (32, 256), 80)
TINY = Size(1, 16, 2, (4,), 10, 8)


def seconds(work: Callable[[], object], times: int, device: torch.device) -> float:
    """Return the median seconds of a call, without the first two; the device has then finished."""
    found = []
    for _ in range(times + 2):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        found.append(time.perf_counter() - began)
    return median(found[2:])


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def device_here() -> torch.device:
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def penalty(*, smoke: bool) -> Iterator[Row]:
    """The persistent-entropy penalty, forward and backward, d = 768."""
    from isoscope.penalties import PersistentEntropy

    device, times = device_here(), 3 if smoke else 50
    cases = [(8, 1, None)] if smoke else [(64, 1, 1.5), (512, 1, 1.5), (2048, 1, 4.0), (1024, 32, 4.0)]
    for number, classes, limit in cases:
        module = PersistentEntropy("c-ratio", classes=classes)
        values = {}
        for where in dict.fromkeys((device, torch.device("cpu"))):
            draw = torch.Generator().manual_seed(0)
            points = torch.randn(number, 768, generator=draw).to(where).requires_grad_()
            labels = (torch.arange(number) % classes).to(where)

            def step(module: Any = module, points: Any = points, labels: Any = labels) -> float:
                points.grad = None
                found = module(points, labels).penalty
                found.backward()
                return float(found.detach())

            values[where.type] = step()
            took = 1000 * seconds(step, times if where == device else 3, where)
            name = f"penalty of {number} points, {classes} classes, {where.type}"
            yield Row(name, took, "ms", limit if where == device and not smoke else None)
        if len(values) == 2:
            off = abs(values["cuda"] / values["cpu"] - 1)
            yield Row(f"penalty of {number} points: difference from the CPU's", off, "relative", 1e-5)
        apart = 1000 * seconds(lambda points=points: torch.pdist(points.detach().to(device)), times, device)
        yield Row(f"distances of {number} points alone", apart, "ms")


def fusions(*, smoke: bool) -> Iterator[Row]:
    """An update of BERT-base in bf16 by fusion, to the plain sum."""
    size = TINY if smoke else BASE
    device, took = device_here(), {}
    ids = torch.randint(5, 1000, (size.batches[0], size.tokens), device=device)
    labels = torch.zeros(len(ids), dtype=torch.int64, device=device)
    for arm in ("additive", "conv2d", "fft"):
        model = classifier(size, arm).to(device).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)

        def update(model: Any = model, optimizer: Any = optimizer) -> None:
            with torch.autocast(device.type, torch.bfloat16) if device.type == "cuda" else nullcontext():
                loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        took[arm] = seconds(update, 2 if smoke else 20, device)
        yield Row(f"update of BERT-base, {arm}", 1000 * took[arm], "ms")
        if arm != "additive":
            yield Row(f"update with {arm}, to additive", took[arm] / took["additive"], "×", 1.05)


def training(*, smoke: bool) -> Iterator[Row]:
    """Training in bf16: tokens per second of our loop, to transformers' Trainer on the same batches."""
    sizes = {"tiny": TINY} if smoke else {"BERT-base": BASE, "MiniLM's size": MINILM}
    for name, size in sizes.items():
        for batch in size.batches:
            speeds: dict[str, list[float]] = {"isoscope": [], "Trainer": []}
            for _ in range(1 if smoke else 2):
                speeds["isoscope"].append(loop_speed(size, batch))
                speeds["Trainer"].append(trainer_speed(size, batch))
            best = {who: max(found) for who, found in speeds.items()}
            for who, speed in best.items():
                yield Row(f"{name}, batch {batch}: {who}", speed, "tokens/s")
            limit = 1.3 if batch == 32 else 1.1
            yield Row(f"{name}, batch {batch}: to the Trainer", best["isoscope"] / best["Trainer"], "×", limit, True)


def side_by_side(*, smoke: bool) -> Iterator[Row]:
    """Nine runs of MiniLM's size, alone on the card and beside each other; the same bits, also after a kill."""
    from isoscope.base.processes import StopSignal
    from isoscope.platform.executor.cards import Card, Slots, cards
    from isoscope.platform.executor.execute import Piece
    from isoscope.platform.executor.execute import side_by_side as carried_out
    from isoscope.platform.executor.this_machine import ThisMachine

    size, runs = (TINY._replace(updates=14), 3) if smoke else (MINILM._replace(updates=400), 9)
    took, bits = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for name, share, killed in (
            ("one by one", 1.0, False),
            ("side by side", 1 / runs, False),
            ("killed", 1.0, True),
        ):
            numbers = range(1 if killed else runs)
            pieces = [
                Piece(f"run {seed}", partial(_trained, Path(folder) / name / str(seed), size, seed, killed))
                for seed in numbers
            ]
            slots = Slots(cards()[:1] or [Card("", None)], share=share, most=runs)  # none: the smoke test
            began = time.perf_counter()
            with StopSignal() as stop:
                found = carried_out(pieces, title=name, workers=None, stop=stop, place=ThisMachine(slots=slots))
            took[name], bits[name] = time.perf_counter() - began, [found[f"run {seed}"] for seed in numbers]
            if not killed:
                yield Row(f"{runs} runs of {size.updates} updates, {name}", took[name], "s")
    limit = None if smoke else 3.0
    yield Row(f"{runs} runs: one by one, to side by side", took["one by one"] / took["side by side"], "×", limit, True)
    alone, beside, killed_bits = bits.values()
    yield Row("runs with other bits beside others than alone", _differing(alone, beside), "", 0)
    yield Row("runs with other bits when killed and resumed", _differing(alone[:1], killed_bits), "", 0)


def _differing(some: Sequence[str], others: Sequence[str]) -> int:
    return sum(one != other for one, other in zip(some, others, strict=True))


def _trained(folder: Path, size: Size, seed: int, killed: bool, progress: Any) -> str:
    """Train a run and return the sha256 of its weights; `killed`: kill its process once, when it has saved a state."""
    done = folder / "killed"

    def stop() -> bool:
        if killed and loop.progress.step == size.updates // 2 + 1 and not done.exists():
            done.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    loop = loop_of(folder, size, size.batches[0], seed=seed, stop=stop, checkpoint_every=max(2, size.updates // 4))
    loop.display = progress
    loop.fit()
    weights = hashlib.sha256()
    for value in loop.raw_model.state_dict().values():
        weights.update(value.cpu().contiguous().numpy().data)
    return weights.hexdigest()


def extraction(*, smoke: bool) -> Iterator[Row]:
    """All stored hidden states of sentences, to the model's own forward passes over the same batches."""
    from extraction import model_and_sentences

    from isoscope.data.batches import evaluation_batches
    from isoscope.states import hidden_states as passes

    device, size = device_here(), TINY if smoke else BASE
    _, probe, pad = model_and_sentences(48 if smoke else 2000, smoke=True)
    model = classifier(size, "additive").base_model.to(device).eval()
    batches = evaluation_batches(probe.encoded.lengths, batch_size=64)

    @torch.inference_mode()
    def forward() -> None:
        for rows in batches:
            inputs = passes.inputs_of(model, probe.encoded, rows, pad_id=pad)
            model(**inputs, output_hidden_states=True)

    alone = seconds(forward, 3, device)
    ours = seconds(lambda: passes.hidden_states(model, probe, pad_id=pad, batch_size=64), 3, device)
    yield Row("forward passes alone", alone, "s")
    yield Row("extraction, speed to the forward passes", alone / ours, "×", None if smoke else 0.8, True)


def grid(*, smoke: bool) -> Iterator[Row]:
    """All similarities of two spaces of 13 layers: two cells of the grid are measured, on the card and on the CPU."""
    import spaces

    from isoscope.states.choices import SPACES
    from isoscope.states.compared_items import compared_items
    from isoscope.states.similarity_tables import PreparedLayer, layer_similarities

    size = spaces.Size(1500, 8, items=50) if smoke else spaces.Size(20_000, 768)
    known = spaces.sentences(size.words)
    tables: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as place:
        both = [spaces.space(Path(place) / str(seed), spaces.points(size, known, seed), known) for seed in (1, 2)]
        for device in dict.fromkeys((device_here().type, "cpu")):
            settings = SPACES._replace(items=size.items, device=device)
            took, numbers = 0.0, []
            for on in compared_items(known, np.ones(len(known.rows), bool), probe="words", seed=0):
                marks = []
                for _ in range(2):  # the first call also prepares what belongs to a layer, and loads kernels
                    marks.append(time.perf_counter())
                    items = on.sample_for_pairs(settings.items, *both, seed=settings.seed)
                    pair = [PreparedLayer(one, on, items, settings, 0, seed) for seed, one in enumerate(both)]
                    marks.append(time.perf_counter())
                    for _ in range(2):
                        numbers = [*layer_similarities(*pair, on, settings)]
                        marks.append(time.perf_counter())
                prepared, first, cell = np.diff(marks)[4:7]
                took += 13 * 13 * cell + 13 * (prepared + max(first - cell, 0.0))
                tables.setdefault(device, []).extend(_numbers(numbers))
            yield Row(f"grid of 13 × 13 layers, {device}", took, "s", 60 if device == "cuda" else None)
    yield from _difference("grid", tables, 1e-5)  # products of the permutations are in float32


def measures(*, smoke: bool) -> Iterator[Row]:
    """Each measure of a layer's clouds at BERT-base's size, on the card and on the CPU."""
    from importlib.util import find_spec

    import analyses

    from isoscope.base.built_in import MEASURES
    from isoscope.platform.config.project import Measures
    from isoscope.platform.config.tree import read_yaml
    from isoscope.states.measure import MeasureInputs, cell

    size = analyses.SMOKE if smoke else analyses.Size(snapshots=1, layers=2)
    asked = Measures.model_validate(read_yaml(ROOT, Path("params.yaml"))["measures"])
    with tempfile.TemporaryDirectory() as folder:
        run = analyses.make(Path(folder), size)
        places = [*run.places(asked.vectors)][:4]
        for name in MEASURES:
            if name == "homology" and find_spec("ripser") is None:
                continue
            tables: dict[str, list[float]] = {}
            for device in dict.fromkeys((device_here().type, "cpu")):
                one = asked.model_copy(update={"names": (name,), "device": device})
                given = MeasureInputs(Path(folder), device, Path(folder), one)
                cell(given, places[0])  # reads the run, and loads kernels
                began = time.perf_counter()
                tables[device] = _numbers(row for place in places for row in cell(given, place))
                yield Row(
                    f"measure {name}, a cloud, {device}", 1000 * (time.perf_counter() - began) / len(places), "ms"
                )
            yield from _difference(f"measure {name}", tables, 1e-7 if name == "isoscore" else 1e-9)  # effective rank


def _numbers(rows: Iterable[Mapping[str, Any]]) -> list[float]:
    """Return all numbers of rows of a table, in order."""
    return [float(one) for row in rows for one in row.values() if isinstance(one, float)]


def _difference(name: str, tables: Mapping[str, list[float]], limit: float = 1e-9) -> Iterator[Row]:
    """Yield the largest relative difference of the card's numbers from those of the CPU (docs/inside.md)."""
    if len(tables) == 2:
        card, cpu = (np.array(tables[device]) for device in ("cuda", "cpu"))
        apart = np.abs(card - cpu) / np.maximum(np.abs(cpu), 1e-12)
        apart[np.isnan(card) != np.isnan(cpu)] = np.inf
        yield Row(f"{name}: largest difference of the card from the CPU", float(np.nanmax(apart)), "relative", limit)


def allocation(*, smoke: bool) -> Iterator[Row]:
    """What an interval of loss change allocation costs, and what 116 of them add to 4,000 updates."""
    from isoscope.platform.config.training import Allocation as Settings
    from isoscope.platform.config.tree import read_yaml
    from isoscope.training.allocation import interval_ends
    from isoscope.training.observers.lca import Allocation

    asked = Settings.model_validate(read_yaml(ROOT, Path("variants/settings/allocated.yaml"))["training"]["allocation"])
    size = TINY if smoke else MINILM._replace(updates=400)
    took = {}
    for name, observers in (("none", []), ("allocated", [Allocation(**vars(asked))])):
        with tempfile.TemporaryDirectory() as folder:
            loop = loop_of(Path(folder), size, size.batches[0], observers=observers)
            began = time.perf_counter()
            loop.fit()
            took[name] = time.perf_counter() - began
    intervals = len(interval_ends(size.updates, dense=asked.dense, chords=asked.chords))
    cost = (took["allocated"] / took["none"] - 1) * size.updates / intervals
    yield Row("an interval of allocation, in updates", cost, "updates")
    added = cost * len(interval_ends(4000, dense=asked.dense, chords=asked.chords)) / 4000
    yield Row("allocation adds to 4,000 updates", 100 * added, "%", None if smoke else 25)


PARTS: Mapping[str, tuple[Callable[..., Iterator[Row]], float]] = {
    "penalty": (penalty, 1),
    "fusions": (fusions, 1),
    "training": (training, 3),
    "side_by_side": (side_by_side, 3),
    "extraction": (extraction, 1),
    "grid": (grid, 2),
    "measures": (measures, 1),
    "allocation": (allocation, 2),
}
"""Part → what measures it, and its share of the time."""


def classifier(size: Size, arm: str) -> Any:
    """Return a BERT from random weights with a fusion of variants/."""
    from isoscope.models.build import from_scratch
    from isoscope.platform.config.tree import read_yaml

    return from_scratch(
        family="bert",
        fusion=read_yaml(ROOT, Path(f"variants/fusion/{arm}.yaml"))["model"]["fusion"],
        vocab_size=30_522 if size.width > TINY.width else 1000,
        hidden_size=size.width,
        layers=size.layers,
        heads=size.heads,
        intermediate_size=4 * size.width,
        activation="gelu",
        norm="post",
        positions="learned",
        max_positions=128,
        dropout=0.1,
        attention_dropout=0.1,
        init_std=0.02,
        initializer_range=0.02,
        labels=LABELS,
        pad_id=0,
        seed=0,
    )


def sentences(size: Size, count: int) -> Any:
    """Return `count` sentences of random tokens, of lengths like those of short reviews."""
    from isoscope.data.tokens import Encoded

    draw = np.random.default_rng(0)
    lengths = np.clip(draw.lognormal(3.0, 0.5, count), 4, size.tokens).astype(int)
    ids = [draw.integers(5, 1000, length).astype(np.int32) for length in lengths]
    return Encoded(ids, [np.zeros_like(one) for one in ids], draw.integers(0, 2, count), 0)


def loop_of(
    folder: Path,
    size: Size,
    batch: int,
    *,
    seed: int = 0,
    stop: Callable[[], bool] = lambda: False,
    observers: Sequence[Any] = (),
    **changes: Any,
) -> Any:
    """Return our training loop over an epoch of `size.updates` batches, in bf16 on a card."""
    from isoscope.data import tokens
    from isoscope.objectives import Task
    from isoscope.objectives.classification import Classification
    from isoscope.platform.config.load import Configuration
    from isoscope.training.keeping import Keeper
    from isoscope.training.loop import Loop
    from isoscope.training.ranks import make_accelerator

    asked = Configuration(ROOT).cell("fusion", "additive").cell.training
    on_card = device_here().type == "cuda"
    asked = asked.model_copy(
        update={
            "device": "auto",
            "precision": "bf16" if on_card else "fp32",
            "threads": None,
            "batch_size": batch,
            "epochs": 1,
            "keep": "last",
            "checkpoint_every": 10**9,
            "log_every": 20,
            "snapshots": asked.snapshots.model_copy(update={"steps": "none", "epochs": False}),
            "evaluations": 1,
            "watch": None,
            **changes,
        }
    )
    train = sentences(size, batch * size.updates)
    few = train.take(np.arange(min(128, len(train.ids))))
    folder.mkdir(parents=True, exist_ok=True)
    tokens.train_wordpiece(["some text"], folder / "tokenizer", vocab_size=60, lowercase=True)
    task = Task(folder, {}, folder / "tokenizer", 128, 1.0, batch, asked.bucket, seed)
    model = classifier(size, "additive")
    splits = {"train": train, "validation": few, "test": few}
    objective = Classification(splits, labels=LABELS, pad_id=0, vocab_size=model.config.vocab_size, task=task)
    return Loop(
        model,
        objective,
        settings=asked,
        seed=seed,
        accelerator=make_accelerator(asked, unused=False),
        penalised=None,
        observers=observers,
        work=folder / "work",
        states=folder / "states",
        keeper=Keeper(folder / "work", keep="last", tokenizer=folder / "tokenizer", max_length=128),
        log=Speed(),
        display=Speed(),
        stop=stop,
    )


class Speed:
    """The loop's log and display: keeps the speed of the epoch."""

    speed = 0.0

    def metric(self, name: str, value: float, **_: object) -> None:
        self.speed = value if name == "speed/tokens_per_second" else self.speed

    def update(self, *_: object) -> None: ...

    def epoch(self, *_: object) -> None: ...


def loop_speed(size: Size, batch: int) -> float:
    """Return the tokens per second of our loop."""
    with tempfile.TemporaryDirectory() as folder:
        loop = loop_of(Path(folder), size, batch)
        loop.model.train()
        loop._begin()
        loop._train_epoch(1)
        return float(loop.log.speed)


def trainer_speed(size: Size, batch: int) -> float:
    """Return the tokens per second of transformers' Trainer, on our batches in our order."""
    from torch.utils.data import SequentialSampler
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    from isoscope.data.batches import collate, epoch_batches

    class Ordered(Trainer):
        def _get_train_sampler(self, *_: Any) -> Any:
            return SequentialSampler(self.train_dataset)

    class Clock(TrainerCallback):
        def on_train_begin(self, *_: object, **__: object) -> None:
            _wait(device)
            self.began = time.perf_counter()

        def on_train_end(self, *_: object, **__: object) -> None:
            _wait(device)
            self.seconds = time.perf_counter() - self.began

    device, train = device_here(), sentences(size, batch * size.updates)
    order = np.concatenate(epoch_batches(train.lengths, batch_size=batch, seed=0, epoch=1, bucket=50))
    config: dict[str, Any] = {
        "hidden_size": size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
    }
    model = BertForSequenceClassification(BertConfig(intermediate_size=4 * size.width, **config))

    def collated(rows: list[int]) -> dict[str, torch.Tensor]:
        found = collate(train, np.array(rows), pad_id=0)._asdict()
        return {name: torch.from_numpy(array) for name, array in found.items()}

    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=batch,
            num_train_epochs=1,
            bf16=device.type == "cuda",
            use_cpu=device.type == "cpu",
            dataloader_pin_memory=device.type == "cuda",
            logging_steps=20,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            log_level="error",
        )
        Ordered(
            model=model,
            args=arguments,
            train_dataset=order.tolist(),
            data_collator=collated,
            callbacks=[clock],
        ).train()
    return int(train.lengths.sum()) / clock.seconds


def measured(part: str, *, smoke: bool, limit: float) -> Iterator[Row]:
    """Yield the rows of a part as its process prints them; at its limit, in seconds, the process is killed."""
    command = [sys.executable, __file__, "--part", part, *(["--smoke"] if smoke else [])]
    options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True, "start_new_session": True}
    with tempfile.TemporaryFile("w+") as errors, subprocess.Popen(command, stderr=errors, **options) as process:
        timer = threading.Timer(limit, lambda: os.killpg(process.pid, signal.SIGKILL))
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith(ROW):
                yield Row(**json.loads(line.removeprefix(ROW)))
        code, late = process.wait(), not timer.is_alive()
        timer.cancel()
        if code:
            errors.seek(0)
            why = f"stopped after {limit:.0f} s" if late else (errors.read().strip().splitlines() or ["?"])[-1]
            yield Row(f"{part}: FAILED: {why}", float("nan"), "")


def write(folder: Path, rows: Sequence[tuple[str, Row]], about: Mapping[str, str]) -> None:
    """Write all rows so far as Markdown and JSON."""
    lines = [", ".join(about.values()), "", "| part | measured | result | bound |", "|---|---|---:|---|"]
    lines += [f"| {part} | {row.what} | {row.value:.4g} {row.unit} | {row.verdict} |" for part, row in rows]
    (folder / "gpu.md").write_text("\n".join(lines) + "\n", "utf-8")
    plain = [(part, row._replace(value=row.value if np.isfinite(row.value) else None)) for part, row in rows]
    found = {"about": about, "rows": [{"part": part, **row._asdict()} for part, row in plain]}
    (folder / "gpu.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=8, help="of all parts together (default: 8)")
    parser.add_argument("--out", type=Path, help="folder for gpu.md and gpu.json (default: they are not written)")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=list(PARTS), help="default: all")
    parser.add_argument("--smoke", action="store_true", help="test the script: tiny sizes, also without a GPU")
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        for row in PARTS[options.part][0](smoke=options.smoke):
            print(ROW + json.dumps(row._asdict()), flush=True)
        return
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    if not torch.cuda.is_available():
        print(
            "gpu.py: no GPU here (torch.cuda.is_available() is False)" + ("; sizes are tiny" if options.smoke else "")
        )
        if not options.smoke:
            sys.exit(2)
    card = "no GPU" if not torch.cuda.is_available() else _card()
    about = {"card": card, "torch": f"torch {torch.__version__}", "date": time.strftime("%Y-%m-%d")}
    print(", ".join(about.values()), flush=True)
    ends, rows, failed = time.monotonic() + 60 * options.minutes, list[tuple[str, Row]](), False
    shares = [PARTS[name][1] for name in options.parts]
    for number, name in enumerate(options.parts):
        left = ends - time.monotonic()
        limit = (
            left * shares[number] / sum(shares[number:]) if not options.smoke else 600.0
        )  # a slow machine may test it
        for row in measured(name, smoke=options.smoke, limit=max(limit, 1)):
            rows.append((name, row))
            failed |= "FAILED" in row.what
            print(f"{name:13} {row.what}: {row.value:.4g} {row.unit}  {row.verdict}", flush=True)
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                write(options.out, rows, about)
    sys.exit(1 if failed else 0)


def _card() -> str:
    """Return the name of the first card, without a CUDA context of this process."""
    command = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.partition("\n")[0] or "a GPU"


if __name__ == "__main__":
    main()
