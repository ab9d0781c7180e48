"""The committed per-run data behind the results pages."""

from pathlib import Path

import numpy as np
import pandas as pd

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
    return {
        str(arm): dict(zip(own["seed"].astype(int), own["value"], strict=True))
        for arm, own in rows.groupby("arm", sort=False)
    }


def by_item(name: str) -> dict[str, np.ndarray]:
    """Return `<arm>/<seed>` → whether each test item was predicted correctly; empty if predictions were not kept."""
    if not (HERE / f"{name}.parquet").exists():
        return {}
    return {str(run): correct.to_numpy(dtype=float) for run, correct in stored(f"{name}.parquet").items()}
