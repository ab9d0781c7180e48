"""Train the runs of docs/results/remedies.md; run it at the root of a checkout.

Needs `isoscope profile remedies_sst2` and `isoscope prepare sst2` first. Two parts:
rates      every arm with three learning rates, one seed; an arm's own rate has the least validation loss
own        every arm with its own rate, four fresh seeds
Both store what they trained in docs/results/remedies/. Finished runs are not repeated, nor are rates in rates.csv; stop
and start it at any time.
"""

import argparse
import json
import subprocess
from pathlib import Path

import pandas as pd
from collect import COLUMNS, collect, commit_of, output_of, rows

from isoscope.config.load import Configuration
from isoscope.outputs import Output

RATES = ("1e-4", "3e-4", "1e-3")
RATES_SEED, SEEDS = 400, (300, 301, 302, 303)
STORED = Path(__file__).parent / "remedies"


def train(seed: int, *overrides: str) -> list[Path]:
    """Train every arm with one seed and return the folders of the results."""
    words = [word for one in overrides for word in ("-S", one)]
    command = ["isoscope", "train", "remedies", "--seed", str(seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [Path(folder) for folder in json.loads(said)["folders"]]


def rates() -> None:
    """Train with every rate and add to rates.csv: the least validation loss over epochs, and the accuracy there."""
    STORED.mkdir(exist_ok=True)
    file, columns = STORED / "rates.csv", [name for name in COLUMNS if name != "step"]
    every = list(Configuration(Path()).arms("remedies"))
    for rate in RATES:
        table = pd.read_csv(file, dtype=str, keep_default_na=False) if file.exists() else pd.DataFrame(columns=columns)
        if lacking := [arm for arm in every if f"{arm}@{rate}" not in set(table["arm"])]:
            only = f"studies.remedies.axes.fusion=[{','.join(lacking)}]"
            folders = train(RATES_SEED, f"training.learning_rate={rate}", only)
            found = [row for folder in folders for row in least(output_of(folder), rate)]
            table = pd.concat([table, pd.DataFrame(found, columns=columns)])
            table.to_csv(file, index=False, lineterminator="\n")
    print("own rates:", own_rates())


def least(output: Output, rate: str) -> list[tuple[object, ...]]:
    """Return the rows of a run in rates.csv."""
    run, commit = output.run, commit_of(output.run.digest)
    points = pd.DataFrame(rows(output, commit), columns=COLUMNS)
    points = points[points["epoch"] != ""].pivot(index="epoch", columns="metric", values="value").astype(float)
    best = points.loc[points["validation/loss"].idxmin()]
    about = (run.digest[:12], commit[:7], f"{run.arm}@{rate}", run.seed)
    return [(*about, f"validation/{name}", "", best[f"validation/{name}"]) for name in ("loss", "accuracy")]


def own_rates() -> dict[str, str]:
    """Return arm → the rate with the least validation loss, from rates.csv."""
    table = pd.read_csv(STORED / "rates.csv")
    losses = table[table["metric"] == "validation/loss"].copy()
    losses[["arm", "rate"]] = losses["arm"].str.split("@", expand=True)
    return dict(losses.sort_values("value", kind="stable").groupby("arm", sort=False)["rate"].first())


def own() -> None:
    """Train with the own rates and write own.csv and own.parquet."""
    chosen = [f"variants/fusion/{arm}.yaml:training.learning_rate={rate}" for arm, rate in own_rates().items()]
    folders = [folder for seed in SEEDS for folder in train(seed, *chosen)]
    collect("remedies/own", folders)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("rates", "own"))
    for part in parser.parse_args().parts:
        {"rates": rates, "own": own}[part]()


if __name__ == "__main__":
    main()
