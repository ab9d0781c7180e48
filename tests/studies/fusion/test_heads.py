"""Heads: means over heads and seeds by layer, heads sorted by value, agreement beside its controls, fixed ranges."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.heads import SUMMARIES, attention_curves, attention_heads, head_agreement

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


def test_many_arms_are_rows_with_the_same_curves_and_scales() -> None:
    arms = tuple(f"arm_{number}" for number in range(8))
    few, many = (attention_curves(table(arms=arms[:count], seeds=1)) for count in (4, 8))
    assert many.axes[0].get_title(loc="left") == few.axes[0].get_ylabel()
    assert many.axes[0].get_ylabel() == "arm_0, n = 1 seed"
    grid = np.array(many.axes).reshape(8, len(SUMMARIES))
    assert {axes.get_ylim() for axes in grid[:, 1]} == {grid[0, 1].get_ylim()}
    assert grid[0, 0].get_ylim() != grid[0, 1].get_ylim()
    across = np.array(few.axes).reshape(len(SUMMARIES), 4)
    assert grid[3, 1].lines[0].get_ydata() == pytest.approx(across[1, 3].lines[0].get_ydata())


def agreements(arms: tuple[str, ...] = ("additive", "conv2d", "fft"), seeds: int = 2) -> pd.DataFrame:
    rows = []
    for layer in (1, 2, 3):
        for seed in range(seeds):
            for place, arm in enumerate(arms):
                base = {"seed": seed, "layer": layer, "heads": 4, "n": 3, "unpaired": 0.3, "arm": arm}
                rows.append({**base, "differ": "random", "other": arm, "other_seed": seed, "agreement": 0.4})
                if seed + 1 < seeds:
                    rows.append({**base, "differ": "seeds", "other": arm, "other_seed": seed + 1, "agreement": 0.8})
                rows += [
                    {**base, "differ": "arms", "other": other, "other_seed": seed, "agreement": 0.5 + 0.1 * seed}
                    for other in arms[place + 1 :]
                ]
    return pd.DataFrame(rows)


def test_a_line_for_every_two_arms_and_two_controls_for_each() -> None:
    left, right = head_agreement(agreements()).axes
    lines = [one for one in left.get_lines() if len(one.get_xdata()) == 3]
    assert len(lines) == 3
    assert lines[0].get_ydata() == pytest.approx([0.55] * 3)
    values = sorted(one.get_ydata()[0] for one in right.get_lines() if len(one.get_xdata()) == 3)
    assert values == pytest.approx([0.4] * 3 + [0.8] * 3)
    for axes in (left, right):
        assert axes.get_ylim() == (-0.02, 1.02)
    assert [text.get_text() for text in left.get_legend().get_texts()] == [
        "additive and conv2d", "additive and fft", "conv2d and fft",
    ]  # fmt: skip
    assert "3 sentences" in left.get_ylabel()


def test_of_many_arms_those_pairs_are_drawn_that_have_the_first() -> None:
    """A legend of all 105 pairs left no room for the panels: matplotlib warned and laid nothing out."""
    figure = head_agreement(agreements(tuple(f"a long name of an arm {number}" for number in range(15))))
    left, right = figure.axes
    assert len([one for one in left.get_lines() if len(one.get_xdata()) == 3]) == 14
    named = head_agreement(agreements(tuple("abcdefghijklmno"))).axes[0].get_legend().get_texts()
    assert [text.get_text() for text in named] == [f"a and {one}" for one in "bcdefghijklmno"]
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in (left, right):
        assert axes.get_window_extent(renderer).height > 1.5 * figure.dpi
        texts = [text.get_window_extent(renderer) for text in axes.get_legend().get_texts()]
        assert min(one.y0 for one in texts) > 0
        assert max(one.y1 for one in texts) < axes.get_window_extent(renderer).y0


def test_one_arm_with_one_seed_has_its_twin_alone() -> None:
    figure = head_agreement(agreements(("additive",), seeds=1))
    left, right = figure.axes
    assert any(patch.get_gid() == "hatched" for patch in left.patches)
    assert len([one for one in right.get_lines() if len(one.get_xdata()) == 3]) == 1
    assert to_svg(figure) == to_svg(head_agreement(agreements(("additive",), seeds=1)))
