"""Maps of layers by snapshots: the table's means, one fixed range, no colour without geometry."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.figures.scales import SCALES
from isoscope.figures.style import to_png, to_svg
from isoscope.studies.fusion.layers import layer_by_snapshot

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
    assert limits == {(-1.0, 1.0) if SCALES[figure].diverging else (0.0, 1.0)}


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
    assert axes.get_title(loc="left") == "conv2d, n = 3 seeds, after update 10: 2"


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


def test_a_long_study_stays_small_and_readable(geometry: Table) -> None:
    table = geometry(arms=("a" * 90, "conv2d", "fft"), layers=13, steps=[2**k for k in range(25)])
    figure = layer_by_snapshot(table, "avg_sim")
    assert figure.get_figwidth() <= 7.2
    assert len(to_svg(figure)) < 200_000


def test_what_was_not_measured_is_not_drawn(geometry: Table) -> None:
    for figure, vectors in (("avg_dim", "first"), ("avg_sim", "words")):
        with pytest.raises(ValueError, match="no rows"):
            layer_by_snapshot(geometry(), figure, vectors=vectors)
