"""Cosines of tokens: the given matrices and means, on a scale from −1 to 1."""

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.token_cosines import PAIRS, PARTS, cosine_maps, cosine_summary


def cosines(n: int, seed: int) -> NDArray[np.float64]:
    points = np.random.default_rng(seed).normal(size=(n, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    found: NDArray[np.float64] = points @ points.T
    return found


def table(arms: tuple[str, ...] = ("additive", "fft"), seeds: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {
            "snapshot": name,
            "step": step,
            "best": step == 8,
            "part": part,
            "pairs": kind,
            "cosine": rng.uniform(),
            "n": 9,
        }
        | {"arm": arm, "seed": seed}
        for arm in arms
        for seed in range(seeds)
        for name, step in (("step-0", 0), ("step-8", 8), ("step-9", 9), ("random", None))
        for part in PARTS
        for kind in PAIRS
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def points(axes: Axes) -> list[tuple[float, float, bool]]:
    """(mean, half of the bar, filled) of each point, from the top down."""
    found = []
    for one in axes.containers:
        line, _, bars = one.lines
        reach = float(np.ptp(bars[0].get_segments()[0][:, 0])) / 2 if bars else 0.0
        found.append((float(line.get_xdata()[0]), reach, line.get_markerfacecolor() != "none"))
    return found


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def test_maps_show_the_matrices_on_one_scale() -> None:
    panels = [(arm, cosines(6, seed)) for seed, arm in enumerate(("additive", "conv2d", "fft"))]
    for axes, (title, matrix) in zip(maps(cosine_maps(panels)), panels, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert axes.images[0].get_clim() == (-1.0, 1.0)
        mean = matrix[~np.eye(6, dtype=bool)].mean()
        assert axes.get_title(loc="left") == f"{title}\nmean {mean:.2f}".replace("-", "−")


def test_what_is_no_number_stays_empty() -> None:
    matrix = cosines(4, 0)
    matrix[2] = matrix[:, 2] = np.nan
    (axes,) = maps(cosine_maps([("fft", matrix)]))
    np.testing.assert_array_equal(np.ma.getmaskarray(axes.images[0].get_array()), np.isnan(matrix))
    (axes,) = maps(cosine_maps([("fft", np.full((3, 3), np.nan))]))
    assert axes.get_title(loc="left") == "fft\nno number"


def test_tokens_are_written_where_there_is_room() -> None:
    words = ["$\\frac{", "not", "bad", "<b>"]
    figure = cosine_maps([("fft", cosines(4, 0))], tokens=words)
    assert [label.get_text() for label in figure.axes[0].get_xticklabels()] == words
    assert "<b>" not in to_svg(figure)
    figure = cosine_maps([("fft", cosines(50, 0))], tokens=["x"] * 50)
    assert figure.axes[0].get_xlabel() == "Token"


def test_means_are_the_tables_first_hollow_chosen_filled() -> None:
    made = table()
    for axes, part in zip(cosine_summary(made).axes, PARTS, strict=True):
        expected = []
        for kind in PAIRS:
            for arm in ("additive", "fft"):
                for step in (0, 8):
                    own = made[(made["arm"] == arm) & (made["part"] == part) & (made["pairs"] == kind)]
                    value = own.loc[own["step"] == step, "cosine"]
                    expected.append((value.mean(), value.std(), step == 8))
        np.testing.assert_allclose(np.array(points(axes), float), np.array(expected, float))


def test_one_seed_has_no_bar() -> None:
    assert {reach for _, reach, _ in points(cosine_summary(table(seeds=1)).axes[0])} == {0.0}


def test_the_legend_says_n_and_when() -> None:
    found = [text.get_text() for text in cosine_summary(table(seeds=1)).legends[0].get_texts()]
    assert found == ["additive, n = 1 seed", "fft, n = 1 seed", "first snapshot (update 0)", "chosen epoch (update 8)"]


def test_equal_data_give_equal_bytes() -> None:
    assert to_svg(cosine_summary(table())) == to_svg(cosine_summary(table()))
    assert to_svg(cosine_maps([("a", cosines(9, 0))])) == to_svg(cosine_maps([("a", cosines(9, 0))]))
