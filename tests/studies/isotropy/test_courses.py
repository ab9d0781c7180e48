"""Arms over training: lines are means, bands are sd, and long curves are averaged, not subsampled."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection

from isoscope.platform.figures.style import to_svg
from isoscope.studies.curves import averages, thinned
from isoscope.studies.isotropy.courses import course, trade
from penalty_material import LEVELS, points


def test_a_panel_per_figure_and_a_line_per_arm(tmp_path: Path) -> None:
    table = points(tmp_path)
    figure = course(table, {"step/a_1": "One", "validation/accuracy": "Two", "step/absent": "Three"})
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title(loc="left") for axes in shown] == ["One", "Two"]
    rows = table[(table["metric"] == "step/a_1") & (table["arm"] == "additive-all")]
    means = rows.groupby("step")["value"].agg(["mean", "std"])
    line = shown[0].lines[2]
    np.testing.assert_allclose(line.get_xdata(), means.index)
    np.testing.assert_allclose(line.get_ydata(), means["mean"])
    band = [area for area in shown[0].collections if isinstance(area, PolyCollection)][2]
    assert band.get_paths()[0].vertices[:, 1].max() == pytest.approx((means["mean"] + means["std"]).max())
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [f"additive-{arm}, n = 3 seeds" for arm in LEVELS]


def test_an_arm_without_a_figure_has_no_line_there(tmp_path: Path) -> None:
    figure = course(points(tmp_path), {"step/kept/class_0": "Kept"})
    assert [len(line.get_xdata()) > 0 for line in figure.axes[0].lines] == [False, True, True]


def test_long_curves_are_averaged_over_spans() -> None:
    steps = np.arange(1, 251)
    named = {"arm": "a", "metric": "step/a_1", "seed": 0}
    rows = pd.DataFrame({**named, "step": steps, "value": steps.astype(float)})
    found = thinned(rows, most=50)
    assert len(found) == 50
    assert found["step"].tolist() == list(range(5, 251, 5))
    assert found["value"].tolist() == [step - 2.0 for step in range(5, 251, 5)]
    assert found["value"].mean() == rows["value"].mean()
    assert len(thinned(rows.head(50), most=50)) == 50


def test_the_trade_shows_runs_and_means(tmp_path: Path) -> None:
    means = averages(points(tmp_path), last=0.3)
    weights = {f"additive-{arm}": (arm, 0.0) for arm in LEVELS}
    figure = trade(means, across="validation/a_1", up="validation/accuracy", labels=("x", "y"), weights=weights)
    axes = figure.axes[0]
    runs = [line for line in axes.lines if len(line.get_xdata()) == 3]
    centres = [container.lines[0] for container in axes.containers]
    assert len(runs) == len(centres) == 3
    for one, centre in zip(runs, centres, strict=True):
        assert float(centre.get_xdata()[0]) == pytest.approx(np.mean(one.get_xdata()))
        assert float(centre.get_ydata()[0]) == pytest.approx(np.mean(one.get_ydata()))


def test_what_was_not_measured_is_refused(tmp_path: Path) -> None:
    table = points(tmp_path, seeds=1, arms=("none",))
    with pytest.raises(ValueError, match="none of these was measured: step/absent"):
        course(table, {"step/absent": "Absent"})
    means = averages(table, last=0.5)
    with pytest.raises(ValueError, match="none of these was measured: validation/absent"):
        trade(means, across="validation/absent", up="validation/accuracy", labels=("", ""), weights={})


def test_arms_that_differ_in_weight_alone_are_a_line_with_their_weights_beside_it(tmp_path: Path) -> None:
    means = averages(points(tmp_path), last=0.3)
    weights = {"additive-none": ("one", 10.0), "additive-selected": ("other", 1.0), "additive-all": ("one", 0.0)}
    figure = trade(means, across="validation/a_1", up="validation/accuracy", labels=("x", "y"), weights=weights)
    axes = figure.axes[0]
    assert [text.get_text() for text in axes.texts] == ["0", "10"]
    (line,) = [line for line in axes.lines if line.get_linewidth() == 0.8]
    ends = means[means["figure"] == "validation/a_1"].groupby("arm")["value"].mean()
    assert line.get_xdata().tolist() == pytest.approx([ends["additive-all"], ends["additive-none"]])
    assert len({line.get_color() for line in axes.lines if len(line.get_xdata()) == 3}) == 2
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == ["one, n = 3 seeds", "other, n = 3 seeds"]


def test_equal_tables_give_equal_pictures(tmp_path: Path) -> None:
    one, other = (points(tmp_path / name) for name in "ab")
    assert to_svg(course(one, {"step/a_1": "One"})) == to_svg(course(other, {"step/a_1": "One"}))
