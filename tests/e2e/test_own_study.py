"""Further studies: an entry in params.yaml and overlays, with a plugin, with penalties, and what is made of them."""

import json
import re
import shutil
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from finished_runs import write_metrics, write_run
from isoscope.notebook import load
from isoscope.platform.config.tree import dump_yaml, read_yaml
from pipeline_project import ROOT, Finished, Project, written

OVERLAY = """\
objective: {kind: piece_length}
observers:
  norms: {kind: norms, every: 2}
training: {select: rmse, keep: all}
"""
STUDY = """\
studies:
  lengths:
    task: tiny
    settings: [lengths]
    axes: {fusion: [additive, conv2d]}
    seeds: [0, 1, 2]
    kind: arms
"""


@pytest.fixture(scope="module")
def project(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The small project, with a second study that nothing but params.yaml and an overlay describe."""
    found = finished.project.copy(tmp_path_factory.mktemp("own") / "project", mirrored=False)
    shutil.copy(ROOT / "docs/examples/piece_length.py", found.folder / "plugins")
    (found.folder / "variants/settings/lengths.yaml").write_text(OVERLAY, "utf-8")
    found.edit("params.yaml", "plugins: []", "plugins: [plugins/piece_length.py]")
    found.edit("params.yaml", "studies:\n", STUDY)
    return found


def test_it_is_trained_compared_reported_and_in_the_notebook(project: Project) -> None:
    before = project.digest("additive")
    done = project.isoscope("repro", "report", "train@lengths", "analyse@lengths")
    assert "train@lengths" in done.ran
    assert project.digest("additive") == before, "the plugin is no part of a run that does not use it"
    assert len(project.records()[before].attempts) == 1
    runs = sorted(project.folder.glob("models/lengths/*/seed-*"))
    assert len(runs) == 6
    for run in runs:
        points = written(run)
        assert points["test/rmse"][-1][1] == pytest.approx(points["test/loss"][-1][1] ** 0.5)
        assert points["step/word_gradient_mean"]
        assert "test/accuracy" not in points
    page = (project.folder / "reports/index.html").read_text("utf-8")
    (section,) = re.findall(r'<h2 id="study-lengths">Study lengths</h2>.*?</section>', page, re.DOTALL)
    assert "Root mean squared error of a token's length" in section.replace("&#39;", "'")
    title = "Error of a token&#39;s length (characters)"
    assert re.search(re.escape(title) + r", conv2d against additive: [a-z ]+, [+−]\d\.\d{3} \[", section)
    assert "no interval over test items" in section
    assert json.loads((runs[0] / "objective.json").read_text("utf-8"))["metrics"] == [
        {"name": name, "better": "minimise", "low": 0.0, "high": None} for name in ("rmse", "loss")
    ]
    means = {
        arm: np.mean([written(run)["test/rmse"][-1][1] for run in runs if run.parent.name == arm])
        for arm in ("additive", "conv2d")
    }
    assert f"Lowest mean, {title}: {min(means, key=means.__getitem__)}, " in page
    (other,) = re.findall(r'<h2 id="study-fusion">Study fusion</h2>.*?</section>', page, re.DOTALL)
    assert "of a token" not in other
    code = "import isoscope; print(isoscope.load('lengths').view('length_error').caption())"
    assert "Root mean squared error" in project.run(sys.executable, "-c", code).out


SEARCH = """\
search:
  name: lengths
  study: lengths
  arm: additive
  settings: [best]
  seeds: [0]
  space: {training.learning_rate: {choices: [0.01]}}
  objectives: {validation/rmse: maximise}
  constraints: {}
  at: best
  budget: {trials: 2, hours: null}
  retries: 1
  sampler: {kind: random, seed: 5}
  pruner: {kind: none}
"""


def test_a_search_for_the_worse_direction_ends_with_one_line(project: Project) -> None:
    """Of a plugin the direction is known after the first run; of a built-in objective before it."""
    (project.folder / "variants/settings/best.yaml").write_text("training: {keep: best}\n", "utf-8")
    project.lay(SEARCH)
    done = project.isoscope("search", "run", code=2)  # it says how the run goes, too
    assert "search: validation/rmse is maximised, but its objective declares 'minimise'" in done.err
    assert "Traceback" not in done.err
    project.edit("params.yaml", "study: lengths", "study: fusion")
    project.edit("params.yaml", "validation/rmse: maximise", "validation/loss: maximise")
    line = project.refused("search", "run")
    assert "search: validation/loss is maximised, but its objective declares 'minimise'" in line


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
    assert tables == {"averages", "courses", "differences", "doses", "equal", "metrics", "published", "seeds"}
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
    at_a_1 = whole[whole["metric"].str.startswith("validation/accuracy where validation/a_1 is")]
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
