"""Arms over training, from runs with a penalty to the page, and the comparison with published values."""

import json
from pathlib import Path

import pandas as pd
import pytest

from finished_runs import write_metrics, write_run
from isoscope.notebook import load
from isoscope.platform.config.tree import dump_yaml, read_yaml
from pipeline_project import Finished, Project

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


def test_every_table_and_picture_is_there_and_on_the_page(charted: Project) -> None:
    folder = charted.folder / "reports/parts/isotropy"
    tables = {path.stem for path in (folder / "tables").iterdir()}
    assert tables == {"averages", "courses", "differences", "doses", "metrics", "published", "seeds"}
    names = {path.stem for path in (folder / "figures").glob("*.svg")} - {"training", "confusion"}
    assert names == {"anisotropy", "task", "penalty", "explained", "bars", "trade-a_1", "trade-a_1_centred"}
    found = load("isotropy", project=charted.folder)
    assert names <= set(found.views)
    assert found.view("trade").values == ["a_1", "a_1_centred"]
    charted.isoscope("report")
    for text in ("How do the arms change during training?", "Published and own values"):
        assert text in charted.text("reports/index.html")


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
