"""A study with objective, observer and view from one plugin needs an entry in params.yaml and an overlay."""

import json
import re
import shutil
import sys

import numpy as np
import pytest

from isoscope.platform.config.profiles import laid_over
from isoscope.platform.config.tree import parse_yaml
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
    params = laid_over(project.text("params.yaml"), parse_yaml(SEARCH, "search"))
    (project.folder / "params.yaml").write_text(params, "utf-8")
    done = project.isoscope("search", "run", code=2)
    assert "search: validation/rmse is maximised, but its objective declares 'minimise'" in done.err
    assert "Traceback" not in done.err
    project.edit("params.yaml", "study: lengths", "study: fusion")
    project.edit("params.yaml", "validation/rmse: maximise", "validation/loss: maximise")
    done = project.isoscope("search", "run", code=2)
    assert "search: validation/loss is maximised, but its objective declares 'minimise'" in done.err
