"""Train the runs of docs/results/dynamics.md; run it at the root of a checkout.

Needs `isoscope profile dynamics` and `isoscope prepare multi30k` first. Parts:
rates      every arm with three learning rates, a quarter of the updates, one seed; an arm's own rate has the least
           validation loss
own        the three objectives, each at its own rate, five seeds
common     the same at one rate, where the own rate is another
dense      the three objectives, every update to 500 allocated, one seed
depth      masked and causal models as deep as a stack of the translation model, three seeds
part       causal models whose loss counts 15 % of the tokens, three seeds
fusions    Conv2D and circular convolution, three objectives, three seeds
more       masked models that see 6.7 times the sentences: as many predicted tokens as a causal model, three seeds
Each part stores its tables in docs/results/dynamics/, seed by seed. What is stored there is not trained again, and
finished runs are not repeated: stop and start it at any time.
"""

import argparse
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd
from collect import COLUMNS, commit_of, output_of, rows

from isoscope import paths
from isoscope.outputs import Output
from isoscope.studies.comparison import Arms, results
from isoscope.studies.dynamics import tables
from isoscope.studies.dynamics.allocated_runs import BLOCK, allocated_runs

STORED = Path(__file__).parent / "dynamics"
RATES, RATES_SEED = ("3e-4", "1e-3", "3e-3"), 400
COMMON = "1e-3"
OBJECTIVES, FUSIONS = ("masked", "causal", "translation"), ("additive", "conv2d", "fft")
CONFIDENCE = 0.95
KEPT = (
    *("learned", "allocated", "closed", "course", "synchrony", "positive", "heads", "hurting"),
    *("hurting_published", "minibatch"),
)
"""Tables of single runs that are stored; means over seeds are made from them."""
RUN_COLUMNS = ("digest", "commit", "arm", "seed")


class Part(NamedTuple):
    """A set of runs: arms are objective × fusion; `rate` None: each arm's own."""

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
    "part": Part(objectives=("causal_part",)),
    "fusions": Part(fusions=FUSIONS[1:]),
    "more": Part(objectives=("masked",), overrides=("training.budget.number=26800", "training.epochs=60")),
}


def train(objectives: Sequence[str], fusions: Sequence[str], seed: int, rate: str, *overrides: str) -> list[Output]:
    """Train every objective with every fusion at a rate and return the finished runs."""
    axes = (f"objective=[{','.join(objectives)}]", f"fusion=[{','.join(fusions)}]")
    settings = (*(f"studies.dynamics.axes.{one}" for one in axes), f"training.learning_rate={rate}", *overrides)
    words = [word for one in settings for word in ("-S", one)]
    command = ["isoscope", "train", "dynamics", "--seed", str(seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [output_of(Path(folder)) for folder in json.loads(said)["folders"]]


def rates(fusions: Sequence[str]) -> None:
    """Add to rates.csv, per arm and rate: the validation loss at the end, and whether it is the least so far."""
    file = STORED / "rates.csv"
    for fusion in fusions:
        for rate in RATES:
            done = set(stored(file)["arm"]) if file.exists() else set()
            lacking = [one for one in OBJECTIVES if f"{one}-{fusion}@{rate}" not in done]
            if lacking:
                short = ("training.budget.number=1000", "training.epochs=3", "studies.dynamics.settings=[]")
                found = [last(one, rate) for one in train(lacking, [fusion], RATES_SEED, rate, *short)]
                append(file, pd.DataFrame(found, columns=[*RUN_COLUMNS, "metric", "step", "value"]))
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
    both.to_csv(file, index=False, lineterminator="\n")


def run(name: str) -> None:
    """Train a part's runs that are not stored, and store their tables after each seed and rate."""
    part, chosen = PARTS[name], own_rates()
    arms = {f"{one}-{fusion}": (one, fusion) for fusion in part.fusions for one in part.objectives}
    rate = {arm: part.rate or chosen.get(arm, chosen.get(arm.replace("_part", ""), COMMON)) for arm in arms}
    if name == "common":
        arms = {arm: pair for arm, pair in arms.items() if chosen[arm] != COMMON}
    settings = f"studies.dynamics.settings=[{','.join(part.settings)}]"
    file = STORED / f"{name}.csv"
    for seed in part.seeds:
        table = stored(file) if file.exists() else pd.DataFrame(columns=COLUMNS)
        lacking = [arm for arm in arms if arm not in set(table[table["seed"] == str(seed)]["arm"])]
        for one in sorted({rate[arm] for arm in lacking}):
            for fusion in part.fusions:
                same = [arms[arm][0] for arm in lacking if rate[arm] == one and arms[arm][1] == fusion]
                if same:
                    store(name, train(same, [fusion], seed, one, settings, *part.overrides))


def store(name: str, outputs: Sequence[Output]) -> None:
    """Add the runs' metrics to `<name>.csv`, and their tables to `<name>/<table>.parquet`."""
    manifest = json.loads((paths.processed(outputs[0].run.task) / "manifest.json").read_text("utf-8"))
    found: dict[str, list[pd.DataFrame]] = {table: [] for table in KEPT}
    for output in outputs:
        arms = results([output], manifest["splits"]["test"]["rows"])
        sums = {"minibatch": minibatch(arms)}
        for table, own in (tables(arms, manifest=manifest, confidence=CONFIDENCE) | sums).items():
            if table in KEPT:
                found[table].append(own.assign(arm=output.run.arm, seed=output.run.seed).dropna(axis=1, how="all"))
    folder = STORED / name
    folder.mkdir(parents=True, exist_ok=True)
    for table, own in found.items():
        file = folder / f"{table}.parquet"
        before = [pd.read_parquet(file)] if file.exists() else []
        if own:
            pd.concat([*before, *own], ignore_index=True).to_parquet(file, compression="zstd", index=False)
    about = [row for output in outputs for row in rows(output, commit_of(output.run.digest))]
    append(STORED / f"{name}.csv", pd.DataFrame(about, columns=COLUMNS))


def minibatch(arms: Arms) -> pd.DataFrame:
    """Return the sums of a run's minibatch estimator over training, by stack, layer and component."""
    (only,) = allocated_runs(arms)
    return only.minibatch.groupby(BLOCK)["value"].sum().rename("nats").reset_index()


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
