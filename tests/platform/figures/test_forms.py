"""The five forms at their edges: no rows, no numbers, one point, one arm, twelve arms, 80 classes, long names."""

import warnings
from itertools import pairwise, product
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.figure import Figure

from drawn import sticking_out
from isoscope.platform.figures.form import Form
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.style import HATCH, WIDTH, to_svg
from isoscope.platform.figures.text_form import Texts

FORMS: dict[str, Form] = {
    "curves": Curves(x="at", y="value", columns="panel", labels=("Update", "Value"), beside={"base": "noise"}),
    "profile": Profile(x="at", series="arm", rows="panel", columns="part", dash="half"),
    "matrix": Matrix(x="arm", y="at", columns="panel", labels=("Arm", "Layer"), digits=2),
    "intervals": Intervals(
        x="value", y="arm", columns="panel", fill="half", labels=("Value", ""), beside={"base": "chance"}
    ),
    "scatter": Scatter(x="at", y="value", series="arm", columns="panel", labels=("x", "y")),
}
LONG = "a-name-that-is-far-too-long-" * 8


def made(arms: int = 3, points: int = 4, seeds: int = 3, name: str = "arm") -> pd.DataFrame:
    """A row per arm, panel, half, place and seed."""
    rng = np.random.default_rng(0)
    places = product(range(arms), ("one", "two"), ("a", "b"), range(points), range(seeds))
    rows = [
        {"arm": f"{name} {arm}", "panel": panel, "part": "p", "half": half, "at": at, "seed": seed}
        | {"value": rng.uniform(), "base": 0.25}
        for arm, panel, half, at, seed in places
    ]
    return pd.DataFrame(rows)


