"""Compare the estimates of `isoscope plan` with the truth: train small models after each other, and read their records.

Each run begins with the estimate that the runs before it allow: with other seeds, lengths, learning rates, fusions,
batches and widths. Prints Markdown.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

from timing import bound, conclude, table

from isoscope.platform.runs.durations import working_seconds
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.runs.record import read

ROOT = Path(__file__).parents[1]
RUNS: list[tuple[str, str, tuple[str, ...]]] = [
    ("first run", "additive", ()),
    ("half the learning rate", "additive", ("training.learning_rate=5e-4",)),
    ("twice as long", "additive", ("training.epochs=4",)),
    ("four times as long", "additive", ("training.epochs=8",)),
    ("twice the learning rate", "additive", ("training.learning_rate=2e-3",)),
    ("other fusion: conv2d", "conv2d", ()),
    ("conv2d, twice as long", "conv2d", ("training.epochs=4",)),
    ("other fusion: fft", "fft", ()),
    ("half the batch", "additive", ("training.batch_size=16",)),
    ("half the batch, twice as long", "additive", ("training.batch_size=16", "training.epochs=4")),
    ("twice the batch", "additive", ("training.batch_size=64",)),
    ("half the width", "additive", ("model.encoder.hidden_size=32",)),
    ("half the data", "additive", ("training.fraction=0.5", "training.epochs=4")),
]
"""What differs from the runs before, the arm, and the settings of each run."""


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2, help="seeds of each run")
    parser.add_argument("--smoke", action="store_true", help="test the script: three runs on little text")
    chosen = parser.parse_args()
    asked = RUNS[:3] if chosen.smoke else RUNS
    common = ("training.epochs=1", "training.fraction=0.02") if chosen.smoke else ("training.epochs=2",)
    isoscope = [sys.executable, "-P", "-m", "isoscope"]
    rows, errors, known = [], [], set[str]()
    with tempfile.TemporaryDirectory() as place:
        project = Path(place) / "project"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(project)], check=True)
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "ISOSCOPE_OWN_TREE": "1", FOLLOWED: "1"}
        options = {"cwd": project, "env": environment, "check": True, "capture_output": True}
        subprocess.run([*isoscope, "prepare", "sentiment"], **options)
        for seed in range(1 if chosen.smoke else chosen.rounds):
            for what, arm, settings in asked:
                merged = dict(one.split("=") for one in (*common, *settings))
                words = [word for name, value in merged.items() for word in ("-S", f"{name}={value}")]
                subprocess.run([*isoscope, "train", "fusion", arm, "--seed", str(seed), *words], **options)
                (digest,) = {path.stem for path in (project / ".isoscope/records").glob("*.jsonl")} - known
                known.add(digest)
                record = read(project / f".isoscope/records/{digest}.jsonl")
                truth, estimate = working_seconds(record) or 0.0, record.attempts[0].estimate
                if estimate is None:
                    rows.append((what, str(seed), "none", f"{truth:.1f} s", ""))
                    continue
                errors.append(abs(estimate["seconds"] / truth - 1))
                said = f"{estimate['seconds']:.1f} s ({estimate['low']:.1f} to {estimate['high']:.1f})"
                rows.append((what, str(seed), said, f"{truth:.1f} s", f"{errors[-1]:.0%}"))
    print(table("Estimates and truth", ("run", "seed", "estimate", "took", "error"), rows))
    bound("median error of an estimate", median(errors), 0.3, "")
    conclude(smoke=chosen.smoke)


if __name__ == "__main__":
    main()
