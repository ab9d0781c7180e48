"""A page that is older than params.yaml, or lacks a stage, says so on the first screen."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from isoscope.config.project import Study
from isoscope.report.completeness import lacking
from isoscope.runs.lines import Run, RunRecord
from report_material import Material

ARMS = ("additive", "conv2d_identity", "fft")
PARAMS = {
    "training.epochs": 8,
    "training.device": "cpu",
    "model.fusion.kernel_size": [3, 3],
    "objective.tokenize": "zh",
}


def study(**changed: Any) -> Study:
    given = {"task": "order", "settings": [], "axes": {"fusion": list(ARMS)}, "seeds": [0, 1, 2], "looks": []}
    return Study(**given | changed)


def found(material: Material, folder: Path, arms: Any = ARMS, *, now: Any = PARAMS, **changed: Any) -> list[str]:
    """What the part of the material lacks of a study, whose runs all have the parameters `PARAMS`."""
    (tables,) = material.studies
    records = {run.digest: RunRecord(Run(0, run.digest, "train", params=PARAMS)) for run in tables.runs}
    return lacking(tables, study(**changed), dict.fromkeys(arms, now), records, folder)


def test_a_complete_part_lacks_nothing(material: Material, tmp_path: Path) -> None:
    assert found(material, tmp_path) == []
    assert found(material, tmp_path, now=PARAMS | {"objective.tokenize": None}) == []  # decided by the task
    assert found(material, tmp_path, now=PARAMS | {"objective.tokenize": "char"}) != []


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"seeds": [0, 1, 2, 3]}, "3 runs are missing: additive seed 3, conv2d_identity seed 3, fft seed 3"),
        ({"arms": (*ARMS, "spectrum")}, "3 runs are missing: spectrum seed 0, spectrum seed 1, spectrum seed 2"),
        ({"seeds": [0, 1]}, "3 runs are not in params.yaml: additive seed 2, conv2d_identity seed 2, fft seed 2"),
        ({"arms": ARMS[:2]}, "3 runs are not in params.yaml: fft seed 0, fft seed 1, fft seed 2"),
        ({"now": PARAMS | {"training.epochs": 9}}, "and 6 more (training.epochs)"),
        ({"now": PARAMS | {"model.fusion.kernel_size": [5, 5]}}, "and 6 more (model.fusion.kernel_size)"),
        ({"looks": ["inside"]}, "isoscope explore has not run"),
        ({"looks": ["chart"]}, "isoscope chart has not run"),
    ],
)
def test_what_is_missing_or_older_is_named(
    material: Material, tmp_path: Path, changed: dict[str, Any], said: str
) -> None:
    (sentence,) = found(material, tmp_path, **changed)
    assert said in sentence


@pytest.mark.parametrize(
    "now", [PARAMS | {"training.device": "cuda"}, PARAMS | {"training.new": 1}, {}], ids=["device", "new", "none"]
)
def test_what_changes_no_number_is_not_named(material: Material, tmp_path: Path, now: dict[str, Any]) -> None:
    assert found(material, tmp_path, now=now) == []


def test_a_chart_of_fewer_runs_is_named(material: Material, tmp_path: Path) -> None:
    (tmp_path / "chart").mkdir()
    rows = [{"arm": arm, "seed": seed} for arm in ARMS for seed in (0, 1)]
    pd.DataFrame(rows).to_parquet(tmp_path / "chart/averages.parquet")
    (sentence,) = found(material, tmp_path, looks=["chart"])
    assert sentence.startswith("isoscope chart: 3 runs are missing: additive seed 2")


def test_the_first_screen_says_it(material: Material) -> None:
    said = "3 runs are missing: fft seed 3"
    page = material.page(lacks={"fusion": [said]})
    assert page.index(said) < page.index('id="study-fusion"')
    assert "This part is not what params.yaml asks for." in page
    assert "This part is not what params.yaml asks for." not in material.page()
