"""`isoscope tables`: the tables of a study as files, and the data of its runs."""

import json
from pathlib import Path

import pandas as pd

import isoscope
from pipeline_project import ARMS, Finished


def test_files_are_the_tables_of_the_notebook_and_the_metrics_of_the_runs(finished: Finished, tmp_path: Path) -> None:
    project, to = finished.project, tmp_path / "page/own"
    said = json.loads(project.isoscope("tables", "fusion", "--to", str(to), "--json").out)
    study = isoscope.load("fusion", project=project.folder)
    names = {*(f"{name}.csv" for name in study.tables), "runs.csv", "items.parquet"}
    assert {path.name for path in to.iterdir()} == names == {Path(file).name for file in said["files"]}
    bands = study.table("bands")
    stored = pd.read_csv(to / "bands.csv")
    assert stored["mean"].tolist() == bands["mean"].tolist(), "all digits"
    runs = pd.read_csv(to / "runs.csv", dtype={"digest": str})
    manifest = json.loads((project.folder / "data/processed/tiny/manifest.json").read_text("utf-8"))
    known = {(name, f"test/{metric}"): value for name, of in manifest["baselines"].items()
             for metric, value in of["test"].items() if metric != "n"}  # fmt: skip
    of_baselines = runs[runs["seed"].isna()]
    assert of_baselines.set_index(["arm", "metric"])["value"].to_dict() == known
    assert known
    runs = runs.dropna(subset="seed")
    assert runs["arm"].unique().tolist() == [*ARMS]
    logged = [json.loads(line) for line in (project.output("conv2d") / "metrics.jsonl").read_text().splitlines()]
    expected = {one["value"] for one in logged if one["name"] == "test/accuracy"}
    assert {*runs.query("arm == 'conv2d' and metric == 'test/accuracy'")["value"]} == expected
    assert set(runs["digest"]) == {project.digest(arm)[:12] for arm in ARMS}
    correct = pd.read_parquet(to / "items.parquet")["conv2d/0"]
    assert {correct.mean()} == expected


def test_an_unknown_name_is_one_line(finished: Finished, tmp_path: Path) -> None:
    refused = finished.project.isoscope("tables", "fusio", "--to", str(tmp_path / "x"), code=2)
    assert refused.err.count("\n") == 1
    assert "did you mean 'fusion'" in refused.err
    assert not (tmp_path / "x").exists()
