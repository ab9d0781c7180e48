"""Persistence: every bar of an arm's first seed once, one scale for all, the longest bars in order of length."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from isoscope.geometry import persistence
from isoscope.platform.figures.style import WIDTH, to_svg
from isoscope.studies.fusion.persistence_diagrams import CALLED, LONGEST, LOOKS, barcodes, persistence_diagrams

ARMS = ("conv2d", "additive")


def table(arms: tuple[str, ...] = ARMS, points: int = 50) -> pd.DataFrame:
    """Bars of clouds at four moments: at the chosen epoch a circle with one long loop, else noise."""
    rng = np.random.default_rng(0)
    angle = np.linspace(0, 2 * np.pi, points, endpoint=False)
    parts = []
    for arm in arms:
        for seed in (3, 1):
            for moment in CALLED:
                circle = np.stack([np.cos(angle), np.sin(angle)], axis=1)
                noise = rng.normal(size=(points, 2))
                for degree, found in enumerate(persistence.diagrams(circle if moment == "chosen" else noise)):
                    bars = pd.DataFrame({"birth": found[:, 0], "death": found[:, 1]})
                    parts.append(bars.assign(arm=arm, seed=seed, moment=moment, degree=degree))
    return pd.concat(parts, ignore_index=True)


def panels(figure: Figure, arms: tuple[str, ...] = ARMS) -> dict[tuple[str, str], Axes]:
    """Panels by arm and moment, in the order in which they are drawn."""
    places = [(arm, moment) for arm in arms for moment in ("random", "first", "chosen", "last")]
    return dict(zip(places, figure.axes, strict=True))


def bars_of(made: pd.DataFrame, arm: str, moment: str, degree: int) -> np.ndarray:
    """Bars of the arm's first seed, which is 3."""
    where = (made["arm"] == arm) & (made["seed"] == 3) & (made["moment"] == moment) & (made["degree"] == degree)
    return made.loc[where, ["birth", "death"]].to_numpy()


def drawn_bars(axes: Axes, degree: int) -> np.ndarray:
    """(birth, death, height) of each line of a degree, from the bottom up."""
    (lines,) = [one for one in axes.collections if one.get_gid() == f"H{degree}"]
    return np.array([(one[0, 0], one[1, 0], one[0, 1]) for one in lines.get_segments()]).reshape(-1, 3)


def test_each_bar_is_a_point_above_the_diagonal() -> None:
    made = table()
    for (arm, moment), axes in panels(persistence_diagrams(made)).items():
        assert len(axes.collections) == len(LOOKS)
        for degree, points in enumerate(axes.collections):
            offsets = np.asarray(points.get_offsets())
            np.testing.assert_array_equal(offsets, bars_of(made, arm, moment, degree))
            assert (offsets[:, 1] >= offsets[:, 0]).all()
            assert to_hex(points.get_facecolor()[0]) == LOOKS[degree]["color"]
        (diagonal,) = axes.lines
        np.testing.assert_array_equal(diagonal.get_xdata(), diagonal.get_ydata())


def test_all_panels_share_one_scale_that_holds_every_bar() -> None:
    made = table()
    longest = made.loc[made["seed"] == 3, "death"].max()
    limits = {(axes.get_xlim(), axes.get_ylim()) for axes in persistence_diagrams(made).axes}
    ((across, up),) = limits
    assert across == up
    assert across[0] < 0 < longest < across[1]
    assert {axes.get_xlim() for axes in barcodes(made).axes} == {(0.0, across[1])}


def test_the_loop_of_a_circle_is_the_longest_bar_of_its_degree() -> None:
    for arm in ARMS:
        axes = panels(barcodes(table()))[arm, "chosen"]
        ((birth, death, _), *rest) = drawn_bars(axes, 1)
        assert death - birth > 1.0
        assert all(end - start < 0.1 for start, end, _ in rest)


def test_barcodes_are_the_longest_bars_longest_at_the_bottom() -> None:
    made = table()
    assert len(bars_of(made, "additive", "first", 0)) > LONGEST
    for (arm, moment), axes in panels(barcodes(made)).items():
        tops = []
        for degree in LOOKS:
            drawn, bars = drawn_bars(axes, degree), bars_of(made, arm, moment, degree)
            length = np.sort(bars[:, 1] - bars[:, 0])[::-1][:LONGEST]
            np.testing.assert_allclose(drawn[:, 1] - drawn[:, 0], length)
            assert (np.diff(drawn[:, 2]) == 1).all()
            tops += [drawn[:, 2].min(), drawn[:, 2].max()] if len(drawn) else []
        assert tops == sorted(tops), "loops stand above components"
        assert axes.get_ylim()[0] < tops[0] <= tops[-1] < axes.get_ylim()[1]


def test_a_moment_of_one_point_is_hatched_and_not_empty() -> None:
    made = table()
    made = made[~((made["arm"] == "additive") & (made["moment"] == "first"))]
    for draw in (persistence_diagrams, barcodes):
        for place, axes in panels(draw(made)).items():
            hatched = [patch.get_gid() for patch in axes.patches if patch.get_gid() == "hatched"]
            assert bool(hatched) == (place == ("additive", "first"))


def test_a_moment_that_no_arm_has_takes_no_column() -> None:
    made = table()
    figure = persistence_diagrams(made[made["moment"] != "random"])
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[:3] == ["first snapshot", "chosen epoch", "last snapshot"]
    assert len(figure.axes) == 3 * len(ARMS)


@pytest.mark.parametrize("draw", [persistence_diagrams, barcodes])
def test_rows_say_whose_bars_and_the_legend_in_what_unit(draw: object) -> None:
    figure = draw(table())  # type: ignore[operator]
    labels = [axes.get_ylabel() for axes in figure.axes[::4]]
    assert [label.split("\n")[0] for label in labels] == ["conv2d, seed 3", "additive, seed 3"]
    (legend,) = figure.legends
    assert "root mean squared distance" in legend.get_title().get_text()
    assert [text.get_text() for text in legend.get_texts()] == ["H0: components", "H1: loops"]
    assert figure.get_figwidth() <= WIDTH
    assert to_svg(figure) == to_svg(draw(table())), "equal tables give equal bytes"  # type: ignore[operator]
