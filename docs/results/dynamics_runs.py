"""Train the runs of docs/results/dynamics.md; run it at the root of a checkout.

Needs `isoscope profile dynamics` and `isoscope prepare multi30k` first. Parts:
rates      every arm with three learning rates, a quarter of the updates, one seed; an arm's own rate has the least
           validation loss
own        the three objectives, each at its own rate, five seeds
common     the same at one rate, where the own rate is another
dense      the three objectives, every update to 500 allocated, one seed
depth      masked and causal models as deep as a stack of the translation model, three seeds, at the rates of full depth
depth_common  the same at one rate, to compare with `common`
part       causal models whose loss counts 15 % of the tokens, three seeds
fusions    Conv2D and circular convolution, three objectives, three seeds
more       masked models that see 6.7 times the sentences: as many predicted tokens as a causal model, three seeds
Each run's tables are stored in docs/results/dynamics/ when it is done. What is stored there is not trained again, and
finished runs are not repeated: stop and start it at any time. As many runs are trained at a time as there are cores.
"""

import argparse
import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from collect import commit_of, output_of

from isoscope.base import paths
from isoscope.platform.outputs import Output
from isoscope.platform.results.paired_comparison import Arms, StudyRuns
from isoscope.platform.stages.result_tables import COLUMNS, rows
from isoscope.studies.arms.scores_on_test import results
from isoscope.studies.dynamics.allocated_runs import BLOCK, allocated_runs, fold_names
from isoscope.studies.dynamics.tables import tables

STORED = Path(__file__).parent / "dynamics"
RATES, RATES_SEED = ("3e-4", "1e-3", "3e-3"), 400
COMMON = "1e-3"
OBJECTIVES, FUSIONS = ("masked", "causal", "translation"), ("additive", "conv2d", "fft")
CONFIDENCE = 0.95
KEPT = (
    *("learned", "allocated", "closed", "course", "synchrony", "positive", "heads", "hurting"),
    *("hurting_published", "folds", "minibatch"),
)
"""Tables of single runs that are stored; means over seeds are made from them."""
RUN_COLUMNS = ("digest", "commit", "arm", "seed")


class Part(NamedTuple):
    """A set of runs: arms are objective × fusion; `rate` None: the own rate of the objective and fusion in `rates`."""

    objectives: Sequence[str] = OBJECTIVES
    fusions: Sequence[str] = ("additive",)
    seeds: Sequence[int] = (0, 1, 2)
    settings: Sequence[str] = ("allocated", "minibatch")
    rate: str | None = None
    overrides: Sequence[str] = ()


PARTS: Mapping[str, Part] = {
    "own": Part(seeds=(0, 1, 2, 3, 4)),
    "common": Part(seeds=(0, 1, 2, 3, 4), rate=COMMON),
    "dense": Part(seeds=(0,), settings=("allocated", "minibatch", "dense")),
    "depth": Part(objectives=("masked", "causal"), settings=("allocated", "minibatch", "half_depth")),
    "depth_common": Part(
        objectives=("masked", "causal"), settings=("allocated", "minibatch", "half_depth"), rate=COMMON
    ),
    "part": Part(objectives=("causal_part",)),
    "fusions": Part(fusions=FUSIONS[1:]),
    "more": Part(objectives=("masked",), overrides=("training.budget.number=26800", "training.epochs=60")),
}


class Job(NamedTuple):
    """A run to train: a value of each axis of a study, a seed, and changed parameters."""

    study: str
    axes: Mapping[str, str]
    seed: int
    overrides: Sequence[str] = ()