def drawn(form: Form, table: pd.DataFrame) -> Figure:
    """Draw, with every warning an error; nothing sticks out, and no path leads nowhere."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        figure = form(table)
        svg = to_svg(figure)
    assert "nan" not in svg
    assert figure.get_figwidth() <= WIDTH + 1e-9
    return figure


def legend(figure: Figure) -> list[str]:
    return [text.get_text() for one in figure.legends for text in one.get_texts()]


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_no_rows_are_refused_and_no_numbers_are_hatched(form: Form) -> None:
    with pytest.raises(ValueError, match="nothing to draw"):
        form(made()[:0])
    without = drawn(form, made().assign(value=np.nan))
    hatched = [patch for axes in without.axes for patch in axes.patches if patch.get_gid() == "hatched"]
    assert hatched or isinstance(form, Matrix), "a picture of no numbers is empty"


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
@pytest.mark.parametrize(
    "table",
    [made(1, 1, 1), made(1, 3, 1), made(12, 4, 2), made(2, 3, 1, LONG), made(3, 1, 3)],
    ids=["one point", "one arm", "twelve arms", "long names", "one place"],
)
def test_a_form_draws_any_number_of_arms_and_points(form: Form, table: pd.DataFrame) -> None:
    figure = drawn(form, table)
    assert sticking_out(figure) == []
    told = legend(figure)
    assert len(set(told)) == len(told)
    heights = [axes.get_position().height * figure.get_figheight() for axes in figure.axes if axes.axison]
    assert min(heights) > 0.5, "panels keep their height below any legend"


@pytest.mark.parametrize("kind", ["curves", "profile", "scatter"])
def test_of_eighty_classes_the_largest_have_a_look_and_the_rest_are_one_entry(kind: str) -> None:
    table = made(80, 1, 1, "class")
    table["value"] += table["arm"].eq("class 77") * 100.0
    table = pd.concat([table, *[table[table["arm"] == "class 77"]] * 2], ignore_index=True)
    figure = drawn(FORMS[kind], table)
    told = legend(figure)
    assert len(told) <= 20
    (rest,) = [text for text in told if text.startswith("the other ")]
    assert int(rest.split()[-1]) + sum(text.startswith("class") for text in told) == 80
    assert "class 77" in told, "the largest"
    assert HATCH in {line.get_color() for line in figure.axes[0].lines} or kind != "curves"
    looks = {
        (handle.get_color(), handle.get_marker(), handle.get_linestyle())
        for handle in figure.legends[0].legend_handles
        if handle.get_label().startswith("class")
    }
    assert len(looks) == sum(text.startswith("class") for text in told), "no two of them look alike"
    assert all(one.get_window_extent().y1 <= figure.axes[0].get_window_extent().y0 for one in figure.legends)
    assert sticking_out(figure) == []


def lines(figure: Figure, name: str) -> list[tuple[float, float]]:
    found = [
        point for axes in figure.axes for one in axes.lines if one.get_gid() == name
        for point in zip(one.get_xdata(), one.get_ydata(), strict=True)
    ]  # fmt: skip
    return sorted((float(x), float(y)) for x, y in found)


def test_lines_go_through_means_with_bands_of_an_sd() -> None:
    table = made()
    figure, rows = drawn(FORMS["curves"], table), FORMS["curves"].drawn(table)
    means = table.groupby(["arm", "panel", "at"])["value"].agg(["mean", "std"]).reset_index()
    for arm, own in means.groupby("arm"):
        assert lines(figure, f"arm:{arm}") == sorted(zip(own["at"].astype(float), own["mean"], strict=True))
    np.testing.assert_allclose((rows["high"] - rows["low"]).sort_values(), (2 * means["std"]).sort_values())
    assert figure.legends[0].get_title().get_text() == "n = 3 seeds"
    assert "noise" in legend(figure)


def test_a_band_ends_where_the_metric_ends_and_a_gap_has_a_cross_and_no_number() -> None:
    table = made(1).assign(least=0.4, most=0.6, gap=None)
    table.loc[table["at"] == 1, "gap"] = "shared: no geometry"
    rows = FORMS["curves"].drawn(table)
    assert rows.loc[rows["at"] == 1, "value"].isna().all()
    own = rows.dropna(subset="value")
    assert (own["low"] >= np.fmin(own["value"], 0.4)).all()
    assert (own["high"] <= np.fmax(own["value"], 0.6)).all()
    figure = drawn(FORMS["curves"], table)
    crosses = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "gap"]
    assert [list(line.get_xdata()) for line in crosses] == [[1], [1]]
    assert "shared: no geometry" in legend(figure)


def test_a_gap_at_one_seed_leaves_no_mean_of_the_others() -> None:
    table = made().assign(gap=None)
    table.loc[(table["at"] == 1) & (table["seed"] == table["seed"].max()), "gap"] = "shared: no geometry"
    for form in (FORMS["curves"], FORMS["matrix"]):
        rows = form.drawn(table)
        assert rows.loc[rows["at"] == 1, ["value", "low", "high"]].isna().all(axis=None)
        assert rows.loc[rows["at"] != 1, "value"].notna().all()


def test_what_is_drawn_is_said_in_words() -> None:
    table = pd.DataFrame({"arm": ["a", "a", "b", "c"], "at": [0, 1, 1, 1], "value": [0.1, 0.25, -3.0, np.nan]})
    for form, said in (
        (Curves(x="at", y="value"), "Last values: a 0.25; b -3."),
        (Matrix(x="arm", y="at", limits=(None, None)), "Cells: at 0, a 0.1; at 1, a 0.25; at 1, b -3."),
        (Intervals(x="value", y="arm"), "Values: a 0.175; b -3."),
        (Scatter(x="at", y="value", series="arm"), "Number of points: a 2; b 1; c 1."),
    ):
        assert form(table).get_label() == said
        assert f"<dc:description>{said}</dc:description>" in to_svg(form(table))
    assert FORMS["curves"](made(30)).get_label().endswith(" and 44 more.")


def test_a_table_has_its_heads_and_a_dash_for_what_is_missing() -> None:
    table = pd.DataFrame({"arm": ["a", "b"], "n": [1200, 3], "value": [-0.5, np.nan], "rest": "unseen"})
    lines = Texts(heads={"arm": "Arm", "n": "Seeds", "value": "Loss"}, digits=2)(table)
    assert lines[0] == [("Arm", False), ("Seeds", False), ("Loss", False)]
    assert lines[1:] == [[("a", False), ("1,200", True), ("−0.50", True)], [("b", False), ("3", True), ("–", True)]]


def test_cells_are_means_hatched_where_they_have_no_value() -> None:
    table = made(4).assign(gap=None, note="n = 3 seeds")
    table.loc[(table["arm"] == "arm 1") & (table["at"] == 0), "gap"] = "not defined"
    form = FORMS["matrix"]
    figure = drawn(form, table)
    for axes, panel in zip(figure.axes, ("one", "two"), strict=False):
        own = table[table["panel"] == panel]
        means = own[own["gap"].isna()].pivot_table(index="at", columns="arm", values="value")
        shown = axes.images[0].get_array()
        np.testing.assert_allclose(np.ma.filled(shown, np.nan), means.to_numpy())
        assert axes.images[0].get_clim() == (0.0, 1.0)
        assert axes.get_ylim()[0] < axes.get_ylim()[1], "numbers run upwards"
        (squares,) = [one for one in axes.collections if one.get_gid() == "not defined"]
        np.testing.assert_array_equal(squares.get_paths()[0].vertices[0], [0.5, -0.5])
        assert axes.get_title(loc="left") == f"{panel}\nn = 3 seeds"
        written = [text.get_text() for text in axes.texts]
        assert written == [f"{value:.2f}" for value in means.to_numpy().ravel() if np.isfinite(value)]
    assert legend(figure) == ["not defined"]


@pytest.mark.parametrize(
    "values, limits", [((-3.0, 1.0), (-3.0, 3.0)), ((1.0, 5.0), (1.0, 5.0)), ((2.0, 2.0), (2.0, 3.0))]
)
def test_colours_span_what_is_drawn_and_are_even_about_zero(values: Any, limits: Any) -> None:
    table = pd.DataFrame({"arm": ["a", "b"], "at": [0, 0], "value": values})
    figure = drawn(Matrix(x="arm", y="at", limits=(None, None)), table)
    assert figure.axes[0].images[0].get_clim() == limits


def test_numbers_along_an_axis_do_not_touch() -> None:
    at = np.linspace(-0.5, 0.52, 12)
    rows = [(panel, x, y, 0.5) for panel in "abcd" for x in at for y in range(3)]
    table = pd.DataFrame(rows, columns=["panel", "x", "y", "value"])
    figure = drawn(Matrix(x="x", y="y", columns="panel", labels=("x", "y")), table)
    for axes in figure.axes[:4]:
        boxes = sorted(one.get_window_extent().intervalx.tolist() for one in axes.get_xticklabels() if one.get_text())
        assert len(boxes) >= 2
        assert all(end < start for (_, end), (start, _) in pairwise(boxes))


def test_a_name_keeps_its_own_lines_in_a_row_of_intervals() -> None:
    table = pd.DataFrame({"x": [0.1, 0.2], "y": ["one", "two"], "low": [0.0, 0.1], "high": [0.2, 0.3]})
    names = {"one": "same position,\nother word", "two": "same word,\nother position"}
    figure = drawn(Intervals(x="x", y="y", names=names), table)
    assert [one.get_text() for one in figure.axes[0].get_yticklabels()] == [*names.values()]


def test_intervals_show_means_their_intervals_and_the_values_behind_them() -> None:
    table = made(2, 1)
    figure = drawn(FORMS["intervals"], table)
    axes = figure.axes[0]
    own = table[(table["panel"] == "one")]
    means = own.groupby(["half", "arm"])["value"].mean()
    drawn_means = sorted(float(x) for one in axes.lines if one.get_gid() == ":" for x in one.get_xdata())
    assert drawn_means == pytest.approx(sorted(means))
    singles = sorted(float(x) for one in axes.lines if one.get_gid() == "single" for x in one.get_xdata())
    assert singles == pytest.approx(sorted(own["value"]))
    given = drawn(FORMS["intervals"], table.assign(low=0.1, high=0.9)).axes[0]
    ends = {tuple(segment[:, 0]) for one in given.collections for segment in one.get_segments()}
    assert [*ends] == [pytest.approx((0.1, 0.9))]
    assert [label.get_text() for label in axes.get_yticklabels()] == ["arm 0", "arm 1"]


@pytest.mark.parametrize("limits", [(None, None), (-1.0, None), (None, 3.0)])
@pytest.mark.parametrize("shared", ["Value", ""])
def test_every_value_lies_inside_its_panel_unless_an_end_is_fixed(limits: Any, shared: str) -> None:
    """Also where the panels of an axis have other ranges than the first."""
    rows = [("one", "a", 0.0), ("one", "b", 1.0), ("two", "a", -5.0), ("two", "b", 9.0)]
    table = pd.DataFrame(rows, columns=["panel", "arm", "value"])
    figure = drawn(Intervals(x="value", y="arm", columns="panel", labels=(shared, ""), limits=limits), table)
    for axes, (_, own) in zip(figure.axes, table.groupby("panel"), strict=True):
        left, right = axes.get_xlim()
        assert left == limits[0] or left < own["value"].min()
        assert right == limits[1] or right > own["value"].max()


def test_panels_share_the_colours_that_the_bar_shows() -> None:
    table = pd.DataFrame({"panel": ["one"] * 3 + ["two"] * 3, "x": range(6), "y": range(6), "of": [0, 5, 9, 0, 5, 19]})
    figure = drawn(Scatter(x="x", y="y", columns="panel", shade="of"), table)
    clouds = [found for axes in figure.axes[:2] for found in axes.collections]
    assert [found.get_clim() for found in clouds] == [(0.0, 19.0)] * 2


def test_seeds_without_a_number_are_not_counted_and_the_last_value_is_of_the_last_step() -> None:
    own = pd.DataFrame({"arm": "a", "step": 0, "seed": range(3), "value": [0.1, 0.3, np.nan]})
    found = Curves(x="step", y="value", series="arm").drawn(own)
    assert found[["value", "seeds"]].to_numpy().tolist() == [[pytest.approx(0.2), 2]]
    first, second = ((0, 10, 20, 30), (0.0, 0.1, 0.2, 0.3)), ((0, 10, 15), (0.0, 0.1, 0.15))
    parts = [
        pd.DataFrame({"arm": "a", "seed": seed, "step": x, "value": y}) for seed, (x, y) in enumerate((first, second))
    ]
    form = Curves(x="step", y="value", series="arm")
    assert form.told(form.drawn(pd.concat(parts))) == "Last values: a 0.3."


def test_what_lies_beyond_the_left_end_has_an_arrow_and_its_number() -> None:
    table = pd.DataFrame({"arm": ["a", "b"], "value": [-3.0, 0.5]})
    axes = drawn(Intervals(x="value", y="arm", limits=(-1.0, 1.0)), table).axes[0]
    assert [line.get_marker() for line in axes.lines if line.get_gid() == "beyond"] == ["<"]
    assert [text.get_text() for text in axes.texts] == ["−3.00"]


def points(figure: Figure) -> list[tuple[float, float]]:
    found = [
        tuple(point) for axes in figure.axes for one in axes.collections if isinstance(one, PathCollection)
        for point in np.asarray(one.get_offsets())
    ]  # fmt: skip
    return sorted((float(x), float(y)) for x, y in found)


@pytest.mark.parametrize("options", [{}, {"shade": "base"}, {"square": "equal"}, {"square": "diagonal"}])
def test_every_row_is_a_point_once(options: Any) -> None:
    table = made(3, 4, 2)
    form = Scatter(x="at", y="value", series="arm", columns="panel", labels=("x", "y"), **options)
    figure = drawn(form, table)
    assert points(figure) == sorted(zip(table["at"].astype(float), table["value"], strict=True))
    equal = [line for axes in figure.axes for line in axes.lines if line.get_gid() == "equal"]
    assert bool(equal) == (options.get("square") == "diagonal")


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_equal_tables_give_equal_bytes_and_other_tables_other_bytes(form: Form) -> None:
    table = made(2, 2, 2)
    assert to_svg(form(table)) == to_svg(form(table)) != to_svg(form(table.assign(value=table["value"] / 2)))


@pytest.mark.parametrize(
    "name", ["$\\frac{", "_hidden", "<script>alert(1)</script>", "否定", "हिन्दी", "ไทย", "العربية", "🦊"]
)
def test_any_name_is_drawn_as_text(name: str) -> None:
    for form in FORMS.values():
        svg = to_svg(form(made(2, 2, 1, name)))
        assert "<script" not in svg
    assert f"{name} 0" in legend(FORMS["curves"](made(2, 2, 1, name)))
