"""Maps of layers by snapshots and curves over training: the table's means, fixed ranges, nothing without geometry."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from isoscope.platform.config.declared import natural
from isoscope.platform.figures.style import to_png, to_svg
from isoscope.studies.fusion.layers import geometry_curves, layer_by_snapshot

Table = Callable[..., pd.DataFrame]
STEPS = (0, 1, 10, 100)


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def marked(axes: Axes, kind: str) -> set[tuple[int, int]]:
    """(layer, column) of the squares hatched as `kind`."""
    found = [one for one in axes.collections if one.get_gid() == kind]
    corners = [path.vertices[0] + 0.5 for one in found for path in one.get_paths()]
    return {(int(row), int(column)) for column, row in corners}


def test_cells_are_the_means_over_seeds(geometry: Table) -> None:
    table = geometry()
    for axes, arm in zip(maps(layer_by_snapshot(table, "avg_sim")), ("additive", "conv2d"), strict=True):
        drawn = np.ma.filled(axes.images[0].get_array(), np.nan)
        own = table[table["arm"] == arm]
        for layer in range(3):
            for column, step in {0: None, 2: 0, 3: 1, 4: 10, 5: 100}.items():
                cell = own[(own["layer"] == layer) & (own["step"].isna() if step is None else own["step"] == step)]
                np.testing.assert_allclose(drawn[layer, column], cell["value"].mean())
        assert np.isnan(drawn[:, 1]).all()  # the gap that sets the twin apart
        assert axes.get_title(loc="left") == f"{arm}, n = 3 seeds"
        assert axes.get_ylim() == (-0.5, 2.5)
        assert [label.get_text() for label in axes.get_xticklabels()] == ["random", *map(str, STEPS)]


def test_degenerate_cells_are_hatched_and_never_coloured(geometry: Table) -> None:
    table = geometry()
    table.loc[table["degenerate"], "value"] = 0.5  # whatever a table may say
    additive, conv2d = maps(layer_by_snapshot(table, "avg_sim"))
    assert marked(additive, "degenerate") == {(0, column) for column in (0, 2, 3, 4, 5)}
    assert np.ma.getmaskarray(additive.images[0].get_array())[0].all()
    assert not marked(conv2d, "degenerate")


def test_a_figure_that_is_not_defined_and_a_snapshot_that_is_absent_differ(geometry: Table) -> None:
    table = geometry(arms=("conv2d", "other"))
    table.loc[(table["arm"] == "conv2d") & (table["layer"] == 1) & (table["step"] == 10), "value"] = np.nan
    table = table[~((table["arm"] == "other") & (table["step"] == 100))]
    conv2d, other = maps(layer_by_snapshot(table, "avg_sim"))
    assert marked(conv2d, "undefined") == {(1, 4)}
    assert not marked(other, "undefined")
    assert np.ma.getmaskarray(other.images[0].get_array())[:, 5].all()


@pytest.mark.parametrize("figure", ["avg_sim", "a_1", "silhouette", "isoscore", "linear_separability"])
def test_natural_ranges_are_pinned(geometry: Table, figure: str) -> None:
    limits = {axes.images[0].get_clim() for axes in maps(layer_by_snapshot(geometry(figures=[figure]), figure))}
    assert limits == {natural(figure)}


def test_other_figures_share_the_range_of_all_panels(geometry: Table) -> None:
    table = geometry(figures=["two_nn"], scale=20.0)
    means = table[~table["degenerate"]].groupby(["arm", "layer", "step"], dropna=False)["value"].mean()
    for axes in maps(layer_by_snapshot(table, "two_nn")):
        np.testing.assert_allclose(axes.images[0].get_clim(), (means.min(), means.max()))


def test_chosen_epochs_are_marked_the_first_where_a_run_has_two(geometry: Table) -> None:
    table = geometry(arms=("conv2d",), seeds=2)
    table.loc[(table["seed"] == 1) & (table["step"] == 100), "best"] = True
    (axes,) = maps(layer_by_snapshot(table, "avg_sim"))
    (triangles,) = [line for line in axes.lines if line.get_gid() == "chosen"]
    np.testing.assert_array_equal(triangles.get_xdata(), [4, 5])


@pytest.mark.parametrize("layers", [2, 25])
def test_no_triangle_touches_the_title_above(geometry: Table, layers: int) -> None:
    figure = layer_by_snapshot(geometry(arms=("conv2d",), layers=layers), "avg_sim")
    figure.draw_without_rendering()
    (axes,) = maps(figure)
    (triangles,) = [line for line in axes.lines if line.get_gid() == "chosen"]
    (title,) = [text for text in axes.get_children() if text is axes._left_title]
    assert triangles.get_window_extent().y1 <= title.get_window_extent().y0


def test_the_colour_bar_says_what_noise_gives(geometry: Table) -> None:
    table = geometry()
    label = layer_by_snapshot(table, "avg_sim").axes[-1].get_xlabel()
    assert label == "Mean cosine, points of different sentences\nisotropic noise: 0.250 (n = 40, d = 8)"
    table.loc[table["arm"] == "conv2d", "baseline"] = 0.5
    assert "additive 0.250 (n = 40, d = 8); conv2d 0.500" in layer_by_snapshot(table, "avg_sim").axes[-1].get_xlabel()


def test_the_title_says_where_seeds_are_missing(geometry: Table) -> None:
    table = geometry(arms=("conv2d",))
    table = table[~((table["seed"] == 2) & (table["step"] == 100))]
    (axes,) = maps(layer_by_snapshot(table, "avg_sim"))
    assert axes.get_title(loc="left") == "conv2d, n = 3 seeds, to update 10"


def test_a_snapshot_that_a_single_seed_has_is_no_column_and_no_point(geometry: Table) -> None:
    table = geometry(arms=("conv2d",))
    at_ten = table["step"].eq(10).fillna(False)
    table = table.assign(best=at_ten)[~(at_ten & (table["seed"] > 0))]
    (axes,) = maps(layer_by_snapshot(table, "avg_sim"))
    assert [label.get_text() for label in axes.get_xticklabels()] == ["random", "0", "1", "100"]
    (triangles,) = [line for line in axes.lines if line.get_gid() == "chosen"]
    np.testing.assert_allclose(triangles.get_xdata(), [3 + 9 / 99, 4], err_msg="between the columns 1 and 100")
    (steps, _), *_ = lines(geometry_curves(table, ["avg_sim"]).axes[1], "mean")
    np.testing.assert_array_equal(steps, [0, 1, 100])


def test_panels_without_any_geometry_have_no_colours(geometry: Table) -> None:
    table = geometry(arms=("fft",), layers=1, figures=["two_nn"])
    figure = layer_by_snapshot(table, "two_nn")
    assert len(figure.axes) == 1
    assert len(marked(figure.axes[0], "degenerate")) == 5
    assert to_svg(figure)


def test_equal_tables_give_equal_bytes_drawn_however_often(geometry: Table) -> None:
    table = geometry(seeds=2)
    one, other = (layer_by_snapshot(table, "avg_sim") for _ in range(2))
    svg = to_svg(one)
    assert to_png(one) == to_png(other)
    assert svg == to_svg(one) == to_svg(other) != to_svg(layer_by_snapshot(geometry(seeds=1), "avg_sim"))
    assert to_svg(geometry_curves(table, ["avg_sim"])) == to_svg(geometry_curves(table, ["avg_sim"]))


def test_a_long_study_stays_small_and_readable(geometry: Table) -> None:
    table = geometry(arms=("a" * 90, "conv2d", "fft"), layers=13, steps=[2**k for k in range(25)])
    figure = layer_by_snapshot(table, "avg_sim")
    assert figure.get_figwidth() <= 7.2
    assert len(to_svg(figure)) < 200_000


def test_what_was_not_measured_is_not_drawn(geometry: Table) -> None:
    for figure, vectors in (("avg_dim", "first"), ("avg_sim", "words")):
        with pytest.raises(ValueError, match="no rows"):
            layer_by_snapshot(geometry(), figure, vectors=vectors)


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
                highest = min((by_step.mean() + by_step.std()).max(), 1.0)  # the end of the metric's range
                assert heights.max() == pytest.approx(highest)


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
