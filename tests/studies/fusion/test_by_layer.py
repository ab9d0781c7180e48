"""Geometry by layer: the table's values and intervals, twin and noise; no number without a value."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.colors import to_hex

from drawn import sticking_out
from isoscope.platform.figures.style import ARM_COLOURS, WIDTH, to_svg
from isoscope.studies.fusion.by_layer import geometry_by_layer
from isoscope.studies.fusion.layers import SHARED


def table(
    checkpoints: tuple[str, ...] = ("encoder", "decoder"), figures: tuple[str, ...] = ("avg_sim", "two_nn_at_n")
) -> pd.DataFrame:
    """Every metric at four layers of each checkpoint and its twin; points coincide at the first layer of `encoder`."""
    rng = np.random.default_rng(0)
    rows = []
    for checkpoint in checkpoints:
        for step in (0, None):
            for figure in figures:
                for layer in (2, 0, 1, 3):  # in no order
                    value = np.nan if (one_point := checkpoint == "encoder" and layer == 0) else rng.uniform()
                    spread = 0.1 if figure == "two_nn_at_n" and step is not None else np.nan
                    row = {"checkpoint": checkpoint, "step": step, "figure": figure, "layer": layer, "value": value}
                    more = {"low": value - spread, "high": value + spread, "baseline": 0.25, "degenerate": one_point}
                    rows.append(row | more | {"vectors": "first"})
    return pd.DataFrame(rows).astype({"step": "Int64"})


def lines(axes: Axes, kind: str) -> dict[str, Any]:
    """Lines of a kind by their colour."""
    return {to_hex(one.get_color()): one for one in axes.lines if one.get_gid() == kind}


def of(made: pd.DataFrame, checkpoint: str, figure: str, *, twin: bool = False) -> pd.DataFrame:
    rows = made[(made["checkpoint"] == checkpoint) & (made["figure"] == figure) & (made["step"].isna() == twin)]
    return rows.sort_values("layer")


@pytest.mark.parametrize("kind", ["checkpoint", "twin"])
def test_lines_are_the_tables_values_in_the_order_of_layers(kind: str) -> None:
    made = table()
    for axes, figure in zip(geometry_by_layer(made, ["avg_sim", "two_nn_at_n"], vectors="first").axes,
                            ("avg_sim", "two_nn_at_n"), strict=True):  # fmt: skip
        for checkpoint, colour in zip(("encoder", "decoder"), ARM_COLOURS, strict=False):
            rows, line = of(made, checkpoint, figure, twin=kind == "twin"), lines(axes, kind)[colour]
            np.testing.assert_array_equal(line.get_xdata(), [0, 1, 2, 3])
            np.testing.assert_array_equal(line.get_ydata(), rows["value"])
            assert (line.get_linestyle() == "-") == (kind == "checkpoint")


def test_the_band_is_the_interval_of_the_checkpoint_alone() -> None:
    made = table(checkpoints=("decoder",))
    plain, banded = geometry_by_layer(made, ["avg_sim", "two_nn_at_n"], vectors="first").axes
    assert [area for area in plain.collections if isinstance(area, PolyCollection)] == []
    (band,) = banded.collections
    rows = of(made, "decoder", "two_nn_at_n")
    heights = band.get_paths()[0].vertices[:, 1]
    np.testing.assert_allclose([heights.min(), heights.max()], [rows["low"].min(), rows["high"].max()])


def test_noise_is_one_line_where_it_is_the_same_and_one_per_checkpoint_where_not() -> None:
    made = table()
    (axes,) = geometry_by_layer(made, ["avg_sim"], vectors="first").axes
    (level,) = lines(axes, "noise").values()
    assert set(level.get_ydata()) == {0.25}
    made.loc[made["checkpoint"] == "decoder", "baseline"] = 0.75  # of another width
    (axes,) = geometry_by_layer(made, ["avg_sim"], vectors="first").axes
    levels = {colour: set(line.get_ydata()) for colour, line in lines(axes, "noise").items()}
    assert levels == {ARM_COLOURS[0]: {0.25}, ARM_COLOURS[1]: {0.75}}


def test_one_point_is_a_cross_below_all_numbers_and_never_a_value() -> None:
    made = table()
    made.loc[made["degenerate"], ["value", "low", "high"]] = -5.0  # whatever a table may say
    figure = geometry_by_layer(made, ["avg_sim"], vectors="first")
    (axes,) = figure.axes
    crosses = lines(axes, "degenerate")
    assert {colour: list(line.get_xdata()) for colour, line in crosses.items()} == {ARM_COLOURS[0]: [0]}
    numbers = np.concatenate(
        [line.get_ydata() for kind in ("checkpoint", "twin") for line in lines(axes, kind).values()]
    )
    (at,) = set(crosses[ARM_COLOURS[0]].get_ydata())
    assert axes.get_ylim()[0] < at < np.nanmin(numbers)
    assert min(axes.get_yticks()) > at, "the strip has no scale"
    assert np.isnan(lines(axes, "checkpoint")[ARM_COLOURS[0]].get_ydata()).tolist() == [True, False, False, False]
    assert SHARED in [text.get_text() for text in figure.legends[0].get_texts()]


def test_without_such_cells_no_cross_and_no_word_of_it() -> None:
    figure = geometry_by_layer(table(checkpoints=("decoder",)), ["avg_sim"], vectors="first")
    assert lines(figure.axes[0], "degenerate") == {}
    assert SHARED not in [text.get_text() for text in figure.legends[0].get_texts()]


def test_a_panel_of_one_point_only_is_hatched() -> None:
    made = table(checkpoints=("encoder",))
    (axes,) = geometry_by_layer(made[made["layer"] == 0], ["avg_sim"], vectors="first").axes
    assert [patch.get_gid() for patch in axes.patches] == ["hatched"]
    assert [text.get_text() for text in axes.texts] == ["vectors shared"]


def test_layers_of_one_point_keep_their_place_on_the_axis() -> None:
    for axes in geometry_by_layer(table(), ["avg_sim", "two_nn_at_n"], vectors="first").axes:
        low, high = axes.get_xlim()
        assert low < 0 < 3 < high


def test_figures_that_were_not_measured_have_no_panel() -> None:
    figure = geometry_by_layer(table(), ["self_sim", "two_nn_at_n", "avg_sim"], vectors="first")
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in figure.axes]
    assert titles == ["Intrinsic dimension (two neighbours), at equal n", "Mean cosine, points of different sentences"]


def test_every_panel_of_the_last_row_says_layer_and_none_is_wider_than_a_page() -> None:
    figures = ("avg_sim", "two_nn_at_n", "mle_at_n", "silhouette")
    figure = geometry_by_layer(table(("a name " * 30, "decoder"), figures), figures, vectors="first")
    assert figure.get_figwidth() <= WIDTH
    assert [axes.get_xlabel() for axes in figure.axes if axes.axison] == ["", "Layer", "Layer", "Layer"]
    assert len(to_svg(figure)) < 200_000


def test_checkpoints_of_different_depth_share_an_axis_of_relative_depth() -> None:
    made = table()
    shallow = made[(made["checkpoint"] == "encoder") | (made["layer"] < 3)]  # 0 to 3, and 0 to 2
    figure = geometry_by_layer(shallow, ["avg_sim"], vectors="first")
    (axes,) = figure.axes
    for kind in ("checkpoint", "twin"):
        found = {colour: list(line.get_xdata()) for colour, line in lines(axes, kind).items()}
        assert found == {ARM_COLOURS[0]: pytest.approx([0, 1 / 3, 2 / 3, 1]), ARM_COLOURS[1]: [0, 0.5, 1]}
    assert axes.get_xlabel() == "Depth (layer / number of layers)"
    assert axes.get_xlim()[0] < 0 < 1 < axes.get_xlim()[1] < 1.2
    assert sticking_out(figure) == []


@pytest.mark.parametrize("panels", [1, 2, 3])
@pytest.mark.parametrize("name", ["deep", "seed-0/checkpoints/epoch-12", "W" * 36, "a-name-that-is-far-too-long-" * 20])
def test_the_legend_fits_and_tells_long_names_apart(name: str, panels: int) -> None:
    figures = ("avg_sim", "two_nn_at_n", "mle_at_n")[:panels]
    figure = geometry_by_layer(table((f"{name}1", f"{name}2"), figures), figures, vectors="first")
    assert sticking_out(figure) == []
    one, other, *_ = (text.get_text() for text in figure.legends[0].get_texts())
    assert one != other


def test_equal_tables_give_equal_bytes() -> None:
    one, other = (geometry_by_layer(table(), ["avg_sim"], vectors="first") for _ in range(2))
    assert to_svg(one) == to_svg(other) != to_svg(geometry_by_layer(table(("encoder",)), ["avg_sim"], vectors="first"))
