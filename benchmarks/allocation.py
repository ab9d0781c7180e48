"""Measure what loss change allocation adds to the time of training, its closure and the size of its tables.

python benchmarks/allocation.py [--updates 2000] [--rounds 3] [--smoke]   prints Markdown.

The embedded profile's model and task, the same training with and without the observer, in turn, on one thread. CPU
time, since other load slows a run of minutes by more than what is measured. Cases: the minibatch
estimator alone (`first_order`, one interval at the end), and the overlay `allocated` (Simpson, 116 intervals).
The overlay's cost is a number of intervals, whatever the length of training: its cost per interval, in updates, gives
the length at which it adds 25 %.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import pandas as pd
import torch
from timing import bound, conclude, table

from isoscope.platform.config.load import Configuration
from isoscope.platform.config.training import Allocation as Settings
from isoscope.platform.config.training import Training
from isoscope.platform.config.tree import read_yaml
from isoscope.training.allocation import interval_ends
from isoscope.training.observers.lca import Allocation
from training import Setting, classification, looped, settings

ROOT = Path(__file__).parents[1]


class Measured(NamedTuple):
    """Seconds of CPU time of `Loop.fit`, bytes of the tables, and the table of closure (None without allocation)."""

    seconds: float
    size: int
    closure: pd.DataFrame | None


def train(setting: Setting, training: Training, asked: Settings | None) -> Measured:
    """Train once; write the tables."""
    with tempfile.TemporaryDirectory() as work:
        torch.use_deterministic_algorithms(True)  # as the stage does
        model = setting.model("additive")
        loop, _ = looped(
            model,
            classification(setting, training, model, 128),
            training,
            Path(work),
            tokenizer=setting.tokenizer,
            longest=setting.longest,
            observers=() if asked is None else [Allocation(**vars(asked))],
        )
        began = time.process_time()
        loop.fit()
        seconds = time.process_time() - began
        torch.use_deterministic_algorithms(False)
        if asked is None:
            return Measured(seconds, 0, None)
        loop.observers.finish(Path(work))
        size = sum(path.stat().st_size for path in Path(work).glob("*.parquet"))
        return Measured(seconds, size, pd.read_parquet(Path(work) / "closure.parquet"))


def compare(setting: Setting, training: Training, asked: Settings, rounds: int, updates: int) -> str:
    """Return a table of the cases: ratios to the run without allocation of the same round."""
    alone = {"estimator": "first_order", "dense": 0, "chords": 1, "tolerance": None, "minibatch": True, "parts": False}
    cases: Mapping[str, Settings | None] = {
        "none": None,
        "minibatch alone": Settings.model_validate(asked.model_dump() | alone),
        "overlay `allocated`": asked,
    }
    runs: dict[str, list[Measured]] = {name: [] for name in cases}
    for turn in range(rounds):
        for name in [*cases][turn % 3 :] + [*cases][: turn % 3]:
            runs[name].append(train(setting, training, cases[name]))
    rows = [_row(name, runs, cases[name], updates) for name in cases]
    heads = (
        "allocation",
        "seconds of CPU",
        "ratio",
        "cost of an interval, updates",
        "updates for + 25 %",
        "tables",
        "closed",
    )
    return table(f"{setting.title}: {updates:,} updates of {training.batch_size}", heads, rows)


def _row(name: str, runs: Mapping[str, list[Measured]], asked: Settings | None, updates: int) -> tuple[str, ...]:
    seconds = [one.seconds for one in runs[name]]
    found = runs[name][-1]
    if asked is None or found.closure is None:
        return name, f"{min(seconds):.1f}", "1", "", "", "", ""
    ratios = [one / plain.seconds for one, plain in zip(seconds, runs["none"], strict=True)]
    intervals = len(interval_ends(updates, dense=asked.dense, chords=asked.chords))
    each = (median(ratios) - 1) * updates / intervals
    inside = found.closure[~found.closure["total"]]["closed"].mean()
    total = found.closure[found.closure["total"]]
    gap = (total["gap"] / total["change"]).abs().max()
    if asked.minibatch:
        bound(f"training with {name}, to none", median(ratios), 1.05)
    else:
        bound(f"{name}: closed intervals", inside, 0.95, "", least=True)
        bound(f"{name}: gap of all together, of the whole", gap, 0.005, "")
        bound(f"{name}: tables", found.size / 1e6, 20, "MB")
    longer = f"{each * intervals / 0.25:,.0f}" if not asked.minibatch else ""
    cost = f"{each:.1f}" if not asked.minibatch else ""
    closed = f"{inside:.0%} of intervals, {gap:.3%} in total"
    return name, f"{min(seconds):.1f}", f"{median(ratios):.3f}", cost, longer, f"{found.size / 1e6:.2f} MB", closed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--updates", type=int, default=2000, help="updates of a run (default: 2000)")
    parser.add_argument("--rounds", type=int, default=3, help="runs of each case (default: 3)")
    parser.add_argument("--smoke", action="store_true", help="test the script: a few updates")
    options = parser.parse_args()
    if options.smoke:
        options.updates, options.rounds = 4, 1
    configuration = Configuration(ROOT)
    training = configuration.cell("fusion", "additive").cell.training
    overlay = read_yaml(ROOT, Path("variants/settings/allocated.yaml"))
    asked = Settings.model_validate(overlay["training"]["allocation"])
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        rows = min(options.updates, 100) * training.batch_size
        (setting,) = settings(configuration, Path(folder), rows, [])
        per_epoch = -(-len(setting.train.labels) // training.batch_size)
        epochs = -(-options.updates // per_epoch)
        changes: dict[str, Any] = {"epochs": epochs, "keep": "last", "checkpoint_every": 10**9, "evaluations": 1}
        changes["snapshots"] = training.snapshots.model_copy(update={"steps": "none", "epochs": False})
        training = training.model_copy(update=changes)
        print(f"{torch.get_num_threads()} thread, torch {torch.__version__}\n")
        print(compare(setting, training, asked, options.rounds, epochs * per_epoch))
    conclude(smoke=options.smoke)


if __name__ == "__main__":
    main()
