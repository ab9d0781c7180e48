"""Arms over training, from runs with a penalty to the page; and published figures held against them."""

import json
from pathlib import Path

import pandas as pd
import pytest

from pipeline_project import Finished, Project, written

WATCH = "watch: {layer: -1, vectors: first, sample: 20, clusters: 2}"


@pytest.fixture(scope="module")
def charted(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A study of two penalties with one seed, trained and charted by hand."""
    project = finished.project.copy(tmp_path_factory.mktemp("charted") / "project")
    for old, new in (
        ("fusion: []", "fusion: [additive]"),
        ("penalty: []", "penalty: [none, selected]"),
        ("    seeds: []", "    seeds: [0]"),
        ("watch: null", WATCH),
    ):
        project.edit("params.yaml", old, new)
    for arm in ("additive-none", "additive-selected"):
        project.isoscope("train", "isotropy", arm, "--seed", "0")
    project.isoscope("chart", "isotropy")
    return project


def test_every_table_and_picture_is_there(charted: Project) -> None:
    folder = charted.folder / "reports/isotropy"
    assert {path.name for path in (folder / "chart").iterdir()} == {
        "averages.parquet",
        "differences.parquet",
        "reproduction.json",
    }
    names = {path.stem for path in (folder / "charts").glob("*.svg")}
    assert names == {"anisotropy", "task", "penalty", "explained", "bars", "trade-a_1", "trade-a_1_centred"}


def test_averages_are_of_what_training_wrote(charted: Project) -> None:
    means = pd.read_parquet(charted.folder / "reports/isotropy/chart/averages.parquet")
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
    project = charted.copy(tmp_path / "project")
    file = project.folder / "reports/isotropy/chart/reproduction.json"
    cells = json.loads(file.read_text("utf-8"))
    cells[0] |= {"published": 0.1, "verdict": "fail", "reason": "further"}
    file.write_text(json.dumps(cells), "utf-8")
    assert "1 fail" in project.isoscope("reproduce", "isotropy", code=1).out
    file.unlink()
    assert "run: isoscope repro" in project.isoscope("reproduce", "isotropy", code=2).err


def test_the_page_shows_the_study(charted: Project) -> None:
    charted.isoscope("analyse", "isotropy")
    charted.isoscope("report")
    page = charted.text("reports/index.html")
    assert "Over training" in page
    assert "Published figures beside ours" in page
    assert page.count("Differences at the end of training") == 2, "caption and label"


def test_a_study_without_seeds_is_charted_empty(finished: Finished, tmp_path: Path) -> None:
    project = finished.project.copy(tmp_path / "project")
    project.isoscope("chart", "isotropy")
    project.isoscope("analyse", "isotropy")
    assert "no runs" in project.isoscope("reproduce", "isotropy").out
    project.isoscope("report")
    assert "Over training" not in project.text("reports/index.html")


def test_runs_that_are_missing_are_named(charted: Project, tmp_path: Path) -> None:
    project = charted.copy(tmp_path / "project")
    project.run("rm", "-rf", str(project.folder / "models/isotropy/additive-none"))
    assert "models/isotropy/additive-none/seed-0" in project.isoscope("chart", "isotropy", code=2).err
