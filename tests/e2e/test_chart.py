"""Arms over training, from runs with a penalty to the page, and the comparison with published values."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest

from finished_runs import write_metrics, write_run
from isoscope.notebook import load
from isoscope.platform.config.tree import dump_yaml, read_yaml
from pipeline_project import Finished, Project, written

ISOTROPY = """\
  isotropy:
    task: tiny
    settings: [shrink, small]
    axes:
      fusion: [additive]
      penalty: [none, selected]
    seeds: [0]
    kind: isotropy
"""
SWEEP = """\
  sweep:
    task: tiny
    settings: [shrink, small]
    axes:
      fusion: [additive]
      penalty: [selected, all]
      weight: [w0, w1, w10]
      fraction: [tenth, whole]
    seeds: [0, 1, 2]
    kind: isotropy
"""
WATCH = "watch: {layer: -1, vectors: first, sample: 20, clusters: 2}"


@pytest.fixture(scope="module")
def charted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A study of two penalties with one seed, trained and charted by commands."""
    project = finished.project.copy(tmp_path_factory.mktemp("charted") / "project", mirrored=False)
    project.edit("params.yaml", "comparisons:", ISOTROPY + "comparisons:")
    project.edit("params.yaml", "watch:", WATCH)
    for arm in ("additive-none", "additive-selected"):
        project.isoscope("train", "isotropy", arm, "--seed", "0")
    project.isoscope("analyse", "isotropy")
    return project


def test_every_table_and_picture_is_there(charted: Project) -> None:
    folder = charted.folder / "reports/parts/isotropy"
    tables = {path.stem for path in (folder / "tables").iterdir()}
    assert tables == {"averages", "courses", "differences", "doses", "metrics", "published", "seeds"}
    names = {path.stem for path in (folder / "figures").glob("*.svg")} - {"training", "confusion"}
    assert names == {"anisotropy", "task", "penalty", "explained", "bars", "trade-a_1", "trade-a_1_centred"}
    found = load("isotropy", project=charted.folder)
    assert names <= set(found.views)
    assert found.view("trade").values == ["a_1", "a_1_centred"]


def test_averages_are_of_what_training_wrote(charted: Project) -> None:
    means = pd.read_parquet(charted.folder / "reports/parts/isotropy/tables/averages.parquet")
    points = written(charted.folder / "models/isotropy/additive-selected/seed-0")["step/kept/class_0"]
    last = [value for _, value in points][-max(1, round(0.3 * len(points))) :]
    row = means[(means["arm"] == "additive-selected") & (means["figure"] == "step/kept/class_0")].iloc[0]
    assert row["value"] == pytest.approx(sum(last) / len(last))
    assert row["points"] == len(last)


def test_what_was_not_published_fails_nothing(charted: Project) -> None:
    shown = charted.isoscope("reproduce", "isotropy").out
    assert shown.splitlines()[-1] == "12 ours alone"
    cells = json.loads(charted.isoscope("reproduce", "isotropy", "--json").out)["cells"]
    assert {cell["arm"] for cell in cells} == {"additive-none", "additive-selected"}


def test_a_published_figure_that_is_missed_is_exit_code_1(charted: Project, tmp_path: Path) -> None:
    project = charted.copy(tmp_path / "project", mirrored=False)
    folder = project.folder / "reports/parts/isotropy/tables"
    cells = pd.read_parquet(folder / "published.parquet")
    cells.loc[0, ["published", "verdict", "reason"]] = 0.1, "fail", "further"
    cells.to_parquet(folder / "published.parquet")
    assert "1 fail" in project.isoscope("reproduce", "isotropy", code=1).out
    shutil.rmtree(folder)
    assert "run: isoscope analyse isotropy" in project.isoscope("reproduce", "isotropy", code=2).err


def test_the_page_shows_the_study(charted: Project) -> None:
    charted.isoscope("report")
    page = charted.text("reports/index.html")
    assert "How do the arms change during training?" in page
    assert "Published and own values" in page
    assert page.count("Differences at the end of training") == 3, "fold, caption and label"


