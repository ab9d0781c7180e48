"""Attention: means over heads and seeds by layer, heads sorted by value, fixed ranges."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from isoscope.figures.style import to_svg
from isoscope.studies.fusion.head_maps import SUMMARIES, attention_curves, attention_heads

STEPS = (0, 4, 9)


def table(arms: tuple[str, ...] = ("additive", "fft"), seeds: int = 3, layers: int = 2, heads: int = 4) -> pd.DataFrame:
    """The run's chosen epoch is step 4."""
    rng = np.random.default_rng(0)
    rows = [
        {
            "step": step,
            "layer": layer + 1,
            "head": head,
            "arm": arm,
            "seed": seed,
            **{name: rng.uniform() * (7 if name == "distance" else 1) for name in SUMMARIES},
            "best": step == 4,
        }
        for arm in arms
        for seed in range(seeds)
        for step in (*STEPS, None)
        for layer in range(layers)
        for head in range(heads)
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def maps(figure: Figure) -> list[Axes]:
    return [axes for axes in figure.axes if axes.images]


def test_curves_are_the_means_over_heads_then_seeds() -> None:
    made = table()
    panels = iter(attention_curves(made).axes)
    for summary in SUMMARIES:
        for arm in ("additive", "fft"):
            axes = next(panels)
            for line, band, layer in zip(axes.lines, axes.collections, (1, 2), strict=True):
                own = made[(made["arm"] == arm) & (made["layer"] == layer)].dropna(subset="step")
                by_seed = own.groupby(["step", "seed"])[summary].mean().groupby("step")
                np.testing.assert_array_equal(line.get_xdata(), STEPS)
                np.testing.assert_allclose(line.get_ydata(), by_seed.mean())
                highest = band.get_paths()[0].vertices[:, 1].max()
                assert highest == pytest.approx((by_seed.mean() + by_seed.std()).max())


def test_layers_differ_in_marker_and_lightness() -> None:
    lines = attention_curves(table(arms=("fft",), seeds=1, layers=12, heads=1)).axes[0].lines
    assert len({(line.get_color(), line.get_marker()) for line in lines}) == 12


def test_heads_are_ranked_before_they_are_averaged() -> None:
    made = table()
    chosen = made[made["step"] == 4]
    for axes, arm in zip(maps(attention_heads(made)), ("additive", "fft"), strict=True):
        values = chosen[chosen["arm"] == arm].sort_values(["seed", "layer"])["entropy"].to_numpy().reshape(3, 2, 4)
        np.testing.assert_allclose(axes.images[0].get_array(), -np.sort(-values, axis=2).mean(0))
        assert axes.images[0].get_clim() == (0.0, 1.0)
        assert axes.get_title(loc="left") == f"{arm}\nn = 3 seeds"


def test_distance_runs_from_zero_to_the_largest_of_all() -> None:
    images = [axes.images[0] for axes in maps(attention_heads(table(), summary="distance"))]
    highest = max(image.get_array().max() for image in images)
    assert {image.get_clim() for image in images} == {(0.0, highest)}


def test_a_value_that_is_no_number_stays_empty() -> None:
    made = table(arms=("fft",), seeds=1)
    made.loc[(made["step"] == 4) & (made["head"] == 1), "entropy"] = np.nan
    assert to_svg(attention_curves(made))
    image = maps(attention_heads(made))[0].images[0]
    assert np.ma.getmaskarray(image.get_array())[:, -1].all(), "behind those that have a value"
    assert to_svg(attention_heads(made))


def test_equal_tables_give_equal_bytes() -> None:
    made = table(arms=("fft",), layers=1)
    assert to_svg(attention_curves(made)) == to_svg(attention_curves(made))
    assert to_svg(attention_heads(made)) == to_svg(attention_heads(made))


def test_refusals() -> None:
    with pytest.raises(ValueError, match="columns expected in the table: itself"):
        attention_curves(table().drop(columns="itself"))
