"""Collect what was measured inside the runs of a study; run it at the root of a project after `isoscope repro`.

`python docs/results/remedies_inside.py` reads reports/parts/remedies/tables/*.parquet and writes
docs/results/remedies/inside.csv: digest, arm, seed, when (start: before training, or chosen), part (of the embedding
block, or layer), metric, value.

word, position, word_control, position_control    shares of tokens that a linear map reads, and its control
flatness, dead                                    of spectra: geometric by arithmetic mean of power; share almost zero
gradient                                          √(mean square of the norm of a batch's gradient) of a table
entropy, distance, itself                         of attention: means over heads; distance in tokens
a_1_centred, effective_rank, avg_sim              of vectors of [CLS]
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from isoscope.platform.outputs import read_output

GEOMETRY = ("a_1_centred", "effective_rank", "avg_sim")
ATTENTION = ("entropy", "distance", "itself")
WHO = ["arm", "seed", "when"]


def moments(table: pd.DataFrame) -> Iterator[pd.DataFrame]:
    """Yield the rows of each run before training and at its chosen snapshot; a random twin has no step."""
    yield table[table["step"] == 0].assign(when="start")
    yield table[table["step"].notna() & table["best"]].assign(when="chosen")


def measured(folder: Path) -> Iterator[pd.DataFrame]:
    """Yield rows of inside.csv, from the study's tables."""
    for one in moments(pd.read_parquet(folder / "decoding.parquet")):
        yield one.assign(metric=one["read"], value=one["rate"])
        yield one.assign(metric=one["read"] + "_control", value=one["control"])
    for one in moments(pd.read_parquet(folder / "spectrum.parquet")):
        yield from (one.assign(metric=name, value=one[name]) for name in ("flatness", "dead"))
    for one in moments(pd.read_parquet(folder / "gradients.parquet")):
        tables = one[one["part"].isin(["word", "position"])]
        yield tables.assign(metric="gradient", value=(tables["mean"] + tables["variance"]) ** 0.5)
    for one in moments(pd.read_parquet(folder / "attention.parquet")):
        heads = one.groupby([*WHO, "layer"], as_index=False)[list(ATTENTION)].mean()
        heads = heads.assign(part="layer " + heads["layer"].astype(str))
        yield from (heads.assign(metric=name, value=heads[name]) for name in ATTENTION)
    for one in moments(pd.read_parquet(folder / "geometry.parquet")):
        own = one[(one["vectors"] == "first") & one["figure"].isin(GEOMETRY)].dropna(subset="value")
        yield own.assign(metric=own["figure"], part="layer " + own["layer"].astype(str))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", default="remedies", help="name in params.yaml (default: remedies)")
    parser.add_argument("--to", type=Path, default=Path(), help="checkout to write to (default: the current folder)")
    arguments = parser.parse_args()
    target = arguments.to / "docs/results/remedies/inside.csv"
    table = pd.concat(measured(Path(f"reports/parts/{arguments.study}/tables")), ignore_index=True)
    digests = {
        (arm, seed): read_output(Path("models", arguments.study, arm, f"seed-{seed}")).run.digest[:12]
        for arm, seed in table[["arm", "seed"]].drop_duplicates().itertuples(index=False)
    }
    table["digest"] = [digests[who] for who in zip(table["arm"], table["seed"], strict=True)]
    table = table[["digest", *WHO, "part", "metric", "value"]].sort_values([*WHO, "metric", "part"], kind="stable")
    table.to_csv(target, index=False, lineterminator="\n", float_format="%.6g")
    print(f"{target}: {len(table)} rows")


if __name__ == "__main__":
    main()
