"""Curves of the geometry table: means and sd over seeds, the noise level, and no line without geometry."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.trajectories import geometry_curves

Table = Callable[..., pd.DataFrame]


def lines(axes: Axes, kind: str) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(one.get_xdata()), np.asarray(one.get_ydata())) for one in axes.lines if one.get_gid() == kind]


def test_lines_are_the_means_and_bands_the_sd(geometry: Table) -> None:
    table = geometry(figures=("avg_sim", "a_1"))
    table = table[table["layer"] > 0]
    figure = geometry_curves(table, ["avg_sim", "a_1"])
    panels = iter(figure.axes)
    for name in ("avg_sim", "a_1"):
        for layer in (1, 2):
            axes = next(panels)
            bands = [area for area in axes.collections if isinstance(area, PolyCollection)]
            for (step, mean), band, arm in zip(lines(axes, "mean"), bands, ("additive", "conv2d"), strict=True):
                own = table[(table["arm"] == arm) & (table["layer"] == layer) & (table["figure"] == name)]
                by_step = own.dropna(subset="step").groupby("step")["value"]
                np.testing.assert_array_equal(step, by_step.mean().index)
                np.testing.assert_allclose(mean, by_step.mean())
                heights = band.get_paths()[0].vertices[:, 1]
                assert heights.max() == pytest.approx((by_step.mean() + by_step.std()).max())


def test_noise_is_one_line_where_it_is_the_same_and_one_per_arm_where_not(geometry: Table) -> None:
    table = geometry()[lambda rows: rows["layer"] == 1]
    (axes,) = geometry_curves(table, ["avg_sim"]).axes
    assert [set(level) for _, level in lines(axes, "noise")] == [{0.25}]
    table.loc[table["arm"] == "conv2d", "baseline"] = 0.75
    (axes,) = geometry_curves(table, ["avg_sim"]).axes
    assert [set(level) for _, level in lines(axes, "noise")] == [{0.25}, {0.75}]


def test_an_arm_of_one_point_has_no_line_and_is_named(geometry: Table) -> None:
    table = geometry()
    table.loc[table["degenerate"], "value"] = 0.5
    axes = geometry_curves(table, ["avg_sim"]).axes[0]
    additive, conv2d = lines(axes, "mean")
    assert np.isnan(additive[1]).all()
    assert np.isfinite(conv2d[1]).all()
    assert axes.get_title(loc="left") == "Layer 0\nvectors shared: additive"


def test_a_panel_of_one_point_only_is_hatched(geometry: Table) -> None:
    (axes,) = geometry_curves(geometry(arms=("additive", "fft"), layers=1), ["avg_sim"]).axes
    assert [patch.get_gid() for patch in axes.patches] == ["hatched"]
    assert [text.get_text() for text in axes.texts] == ["vectors shared"]


def test_one_seed_has_no_band(geometry: Table) -> None:
    table = geometry(arms=("conv2d",), seeds=1)
    (axes,) = geometry_curves(table[table["layer"] == 1], ["avg_sim"]).axes
    heights = np.unique(axes.collections[0].get_paths()[0].vertices[:, 1])
    np.testing.assert_array_equal(heights, np.unique(lines(axes, "mean")[0][1]))


def test_many_layers_are_thinned_out_evenly(geometry: Table) -> None:
    figure = geometry_curves(geometry(arms=("conv2d",), layers=13, seeds=1), ["avg_sim"])
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"Layer {layer}" for layer in (0, 3, 6, 9, 12)]


def test_the_legend_says_n(geometry: Table) -> None:
    figure = geometry_curves(geometry(), ["avg_sim"])
    assert [text.get_text() for text in figure.legends[0].get_texts()][:2] == [
        "additive, n = 3 seeds, 40 points",
        "conv2d, n = 3 seeds, 40 points",
    ]


def test_a_long_legend_leaves_the_panels_their_height(geometry: Table) -> None:
    long = geometry(arms=tuple(f"conv2d-with-penalty-{letter}-of-many-words" for letter in "abcdef"), layers=1)
    early = long[~((long["seed"] > 0) & (long["step"] > 10)) & ~((long["seed"] > 1) & (long["step"] > 1))]
    for table in (geometry(arms=("conv2d",), layers=1), early):
        figure = geometry_curves(table, ["avg_sim"])
        figure.draw_without_rendering()
        assert figure.axes[0].get_window_extent().height / figure.dpi > 0.8


def test_equal_tables_give_equal_bytes(geometry: Table) -> None:
    one, other = (geometry_curves(geometry(seeds=2), ["avg_sim"]) for _ in range(2))
    assert to_svg(one) == to_svg(other)
