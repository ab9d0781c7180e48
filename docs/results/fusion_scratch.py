"""Train the cells of docs/results/fusion.md; run it at the root of a checkout.

Needs `isoscope profile scratch` and `isoscope prepare sst2` first. Four parts, two runs at a time:
rates      six arms x four learning rates, one seed, equal budgets: an arm's own rate has the least validation loss
published  six arms with the published rate, two seeds, five epochs
own        six arms with their own rate, three seeds
fresh      six arms with their own rate, six fresh seeds, fp32
`--kill SECONDS` kills runs (SIGKILL) about that many seconds after their start, at random, and starts them again.
Finished runs are not repeated. Store the result: `python docs/results/collect.py fusion/own models/fresh/*/*`.
"""

import argparse
import json
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ARMS = ("additive", "conv2d", "fft", "additive_unit", "conv2d_unit", "fft_unit")
RATES = ("2e-5", "1e-4", "3e-4", "1e-3")
OWN = dict.fromkeys(ARMS, "3e-4") | {"additive_unit": "1e-4"}  # what the part `rates` found
SHORT = ("-S", "training.epochs=3", "-S", "training.schedule.epochs=3")


class Run(NamedTuple):
    part: str
    arm: str
    seed: int
    options: tuple[str, ...]

    @property
    def out(self) -> Path:
        return Path("models", self.part, self.arm, f"seed-{self.seed}")


def train(run: Run, kill: float | None) -> None:
    """Train a run to its end; with `kill`, kill and restart it at random."""
    command = ["isoscope", "train", "fusion", run.arm, "--seed", str(run.seed), *run.options, "--out", str(run.out)]
    run.out.parent.mkdir(parents=True, exist_ok=True)
    draw = random.Random(str(run))
    for attempt in range(100):
        began = time.time()
        with Path("models", "log.txt").open("a") as log:
            process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            process.wait(draw.expovariate(1 / kill) if kill and attempt < 3 else None)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        took = time.time() - began
        print(
            f"{time.strftime('%H:%M:%S')} {run.part} {run.arm} seed {run.seed}: {process.returncode}, {took:.0f} s",
            flush=True,
        )
        if process.returncode == 0:
            return
        if process.returncode != -9:
            sys.exit(f"{' '.join(command)} ended with {process.returncode}; see models/log.txt")


def least_loss(run: Run) -> float:
    """Return the least validation loss over the epochs of a finished run."""
    points = map(json.loads, (run.out / "metrics.jsonl").read_text("utf-8").splitlines())
    return min(point["value"] for point in points if point["name"] == "validation/loss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("rates", "published", "own", "fresh"))
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--kill", type=float, metavar="SECONDS")
    arguments = parser.parse_args()

    def all_of(runs: list[Run]) -> None:
        with ThreadPoolExecutor(arguments.workers) as pool:
            list(pool.map(lambda run: train(run, arguments.kill), runs))

    def at(rate: str) -> tuple[str, ...]:
        return (*SHORT, "-S", f"training.learning_rate={rate}")

    if "rates" in arguments.parts:
        tried = {(arm, rate): Run(f"rates-{rate}", arm, 100, at(rate)) for rate in RATES for arm in ARMS}
        all_of(list(tried.values()))
        print(
            "own rates:", {arm: min(RATES, key=lambda rate: least_loss(tried[arm, rate])) for arm in ARMS}, flush=True
        )
    if "published" in arguments.parts:
        all_of([Run("published", arm, seed, ()) for seed in (0, 1) for arm in ARMS])
    if "own" in arguments.parts:
        all_of([Run("own", arm, seed, at(OWN[arm])) for seed in (0, 1, 2) for arm in ARMS])
    if "fresh" in arguments.parts:
        exact = ("-S", "training.precision=fp32")
        all_of([Run("fresh", arm, seed, (*at(OWN[arm]), *exact)) for seed in range(200, 206) for arm in ARMS])


if __name__ == "__main__":
    main()
