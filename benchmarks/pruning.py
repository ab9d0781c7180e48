"""Compare the best value of a search after a fixed number of epochs: with pruning, without, and random search.

Every choice of a small space is trained once, in full, on the embedded task. The searches then replay these curves, ten
seeds each, with the samplers and pruners of `isoscope search`, and pay for each epoch that they read. Prints Markdown.
"""

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import optuna
import pandas as pd
from timing import table

from isoscope.base import paths
from isoscope.base.processes import StopSignal
from isoscope.platform.config.across_studies import check_search
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Search
from isoscope.platform.executor.execute import Piece, side_by_side
from isoscope.platform.runs.follower import FOLLOWED
from isoscope.platform.search.space import pruner, sampler, suggest
from isoscope.platform.stages.search_runs import plan
from isoscope.platform.statistics.differences import differences

ROOT = Path(__file__).parents[1]


class Grid(NamedTuple):
    """The searched space and the number of searches; `sets` are further settings, as with `-S`."""

    space: Mapping[str, Mapping[str, Sequence[Any]]]
    epochs: int
    seeds: range
    sets: tuple[str, ...] = ()


FULL = Grid(
    {
        "fusion": {"choices": ["additive", "conv2d", "fft"]},
        "training.learning_rate": {"choices": [1e-4, 3e-4, 1e-3, 3e-3, 1e-2]},
        "penalty": {"choices": ["none", "selected"]},
    },
    epochs=8,
    seeds=range(10),
)
SMOKE = Grid({"fusion": {"choices": ["additive", "fft"]}}, epochs=3, seeds=range(2), sets=("training.fraction=0.02",))
TPE = {"kind": "tpe", "startup": 5}
MEDIAN, HYPERBAND = {"kind": "median", "startup": 5, "warmup": 1}, {"kind": "hyperband", "reduction": 3}
WAYS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "TPE, nothing pruned": (TPE, {"kind": "none"}),
    "TPE, median": (TPE, MEDIAN),
    "TPE, Hyperband": (TPE, HYPERBAND),
    "random, nothing pruned": ({"kind": "random"}, {"kind": "none"}),
    "random, median": ({"kind": "random"}, MEDIAN),
}
Curves = Mapping[tuple[Any, ...], list[float]]


def configured(folder: Path, grid: Grid, way: str, seed: int) -> tuple[Configuration, Search]:
    """Return the project's search with this space, sampler and pruner."""
    by, ended = WAYS[way]
    section = {
        "space": grid.space,
        "objectives": {"validation/accuracy": "maximise"},
        "constraints": {},
        "sampler": by | {"seed": seed},
        "pruner": ended,
    }
    words = [f"search.{name}={json.dumps(value)}" for name, value in section.items()]
    found = Configuration(folder, [*words, *grid.sets, f"training.epochs={grid.epochs}"])
    check_search(found)
    assert found.root.search is not None
    return found, found.root.search


def trained(folder: Path, grid: Grid, workers: int) -> Curves:
    """Train every choice of the space and return the learning curves."""
    configuration, search = configured(folder, grid, "TPE, nothing pruned", 0)
    runs = plan(configuration, search, paths.Project(folder, folder))
    keys = list(itertools.product(*(one["choices"] for one in grid.space.values())))
    works = [runs(dict(zip(grid.space, key, strict=True)))[0] for key in keys]
    os.environ[FOLLOWED] = "1"  # no run needs a mirror
    with StopSignal() as stop:
        pieces = [Piece(f"run {number}", run.run) for number, run in enumerate(works)]
        side_by_side(pieces, title="runs", workers=workers, stop=stop)
    return {
        key: [value for _, value in sorted(dict(run.reports()).items())] for key, run in zip(keys, works, strict=True)
    }


def best(search: Search, curves: Curves, whole_trial: int, epochs: int) -> tuple[float, int]:
    """Return the best value of a complete trial after `epochs` epochs, and the number of started trials."""
    study = optuna.create_study(direction="maximize", pruner=pruner(search, whole_trial))
    left = epochs
    while left:
        study.sampler = sampler(search, len(study.get_trials(deepcopy=False)))
        trial = study.ask()
        chosen = suggest(search, trial)
        values = curves[tuple(chosen.values())][:left]
        for step, value in enumerate(values, 1):
            trial.report(value, step)
            left -= 1
            if step < whole_trial and trial.should_prune():
                study.tell(trial, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            whole = len(values) == whole_trial
            study.tell(trial, max(values) if whole else None, state=None if whole else optuna.trial.TrialState.FAIL)
    return study.best_value, len(study.trials)


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epochs", type=int, nargs="+", default=[60, 120], help="epochs that each search may use")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--project", type=Path, help="where to train (default: a temporary clone)")
    parser.add_argument("--smoke", action="store_true", help="test the script: two tiny models, two seeds")
    chosen = parser.parse_args()
    grid = SMOKE if chosen.smoke else FULL
    if chosen.smoke:
        chosen.epochs = [6]
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    folder = (chosen.project or Path(tempfile.mkdtemp()) / "project").resolve()
    if not folder.exists():
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(folder)], check=True)
        subprocess.run([sys.executable, "-P", "-m", "isoscope", "prepare", "sentiment"], cwd=folder, check=True)
    curves = trained(folder, grid, chosen.workers)
    top = sorted((max(values) for values in curves.values()), reverse=True)
    print(f"{len(curves)} choices of {grid.epochs} epochs: best {top[0]:.3f}, middle {top[len(top) // 2]:.3f}.\n")
    for epochs in chosen.epochs:
        rows, begun = [], {}
        for way in WAYS:
            found = [best(configured(folder, grid, way, seed)[1], curves, grid.epochs, epochs) for seed in grid.seeds]
            begun[way] = sum(trials for _, trials in found) / len(found)
            rows += [
                {"metric": "best", "arm": way, "seed": seed, "value": value}
                for seed, (value, _) in zip(grid.seeds, found, strict=True)
            ]
        held = differences(pd.DataFrame(rows), confidence=0.95, power=0.8).set_index("arm")
        first, lines = next(iter(WAYS)), []
        for way in WAYS:
            one = held.loc[way] if way in held.index else None
            mean = held["mean_reference"].iloc[0] if one is None else one["mean"]
            interval = "" if one is None else f"{one['difference']:+.4f} [{one['low']:+.4f}, {one['high']:+.4f}]"
            lines.append((way, f"{begun[way]:.1f}", f"{mean:.4f}", interval))
        heads = ("way", "trials begun", "best value, mean", f"against {first!r}")
        print(table(f"{epochs} epochs, {len(grid.seeds)} seeds, 95 % t-intervals of pairs", heads, lines))


if __name__ == "__main__":
    main()
