"""The committed per-run data behind the results pages."""

from pathlib import Path

import numpy as np
import pandas as pd

from isoscope.metrics.matrix_scores import SCORES, constant_scores, pseudo_values
from isoscope.metrics.regression_scores import by_item as of_scores

HERE = Path(__file__).parent


def stored(name: str) -> pd.DataFrame:
    """Return a CSV or parquet file of a page, such as `fusion/own.csv`."""
    file = HERE / name
    if file.suffix == ".parquet":
        return pd.read_parquet(file)
    return pd.read_csv(file, dtype={"digest": str, "commit": str, "arm": str})


def by_seed(name: str, metric: str = "test/accuracy") -> dict[str, dict[int, float]]:
    """Return arm → seed → value of a metric that each run has once; arms in the order of the file `<name>.csv`."""
    table = stored(f"{name}.csv")
    return seeds_of(table[(table["metric"] == metric) & table["seed"].notna()])


def seeds_of(rows: pd.DataFrame) -> dict[str, dict[int, float]]:
    """Return arm → seed → value of rows that each run has once; arms in the order of the rows."""
    if rows.duplicated(["arm", "seed"]).any():  # a later row would silently take the place of an earlier
        raise ValueError(f"two rows of one run: {rows[rows.duplicated(['arm', 'seed'])].iloc[0].to_dict()}")
    return {
        str(arm): dict(zip(own["seed"].astype(int), own["value"], strict=True))
        for arm, own in rows.groupby("arm", sort=False)
    }


def by_item(name: str, metric: str = "accuracy") -> dict[str, np.ndarray]:
    """Return `<arm>/<seed>` → each test item's share of a score, which average to it; empty if no item was kept.

    Files of older runs have no classes but whether each item was predicted correctly, so accuracy alone.
    """
    if not (HERE / f"{name}.parquet").exists():
        return {}
    table = stored(f"{name}.parquet")
    if "score" in table:
        true = table.pop("score").rename_axis("row").reset_index()
        return {str(run): of_scores(true.assign(predicted=own))[metric].shares for run, own in table.items()}
    if "label" in table:
        label, score = table.pop("label"), SCORES[metric]
        return {str(run): pseudo_values(score, label, own, label.max() + 1) for run, own in table.items()}
    return {str(run): correct.to_numpy(dtype=float) for run, correct in table.items()}


def constant(name: str, metric: str) -> float | None:
    """Return the best score of a prediction that is the same for all test items; None if no classes were kept."""
    if not (HERE / f"{name}.parquet").exists() or "label" not in (table := stored(f"{name}.parquet")):
        return None
    return constant_scores(table["label"], table["label"].max() + 1)[metric]
