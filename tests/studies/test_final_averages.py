"""Final averages: over the last share of training only, by run, compared between arms."""

from pathlib import Path

import pytest

from isoscope.studies.curves import averages, compared, curves
from penalty_material import EVERY, LEVELS, UPDATES, points


def test_averages_are_of_the_last_updates_and_evaluations(tmp_path: Path) -> None:
    table = points(tmp_path, sd=0.0)
    found = averages(table, last=0.3)
    for arm, level in LEVELS.items():
        rows = found[found["arm"] == f"additive-{arm}"].set_index(["figure", "seed"])
        assert rows.loc[("step/a_1", 0), "value"] == pytest.approx(level)
        assert rows.loc[("step/a_1", 0), "points"] == round(0.3 * UPDATES)
        assert rows.loc[("validation/accuracy", 1), "value"] == pytest.approx(0.8 + 0.1 * level)
        assert rows.loc[("validation/accuracy", 1), "points"] == round(0.3 * UPDATES / EVERY)
    whole = averages(table, last=1.0).set_index(["arm", "figure", "seed"])
    assert whole.loc[("additive-none", "step/a_1", 0), "value"] == pytest.approx((0.9 + 0.7) / 2)
    accuracy = whole.loc[("additive-none", "validation/accuracy", 0), "value"]
    assert accuracy == pytest.approx(0.8 + 0.1 * (0.9 + 0.7) / 2), "the score before the first update does not count"


def test_a_study_that_is_not_run_has_no_averages() -> None:
    assert averages(curves([]), last=0.3).empty


def test_arms_are_compared_in_the_figures_that_were_taken(tmp_path: Path) -> None:
    found = averages(points(tmp_path), last=0.3)
    against = dict.fromkeys(found["arm"], "additive-none")
    figures = ["validation/a_1", "step/a_1", "step/absent"]
    table = compared(found, figures, against=against, confidence=0.95, power=0.8)
    assert table["figure"].tolist() == ["validation/a_1"] * 2 + ["step/a_1"] * 2
    assert table["arm"].tolist() == ["additive-selected", "additive-all"] * 2
    first = table.iloc[0]
    assert first["reference"] == "additive-none"
    assert first["low"] < LEVELS["selected"] - LEVELS["none"] < first["high"] < 0
