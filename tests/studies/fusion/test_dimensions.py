"""Hidden dimensions: mean and sd of each, one y-range, outliers named, runs kept separate."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.dimensions import hidden_dimensions

D = 40


def table(arms: tuple[str, ...] = ("additive", "fft"), seeds: tuple[int, ...] = (0, 1)) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for arm in arms:
        for seed in seeds:
            for step in (0, 8):
                mean, sd = rng.normal(size=D), rng.uniform(0.5, 1, size=D)
                if step == 8:
                    mean[[3, 7]] = 9.0, -8.0
                facts = {"step": step, "best": step == 8, "arm": arm, "seed": seed, "n": 50, "dimension": np.arange(D)}
                parts.append(pd.DataFrame({**facts, "mean": mean, "sd": sd, "outlier": abs(mean) > 6}))
    return pd.concat(parts, ignore_index=True)


def line(axes: Axes, kind: str) -> np.ndarray:
    (found,) = [one for one in axes.lines if one.get_gid() == kind]
    return np.array(found.get_data(), float)


def test_each_dimension_of_the_first_run_is_drawn() -> None:
    made = table()
    panels = iter(hidden_dimensions(made).axes)
    for arm in ("additive", "fft"):
        for step in (0, 8):
            axes, own = next(panels), made[(made["arm"] == arm) & (made["step"] == step) & (made["seed"] == 0)]
            np.testing.assert_array_equal(line(axes, "mean"), [own["dimension"], own["mean"]])
            heights = axes.collections[0].get_paths()[0].vertices[:, 1]
            np.testing.assert_allclose(heights.max(), (own["mean"] + own["sd"]).max())


def test_every_dimension_is_as_wide_as_the_next() -> None:
    made = table(arms=("fft",), seeds=(0,))
    axes = hidden_dimensions(made).axes[0]
    edges = np.unique(axes.collections[0].get_paths()[0].vertices[:, 0])
    np.testing.assert_array_equal(edges, np.arange(D + 1) - 0.5)


def test_panels_share_one_range_that_holds_everything() -> None:
    made = table()
    ((low, high),) = {axes.get_ylim() for axes in hidden_dimensions(made).axes}
    shown = made[made["seed"] == 0]
    assert low < (shown["mean"] - shown["sd"]).min()
    assert high > (shown["mean"] + shown["sd"]).max()


def test_outliers_are_marked_and_named() -> None:
    first, chosen = hidden_dimensions(table(arms=("fft",), seeds=(0,))).axes
    np.testing.assert_array_equal(line(chosen, "outliers"), [[3, 7], [9.0, -8.0]])
    assert [text.get_text() for text in chosen.texts] == ["3", "7", "n = 50 tokens, outliers: 2"]
    assert [text.get_text() for text in first.texts] == ["n = 50 tokens, no outlier"]


def test_titles_say_which_run_and_when() -> None:
    titles = [axes.get_title(loc="left") for axes in hidden_dimensions(table(arms=("fft",))).axes]
    assert titles == ["fft, seed 0, first snapshot (update 0)", "fft, seed 0, chosen epoch (update 8)"]


def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(hidden_dimensions(table())) == to_svg(hidden_dimensions(table()))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="no rows"):
        hidden_dimensions(table()[:0])
