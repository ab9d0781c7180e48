"""Train the runs of docs/results/remedies.md; run it at the root of a checkout.

Needs `isoscope profile remedies_sst2` and `isoscope prepare sst2` first. Two parts:
rates      every arm with three learning rates, one seed; an arm's own rate has the least validation loss
own        every arm with its own rate, four fresh seeds
Both store what they trained in docs/results/remedies/, four arms at a time. What is stored there is not trained again,
and finished runs are not repeated: stop and start it at any time.
"""

import argparse
import json
import subprocess
from collections.abc import Collection, Iterable
from pathlib import Path

import pandas as pd
from collect import collect, commit_of, output_of

from isoscope.platform.config.load import Configuration
from isoscope.platform.outputs import Output
from isoscope.platform.stages.result_tables import COLUMNS, rows

RATE_COLUMNS = [name for name in COLUMNS if name != "step"]
RATES = ("1e-4", "3e-4", "1e-3")
RATES_SEED, SEEDS = 400, (300, 301, 302, 303)
STORED = Path(__file__).parent / "remedies"


def train(seed: int, arms: Iterable[str], *overrides: str) -> list[Path]:
    """Train arms with one seed and return the folders of the results."""
    only = f"studies.remedies.axes.fusion=[{','.join(arms)}]"
    words = [word for one in (only, *overrides) for word in ("-S", one)]
    command = ["isoscope", "train", "remedies", "--seed", str(seed), *words, "--json"]
    said = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True).stdout
    return [Path(folder) for folder in json.loads(said)["folders"]]


def rates() -> None:
    """Train with every rate and add to rates.csv: the least validation loss over epochs, and the accuracy there.

    Epoch 0, before training, does not count: it is the same with every rate.
    """
    STORED.mkdir(exist_ok=True)
    file = STORED / "rates.csv"
    for rate in RATES:
        for arms in groups({one.split("@")[0] for one in stored(file)["arm"] if one.endswith(f"@{rate}")}):
            folders = train(RATES_SEED, arms, f"training.learning_rate={rate}")
            found = [row for folder in folders for row in least(output_of(folder), rate)]
            pd.concat([stored(file), pd.DataFrame(found, columns=RATE_COLUMNS)]).to_csv(
                file, index=False, lineterminator="\n"
            )
    print("own rates:", own_rates())


def stored(file: Path) -> pd.DataFrame:
    """Return the rows of a file as text; none if it does not exist."""
    empty = pd.DataFrame(columns=RATE_COLUMNS)
    return pd.read_csv(file, dtype=str, keep_default_na=False) if file.exists() else empty


def groups(done: Collection[str]) -> list[list[str]]:
    """Return the study's arms that are not done, in groups of four."""
    lacking = [arm for arm in Configuration(Path()).arms("remedies") if arm not in done]
    return [lacking[place : place + 4] for place in range(0, len(lacking), 4)]


def least(output: Output, rate: str) -> list[tuple[object, ...]]:
    """Return the rows of a run in rates.csv."""
    run, commit = output.run, commit_of(output.run.digest)
    points = pd.DataFrame(rows(output, commit), columns=COLUMNS)
    points = points[~points["epoch"].isin(["", 0])].pivot(index="epoch", columns="metric", values="value").astype(float)
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
    chosen = own_rates()
    file = STORED / "own.csv"
    for seed in SEEDS:
        table = stored(file)
        for arms in groups(set(table[table["seed"] == str(seed)]["arm"])):
            for rate in sorted({chosen[arm] for arm in arms}):
                same = [arm for arm in arms if chosen[arm] == rate]
                collect("remedies/own", train(seed, same, f"training.learning_rate={rate}"), add=file.exists())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("rates", "own"))
    for part in parser.parse_args().parts:
        {"rates": rates, "own": own}[part]()


if __name__ == "__main__":
    main()
