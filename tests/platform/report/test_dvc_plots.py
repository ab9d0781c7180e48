"""`dvc plots` of a study's tables, drawn by the vendored scripts in a browser without network."""

import csv
import hashlib
import json
import re
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from playwright.sync_api import Locator

from browser import opened
from finished_runs import of_runs, tables_of, write_run
from isoscope.platform.figures.style import ARM_COLOURS
from isoscope.platform.results.study_tables import write_tables

PLOTS = Path(__file__).parents[3] / ".dvc" / "plots"
DVC_YAML = """\
stages:
  analyse:
    cmd: cp made/*.* .
    deps: [made]
    plots:
      - curves.csv:
          cache: false
          template: arms
          x: epoch
          y: mean
          title: Accuracy and loss
      - confusion.csv:
          cache: false
          template: confusion_arms
          x: predicted
          y: actual
          title: Predicted and actual class
      - layers.csv:
          cache: false
          template: layers
          x: step
          y: layer
          title: Geometry of [CLS]
      - predictions.csv:
          cache: false
          template: confusion
          x: predicted
          y: actual
"""


STEPS, LAYERS = (0, 1, 2, 16, 128), (0, 1, 2, 10)
"""Neither is in order when read as text."""
FIGURES, DEGENERATE = ("linear_separability", "a_1_centred"), ("additive", 0)


def run(folder: Path, *command: str) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def dvc(folder: Path, *arguments: str) -> str:
    return run(folder, sys.executable, "-m", "dvc", *arguments)


def write_study(folder: Path, runs: Path, accuracy: float) -> None:
    arms = {"additive": accuracy, "conv2d": accuracy - 0.05, "fft": accuracy - 0.15}
    folders = [write_run(runs, arm, seed, accuracy=value) for arm, value in arms.items() for seed in range(3)]
    made = tables_of("fusion", of_runs(folders))
    write_tables(folder, made)
    rows = [(row.actual, row.predicted) for row in made.by_name["confusion"].itertuples() for _ in range(row.count)]
    with (folder / "layers.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("metric", "arm", "layer", "step", "mean", "sd", "n"))
        for number, (figure, arm, step, layer) in enumerate(product(FIGURES, ("fft", "additive"), STEPS, LAYERS)):
            writer.writerow((figure, arm, layer, step, "" if (arm, layer) == DEGENERATE else number / 100, 0.1, 3))
    with (folder / "predictions.csv").open("w", newline="") as file:
        csv.writer(file).writerows([("actual", "predicted"), *rows])


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with two versions of a study's tables; the second is not committed."""
    folder, runs = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("runs")
    run(folder, "git", "init", "-q")
    dvc(folder, "init", "-q")
    shutil.copytree(PLOTS, folder / ".dvc" / "plots")
    dvc(folder, "config", "plots.html_template", "plots/offline.html")
    (folder / "dvc.yaml").write_text(DVC_YAML)
    write_study(folder / "made", runs / "first", 0.8)
    dvc(folder, "repro", "-q")
    run(folder, "git", "add", ".")
    run(folder, "git", "commit", "-q", "-m", "first")
    write_study(folder / "made", runs / "second", 0.9)
    dvc(folder, "repro", "-q")
    return folder


def test_scripts_are_the_files_they_say() -> None:
    page = (PLOTS / "offline.html").read_text("utf-8")
    scripts = re.findall(r'<script data-from="npm (\S+) \S+" data-sha256="(\w{64})">(.*?)</script>', page, re.DOTALL)
    assert [name.split("@")[0] for name, _, _ in scripts] == ["vega", "vega-lite", "vega-embed"]
    for name, sha256, text in scripts:
        assert hashlib.sha256(text.encode()).hexdigest() == sha256, name
        assert re.search(rf"\b{name.replace('@', ' ')}\b", (PLOTS / "LICENSES.txt").read_text()), name
    assert (PLOTS / "offline.html").stat().st_size < 1_000_000


def test_arms_have_the_colours_of_the_figures() -> None:
    template = json.loads((PLOTS / "arms.json").read_text())
    assert tuple(template["spec"]["encoding"]["color"]["scale"]["range"]) == ARM_COLOURS


@pytest.mark.chromium
@pytest.mark.parametrize("command, revisions", [(("show",), 1), (("diff", "HEAD"), 2)])
def test_plots_are_drawn_without_a_network(
    project: Path, tmp_path: Path, command: tuple[str, ...], revisions: int
) -> None:
    dvc(project, "plots", *command, "-o", str(tmp_path / "plots"))
    with opened(tmp_path / "plots" / "index.html", width=1600) as seen:
        names = ("curves", "confusion", "layers", "predictions")
        assert seen.page.locator("body > div").count() == len(names)
        drawn = {name: seen.page.locator(f"#{name}_csv svg.marks") for name in names}
        for plot in drawn.values():
            plot.wait_for(timeout=300_000)
        # 2 panels × 3 arms × train and validation, and a band for each.
        assert drawn["curves"].locator(".mark-line path").count() == 12 * revisions
        assert drawn["curves"].locator(".mark-area path").count() == 12 * revisions
        cells = drawn["confusion"].locator(".mark-text text").filter(has_text=re.compile(r"^[01]\.\d\d \(\d+\)$"))
        assert cells.count() == 3 * 4 * revisions
        assert drawn["predictions"].locator(".mark-rect path").count() > 0
        assert drawn["layers"].locator(".mark-rect path").count() > 0
        panels = drawn["curves"].locator(".cell > g")
        titles = [check_panel(panels.nth(index)) for index in range(panels.count())]
        revs = ["workspace", "HEAD"][:revisions]
        assert titles == [f"{rev}: {quantity}" for rev in revs for quantity in ("accuracy", "loss")]
        assert seen.requests == []
        assert seen.complaints == []


def check_panel(panel: Locator) -> str:
    """A panel's title, which its points must bear out (Vega-Lite can put titles over other panels' points)."""
    title = panel.locator(".role-title text").first.text_content() or ""
    rev, quantity = title.split(": ")
    spoken = [point.get_attribute("aria-label") or "" for point in panel.locator(".mark-symbol path").all()]
    points = [label for label in spoken if label.startswith("epoch: ")]
    assert len(points) == 3 * 9  # validation from epoch 0, train from 1
    assert all(f"rev: {rev};" in label and f"/{quantity};" in label for label in points)
    return title