def test_a_study_without_seeds_is_charted_empty(finished: Finished, tmp_path: Path) -> None:
    project = finished.project.copy(tmp_path / "project", mirrored=False)
    unseeded = ISOTROPY.replace("seeds: [0]", "seeds: []")
    project.edit("params.yaml", "comparisons:", unseeded + "comparisons:")
    project.isoscope("analyse", "isotropy")
    assert "no runs" in project.isoscope("reproduce", "isotropy").out
    shown = project.dvc("plots", "show", "reports/parts/isotropy/figures", "--out", str(tmp_path / "plots"))
    assert "isotropy" not in shown.err
    assert "nothing.svg" in (tmp_path / "plots/index.html").read_text("utf-8")
    project.isoscope("report")
    assert "How do the arms change during training?" not in project.text("reports/index.html")


def test_runs_that_are_missing_are_named(charted: Project, tmp_path: Path) -> None:
    project = charted.copy(tmp_path / "project", mirrored=False)
    project.run("rm", "-rf", str(project.folder / "models/isotropy/additive-none"))
    assert "models/isotropy/additive-none/seed-0" in project.isoscope("analyse", "isotropy", code=2).err


def test_a_sweep_is_compared_at_equal_effect_and_by_share_of_the_data(
    finished: Finished, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Write finished runs with given numbers: one penalty costs twice as much accuracy as the other."""
    project = finished.project.copy(tmp_path_factory.mktemp("swept") / "project", mirrored=False)
    project.edit("params.yaml", "comparisons:", SWEEP + "comparisons:")
    for penalty, cost in (("selected", 0.1), ("all", 0.2)):
        for place, weight in enumerate((0.0, 1.0, 10.0)):
            for fraction, share in (("tenth", 0.1), ("whole", 1.0)):
                for seed in range(3):
                    swept_run(project, penalty, weight, fraction, share, seed, a_1=0.9 - 0.2 * place, cost=cost)
    project.isoscope("analyse", "sweep")
    folder = project.folder / "reports/parts/sweep"
    equal = pd.read_parquet(folder / "tables/equal.parquet")
    whole = equal[equal["reference"] == "additive-selected-whole"]
    assert set(whole["arm"]) == {"additive-all-whole"}
    assert set(equal["reference"]) == {"additive-selected-whole", "additive-selected-tenth"}
    at_a_1 = whole[whole["figure"].str.startswith("validation/accuracy where validation/a_1 is")]
    assert at_a_1["difference"].tolist() == pytest.approx([-0.1 * (0.9 - a_1) for a_1 in (0.6, 0.7, 0.8)], abs=2e-3)
    table = pd.read_parquet(folder / "tables/differences.parquet")
    assert set(table["arm"] + table["reference"].str[-len("w0-whole") :].str[:2]) == {
        f"additive-{penalty}-{weight}-{share}w0"
        for penalty in ("selected", "all")
        for weight in ("w1", "w10")
        for share in ("tenth", "whole")
    }
    assert {"fractions", "trade-a_1"} <= {path.stem for path in (folder / "figures").glob("*.svg")}


def swept_run(
    project: Project, penalty: str, weight: float, fraction: str, share: float, seed: int, *, a_1: float, cost: float
) -> None:
    """Write a finished run: its accuracy falls by `cost` times the decrease of a_1."""
    axes = {"fusion": "additive", "penalty": penalty, "weight": f"w{weight:g}", "fraction": fraction}
    arm = "-".join(axes.values())
    folder = write_run(project.folder / "models", arm, seed, study="sweep", task="tiny", items=40)
    config = read_yaml(folder, Path("config.yaml"))
    config["inputs"] = read_yaml(project.output("additive"), Path("config.yaml"))["inputs"]
    config["axes"] = axes
    config["params"] |= {"penalty": {"kind": "persistent_entropy", "weight": weight}}
    config["params"]["model"] = {"encoder": {"kind": "scratch"}, "fusion": {"kind": "additive"}}
    config["params"]["training"] = {"fraction": share, "batch_size": 64, "epochs": 10}
    (folder / "config.yaml").write_text(dump_yaml(config), "utf-8")
    own = 1e-3 * seed
    figures = {"a_1": a_1, "a_1_centred": a_1, "accuracy": 0.8 + 0.1 * share - cost * (0.9 - a_1) + own}
    lines = [
        {"name": f"validation/{name}", "value": value, "step": 10, "epoch": None} for name, value in figures.items()
    ]
    lines.append({"name": "step/penalty_gradient_norm", "value": 0.01 * weight, "step": 10, "epoch": None})
    recorded = [json.loads(line) for line in (folder / "metrics.jsonl").read_text("utf-8").splitlines()]
    write_metrics(folder, [*lines, *(one for one in recorded if one["name"].startswith("test/"))])
