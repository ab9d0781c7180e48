"""Gradient noise: geometric means over seeds on two logarithmic axes, a panel for each part with gradients."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from isoscope.figures.style import WIDTH, to_svg
from isoscope.studies.fusion.gradient_noise import GRADIENTS, gradient_noise, power
from isoscope.studies.view import pictures

STEPS = (0, 1, 10, 100)


def table(arms: tuple[str, ...] = ("additive", "conv2d"), seeds: int = 3) -> pd.DataFrame:
    """Noise of three parts; only `conv2d` has a fusion with weights."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "seed": seed, "step": step, "part": part, "noise": 10 ** rng.uniform(-2, 5)}
        for arm in arms
        for seed in range(seeds)
        for step in STEPS
        for part in ("fusion", "word", "norm")
    ]
    made = pd.DataFrame(rows)
    made.loc[(made["arm"] == "additive") & (made["part"] == "fusion"), "noise"] = np.nan
    return made


def means(axes: Axes) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(one.get_xdata()), np.asarray(one.get_ydata())) for one in axes.lines if one.get_gid() == "mean"]


def test_lines_are_geometric_means_and_bands_a_factor() -> None:
    made = table()
    figure = gradient_noise(made)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Word table", "LayerNorm", "Fusion"]
    for axes, part in zip(figure.axes[:2], ("word", "norm"), strict=True):
        for (step, mean), band, arm in zip(means(axes), axes.collections, ("additive", "conv2d"), strict=True):
            own = np.log(made[(made["arm"] == arm) & (made["part"] == part)].set_index("step")["noise"])
            over = own.groupby("step")
            np.testing.assert_array_equal(step, STEPS)
            np.testing.assert_allclose(mean, np.exp(over.mean()))
            heights = band.get_paths()[0].vertices[:, 1]
            np.testing.assert_allclose(heights.max(), np.exp((over.mean() + over.std()).max()))
            np.testing.assert_allclose(heights.min(), np.exp((over.mean() - over.std()).min()))


def test_an_arm_without_the_part_has_no_point_in_its_panel() -> None:
    additive, conv2d = means(gradient_noise(table()).axes[-1])
    assert np.isnan(additive[1]).all()
    assert np.isfinite(conv2d[1]).all()


def test_one_seed_has_no_band() -> None:
    axes = gradient_noise(table(arms=("conv2d",), seeds=1)).axes[0]
    (line,) = means(axes)
    np.testing.assert_allclose(np.unique(axes.collections[0].get_paths()[0].vertices[:, 1]), np.unique(line[1]))


def test_a_gradient_that_does_not_vary_has_no_logarithm_and_is_left_out() -> None:
    made = table(arms=("conv2d",), seeds=2)
    before = means(gradient_noise(made).axes[0])[0][1]
    made.loc[(made["part"] == "word") & (made["seed"] == 1), "noise"] = 0.0
    _, after = means(gradient_noise(made).axes[0])[0]
    rest = made[(made["part"] == "word") & (made["seed"] == 0)].sort_values("step")["noise"]
    np.testing.assert_allclose(after, rest)
    assert not np.allclose(before, after)


def test_the_axes_say_what_they_are_in_words_a_page_can_draw() -> None:
    figure = gradient_noise(table())
    figure.draw_without_rendering()
    first = figure.axes[0]
    assert first.get_yscale() == "log"
    low, high = first.get_ylim()
    ticks = [text.get_text() for text in first.get_yticklabels()]
    assert {f"10{exponent}" for exponent in "⁰²³"} <= set(ticks)
    assert not [tick for tick in ticks if "$" in tick]
    assert low < 1 < 1000 < high
    assert "variance over batches" in first.get_ylabel()
    assert {axes.get_xlabel() for axes in figure.axes} == {"Update"}


@pytest.mark.parametrize("value, text", [(1.0, "10⁰"), (1e-12, "10⁻¹²"), (1e5, "10⁵")])
def test_powers_are_written_with_raised_digits(value: float, text: str) -> None:
    assert power(value) == text


def test_the_legend_says_n_and_the_figure_fits_a_page() -> None:
    parts = [table().assign(part=part) for part in ("word", "position", "token_type", "norm", "fusion")]
    figure = gradient_noise(pd.concat(parts))
    assert len(figure.axes) == 5
    assert figure.get_figwidth() <= WIDTH
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "additive, n = 3 seeds",
        "conv2d, n = 3 seeds",
    ]


def test_equal_tables_give_equal_bytes() -> None:
    assert to_svg(gradient_noise(table())) == to_svg(gradient_noise(table())) != to_svg(gradient_noise(table(seeds=2)))


def test_noise_alone_is_no_picture_of_a_study() -> None:
    made = table()
    assert [one.name for one in pictures([GRADIENTS], {"gradients": made})] == ["gradients"]
    alone = made.assign(noise=np.nan)
    assert list(pictures([GRADIENTS], {"gradients": alone})) == []
