"""Persistence: every bar of an arm's first seed once, one scale for all, the longest bars in order of length."""

import numpy as np
import pandas as pd

from isoscope.geometry import persistence
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.persistence_diagrams import BARCODE, CALLED, DEGREES, DIAGRAM, LONGEST, barcode, diagram

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


def bars_of(made: pd.DataFrame, arm: str, moment: str, degree: int) -> np.ndarray:
    """Bars of the arm's first seed, which is 3."""
    where = (made["arm"] == arm) & (made["seed"] == 3) & (made["moment"] == moment) & (made["degree"] == degree)
    return made.loc[where, ["birth", "death"]].to_numpy()


def test_every_bar_of_an_arms_first_seed_is_a_point_once() -> None:
    made = table()
    found = diagram(made)
    for arm in ARMS:
        for moment in CALLED:
            for degree, name in DEGREES.items():
                own = found[(found["arm"] == arm) & (found["moment"] == moment) & (found["degree"] == name)]
                np.testing.assert_array_equal(own[["birth", "death"]], bars_of(made, arm, moment, degree))
    figure = DIAGRAM(made)
    titles = [axes.get_title(loc="left") for axes in figure.axes[:4]]
    assert titles == ["random twin", "first snapshot", "chosen epoch", "last snapshot"]
    assert to_svg(figure) == to_svg(DIAGRAM(made))


def test_barcodes_are_the_longest_bars_longest_first_loops_apart() -> None:
    made = table()
    assert len(bars_of(made, "additive", "first", 0)) > LONGEST
    found = barcode(made)
    for (arm, moment, name), own in found.groupby(["arm", "moment", "degree"]):
        degree = list(DEGREES.values()).index(str(name))
        bars = bars_of(made, str(arm), str(moment), degree)
        lengths = np.sort(bars[:, 1] - bars[:, 0])[::-1][:LONGEST]
        ordered = own.sort_values("place")
        np.testing.assert_allclose(ordered["high"] - ordered["low"], lengths)
        assert (ordered["place"] > LONGEST).all() == bool(degree)
    assert to_svg(BARCODE(made))


def test_the_loop_of_a_circle_is_the_longest_bar_of_its_degree() -> None:
    found = barcode(table())
    loops = found[(found["moment"] == "chosen") & (found["degree"] == DEGREES[1])].sort_values("place")
    for arm in ARMS:
        first, *rest = (loops["high"] - loops["low"])[loops["arm"] == arm]
        assert first > 1.0
        assert all(length < 0.1 for length in rest)


def test_a_moment_of_one_point_is_hatched_and_a_moment_that_no_arm_has_takes_no_column() -> None:
    made = table()
    lacking = made[~((made["arm"] == "additive") & (made["moment"] == "first"))]
    for form in (DIAGRAM, BARCODE):
        figure = form(lacking)
        hatched = [any(patch.get_gid() == "hatched" for patch in axes.patches) for axes in figure.axes]
        assert hatched == [place == 5 for place in range(8)]
        assert len(form(made[made["moment"] != "random"]).axes) == 6
