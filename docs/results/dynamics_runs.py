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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import product
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from collect import COLUMNS, commit_of, output_of, rows

from isoscope import paths
from isoscope.outputs import Output
from isoscope.studies.arms import Arms, results
from isoscope.studies.dynamics import tables
from isoscope.studies.dynamics.allocated_runs import BLOCK, allocated_runs, fold_names

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
    """A run to train."""

    objective: str
    fusion: str
    seed: int
    rate: str
    overrides: Sequence[str]


def train(job: Job) -> Output:
    """Train a run, if it is not finished."""
    axes = (f"objective=[{job.objective}]", f"fusion=[{job.fusion}]")
    values = (*(f"studies.dynamics.axes.{one}" for one in axes), f"training.learning_rate={job.rate}", *job.overrides)
    words = [word for one in values for word in ("-S", one)]
    command = ["isoscope", "train", "dynamics", "--seed", str(job.seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    (folder,) = json.loads(said)["folders"]
    return output_of(Path(folder))


def trained(jobs: Iterable[Job]) -> Iterator[tuple[Job, Output]]:
    """Train as many runs at a time as there are cores, and yield each when it is done."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        waiting = {pool.submit(train, job): job for job in jobs}
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
    every = [Job(one, fusion, RATES_SEED, rate, short) for fusion in fusions for rate in RATES for one in OBJECTIVES]
    for job, output in trained(one for one in every if f"{one.objective}-{one.fusion}@{one.rate}" not in done):
        append(file, pd.DataFrame([last(output, job.rate)], columns=[*RUN_COLUMNS, "metric", "step", "value"]))
    print("own rates:", own_rates())


def last(output: Output, rate: str) -> tuple[object, ...]:
    """Return a run's validation loss at the end of training, as a row of rates.csv."""
    points = [row for row in rows(output, commit_of(output.run.digest)) if row[4] == "validation/loss"]
    digest, commit, arm, seed, metric, _, step, value = max(points, key=lambda row: int(str(row[6])))
    return digest, commit, f"{arm}@{rate}", seed, metric, step, value


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
    part, chosen = PARTS[name], own_rates()
    file = STORED / f"{name}.csv"
    known = stored(file) if file.exists() else pd.DataFrame(columns=COLUMNS)
    done = set(zip(known["arm"], known["seed"], strict=True))
    overrides = (f"studies.dynamics.settings=[{','.join(part.settings)}]", *part.overrides)
    jobs = []
    for seed, fusion, objective in product(part.seeds, part.fusions, part.objectives):
        own = chosen[f"{objective.removesuffix('_part')}-{fusion}"]
        if (f"{objective}-{fusion}", str(seed)) not in done and not (name == "common" and own == COMMON):
            jobs.append(Job(objective, fusion, seed, part.rate or own, overrides))
    for _, output in trained(jobs):
        store(name, output)


def store(name: str, output: Output) -> None:
    """Add a run's tables to `<name>/<table>.parquet`, then its metrics to `<name>.csv`, which says that it is stored.

    Rows of an earlier, interrupted call are replaced.
    """
    manifest = json.loads((paths.processed(output.run.task) / "manifest.json").read_text("utf-8"))
    arms = results([output], manifest["splits"]["test"]["rows"])
    found = tables(arms, manifest=manifest, confidence=CONFIDENCE) | sums(arms)
    folder = STORED / name
    folder.mkdir(parents=True, exist_ok=True)
    for table in (name for name in KEPT if name in found):  # a dense allocation has no heads
        own = found[table].assign(arm=output.run.arm, seed=output.run.seed).dropna(axis=1, how="all")
        file = folder / f"{table}.parquet"
        before = [others(pd.read_parquet(file), output)] if file.exists() else []
        whole = file.with_suffix(".new")
        pd.concat([*before, own], ignore_index=True).to_parquet(whole, compression="zstd", index=False)
        whole.replace(file)
    append(STORED / f"{name}.csv", pd.DataFrame(rows(output, commit_of(output.run.digest)), columns=COLUMNS))


def others(table: pd.DataFrame, output: Output) -> pd.DataFrame:
    """Return the rows of the other runs."""
    return table[(table["arm"] != output.run.arm) | (table["seed"] != output.run.seed)]


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
