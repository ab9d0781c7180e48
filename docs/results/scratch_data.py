"""Add the finished runs of a project to the per-run data of scratch.md.

    isoscope analyse fusion && isoscope tables fusion --to TABLES
    python docs/results/scratch_data.py PROJECT TABLES

Runs that are there already are replaced; others stay, so seeds may come from several projects. The last snapshot of
each run is scored on the validation split by `isoscope evaluate`.
"""

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
from per_run import HERE

from isoscope.studies.curves import curves

DATA = HERE / "scratch"
FIGURES = ("metrics", "planes", "frames", "map", "probing", "phases", "baselines", "cosine_maps", "dimensions")
"""Tables of the figures, of seed 0."""
TEXT = {"digest": str, "commit": str}
SCORES = ("train/loss", "train/accuracy")
"""Metrics of each epoch that `runs.csv` of `isoscope tables` does not have."""


def add_rows(rows: pd.DataFrame, name: str) -> None:
    """Add rows of runs to a CSV file in place of rows of the same runs; rows without a seed are the task's."""
    file, keys = DATA / name, ["arm", "seed"]
    found = [rows]
    if file.exists():
        former = pd.read_csv(file, dtype=TEXT)
        known = pd.MultiIndex.from_frame(rows[keys].astype({"seed": float}))
        found = [former[~pd.MultiIndex.from_frame(former[keys].astype({"seed": float})).isin(known)], rows]
    whole = pd.concat(found).sort_values(["seed"], kind="stable")
    whole.astype({one: "Int64" for one in ("seed", "epoch", "step", "layer") if one in whole}).to_csv(file, index=False)


def add_columns(table: pd.DataFrame, name: str) -> None:
    """Add columns of runs to a parquet file in place of columns of the same runs."""
    file = DATA / name
    former = pd.read_parquet(file).drop(columns=table.columns, errors="ignore") if file.exists() else pd.DataFrame()
    pd.concat([table, former], axis=1).to_parquet(file, index=False)


def course(tables: Path) -> pd.DataFrame:
    """Return the separability of the label in [CLS] by run, layer and epoch, with the phase, and chance."""
    geometry, phases = pd.read_csv(tables / "geometry.csv"), pd.read_csv(tables / "phases.csv")
    rows = geometry[(geometry["metric"] == "linear_separability") & (geometry["vectors"] == "first")]
    rows = rows[rows["step"].notna()].merge(phases, on=["arm", "seed", "snapshot"])
    (chance,) = {*pd.read_csv(tables / "baselines.csv").query("task == 'label'")["chance"]}
    columns = ["arm", "seed", "epoch", "layer", "best", "value", "phase"]
    return rows[columns].rename(columns={"value": "separability"}).assign(chance=chance)


def at_the_end(project: Path, run: Path) -> pd.DataFrame:
    """Return the class of each validation sentence (`label`), and what the last snapshot of a run predicts."""
    steps = {int(one.name.removeprefix("step-")): one for one in (run / "snapshots").glob("step-*")}
    (data,) = (project / "data/processed").glob("*/validation.parquet")
    with tempfile.TemporaryDirectory() as name:
        command = ("evaluate", steps[max(steps)], "--text", data, "--labels", "label", "--out", name)
        subprocess.run([sys.executable, "-m", "isoscope", *map(str, command)], check=True)
        found = pd.read_parquet(Path(name) / "predictions.parquet").set_index("row").sort_index()
    called = f"{run.parent.name}/{run.name.removeprefix('seed-')}"
    return found[["label", "predicted"]].rename(columns={"predicted": called})


def keep_figures(tables: Path) -> None:
    """Keep the tables of the figures, unless the project lacks an arm that they show: some show all arms at once.

    Coordinates have three decimals and cosines half precision, finer than they are drawn.
    """
    former, folder = DATA / "figures/frames.parquet", DATA / "figures"
    shown = {*pd.read_parquet(former)["arm"]} if former.exists() else set()
    if not shown <= {*pd.read_parquet(tables / former.name).query("seed == 0")["arm"]}:
        return
    for name in FIGURES:
        table = pd.read_parquet(tables / f"{name}.parquet")
        if name == "planes":
            table = table.round({"pc1": 3, "pc2": 3})
        if name == "cosine_maps":
            table["cosines"] = [row.astype(np.float16) for row in table["cosines"]]
        table.to_parquet(folder / f"{name}.parquet", compression="zstd", index=False)


def main(project: Path, tables: Path) -> None:
    """Add the runs of `project` whose tables are in `tables`."""
    (DATA / "figures").mkdir(parents=True, exist_ok=True)
    runs, folders = pd.read_csv(tables / "runs.csv", dtype=TEXT), sorted((project / "models/fusion").glob("*/seed-*"))
    trained = curves(folders).query("metric in @SCORES").drop(columns="study")
    named = runs[["digest", "commit", "arm", "seed"]].drop_duplicates()
    add_rows(pd.concat([runs, trained.merge(named, on=["arm", "seed"])]), "runs.csv")
    add_columns(pd.read_parquet(tables / "predictions.parquet"), "runs.parquet")
    cosines = pd.read_csv(tables / "cosines.csv").query("best and part == 'normed'")
    add_rows(cosines[["arm", "seed", "pairs", "cosine", "n"]], "cosines.csv")
    add_rows(course(tables), "course.csv")
    for run in folders:
        add_columns(at_the_end(project, run), "last.parquet")
    keep_figures(project / "reports/parts/fusion/tables")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