def train(job: Job) -> Output:
    """Train a run, if it is not finished."""
    axes = (f"studies.{job.study}.axes.{axis}=[{value}]" for axis, value in job.axes.items())
    words = [word for one in (*axes, *job.overrides) for word in ("-S", one)]
    command = ["isoscope", "train", job.study, "--seed", str(job.seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    (folder,) = json.loads(said)["folders"]
    return output_of(Path(folder))


def trained(jobs: Mapping[str, Job]) -> Iterator[tuple[str, Output]]:
    """Train as many runs at a time as there are cores, and yield the name and the output of each when it is done."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {pool.submit(train, job): name for name, job in jobs.items()}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def rates(fusions: Sequence[str]) -> None:
    """Add to rates.csv, per arm and rate, the validation loss at the end of training."""
    file = STORED / "rates.csv"
    done = set(stored(file)["arm"]) if file.exists() else set()
    short = ("training.budget.number=1000", "training.epochs=3", "studies.dynamics.settings=[]")
    jobs = {
        f"{objective}-{fusion}@{rate}": Job("dynamics", axes(objective, fusion), RATES_SEED, (learning(rate), *short))
        for fusion, rate, objective in product(fusions, RATES, OBJECTIVES)
    }
    for arm, output in trained({arm: job for arm, job in jobs.items() if arm not in done}):
        append(file, pd.DataFrame([last(output, arm)], columns=[*RUN_COLUMNS, "metric", "step", "value"]))
    print("own rates:", own_rates())


def axes(objective: str, fusion: str) -> dict[str, str]:
    return {"objective": objective, "fusion": fusion}


def learning(rate: str) -> str:
    return f"training.learning_rate={rate}"


def last(output: Output, arm: str) -> tuple[object, ...]:
    """Return a run's validation loss at the end of training, as a row of rates.csv."""
    points = [row for row in rows(output, commit_of(output.run.digest)) if row[4] == "validation/loss"]
    digest, commit, _, seed, metric, _, step, value = max(points, key=lambda row: int(str(row[6])))
    return digest, commit, arm, seed, metric, step, value


def own_rates() -> dict[str, str]:
    """Return arm → the rate with the least validation loss, from rates.csv."""
    table = stored(STORED / "rates.csv")
    table[["arm", "rate"]] = table["arm"].str.split("@", expand=True)
    table["value"] = table["value"].astype(float)
    return dict(table.sort_values("value", kind="stable").groupby("arm", sort=False)["rate"].first())


def stored(file: Path) -> pd.DataFrame:
    """Return the rows of a CSV file as text."""
    return pd.read_csv(file, dtype=str, keep_default_na=False)


def append(file: Path, table: pd.DataFrame) -> None:
    """Add rows to a CSV file."""
    file.parent.mkdir(exist_ok=True)
    text = table.astype(str)
    both = pd.concat([stored(file), text], ignore_index=True) if file.exists() else text
    whole = file.with_suffix(".new")
    both.to_csv(whole, index=False, lineterminator="\n")
    whole.replace(file)


def run(name: str) -> None:
    """Train a part's runs that are not stored, and store the tables of each."""
    part, chosen, done = PARTS[name], own_rates(), finished(name)
    settings = f"studies.dynamics.settings=[{','.join(part.settings)}]"
    jobs = {}
    for seed, fusion, objective in product(part.seeds, part.fusions, part.objectives):
        own = chosen[f"{objective.removesuffix('_part')}-{fusion}"]
        if (f"{objective}-{fusion}", str(seed)) not in done and not (name == "common" and own == COMMON):
            overrides = (learning(part.rate or own), settings, *part.overrides)
            jobs[f"{objective}-{fusion}, {seed}"] = Job("dynamics", axes(objective, fusion), seed, overrides)
    for _, output in trained(jobs):
        found = of_run(output)
        kept = {table: found[table] for table in KEPT if table in found}  # a dense allocation has no heads
        store(name, output, output.run.arm, kept)


def finished(name: str) -> set[tuple[str, str]]:
    """Return arm and seed of a part's stored runs."""
    file = STORED / f"{name}.csv"
    known = stored(file) if file.exists() else pd.DataFrame(columns=COLUMNS)
    return set(zip(known["arm"], known["seed"], strict=True))


def of_run(output: Output) -> dict[str, pd.DataFrame]:
    """Return the tables of a run's allocation."""
    manifest = manifest_of(output)
    arms = results([output], manifest["splits"]["test"]["rows"])
    return tables({output.run.study: StudyRuns(arms, manifest)}, confidence=CONFIDENCE) | sums(arms)


def manifest_of(output: Output) -> dict[str, Any]:
    """Return what is known about the data of a run's task."""
    found: dict[str, Any] = json.loads((paths.processed(output.run.task) / "manifest.json").read_text("utf-8"))
    return found


def store(name: str, output: Output, arm: str, found: Mapping[str, pd.DataFrame]) -> None:
    """Add a run's tables to `<name>/<table>.parquet`, then its metrics to `<name>.csv`, which says that it is stored.

    Rows of an earlier, interrupted call are replaced.
    """
    folder, seed = STORED / name, output.run.seed
    folder.mkdir(parents=True, exist_ok=True)
    for table, rows_of in found.items():
        own = rows_of.assign(arm=arm, seed=seed).dropna(axis=1, how="all")
        file = folder / f"{table}.parquet"
        before = [others(pd.read_parquet(file), arm, seed)] if file.exists() else []
        whole = file.with_suffix(".new")
        pd.concat([*before, own], ignore_index=True).to_parquet(whole, compression="zstd", index=False)
        whole.replace(file)
    metrics = pd.DataFrame(rows(output, commit_of(output.run.digest)), columns=COLUMNS)
    append(STORED / f"{name}.csv", metrics.assign(arm=arm))


def others(table: pd.DataFrame, arm: str, seed: int) -> pd.DataFrame:
    """Return the rows of the other runs."""
    return table[(table["arm"] != arm) | (table["seed"] != seed)]


def sums(arms: Arms) -> dict[str, pd.DataFrame]:
    """Return a run's sums over training by stack, layer and component: by fold of both sets, and of the minibatch."""
    (only,) = allocated_runs(arms)
    folds = only.allocation.groupby(["set", *BLOCK])[["value", *fold_names(only.allocation)]].sum().reset_index()
    return {"folds": folds, "minibatch": only.minibatch.groupby(BLOCK)["value"].sum().rename("nats").reset_index()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("rates", *PARTS))
    parser.add_argument("--fusions", nargs="+", choices=FUSIONS, default=FUSIONS, help="of the part `rates`")
    arguments = parser.parse_args()
    for part in arguments.parts:
        if part == "rates":
            rates(arguments.fusions)
        else:
            run(part)


if __name__ == "__main__":
    main()
