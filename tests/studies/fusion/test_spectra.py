"""Spectra, kernels and gradient noise: means over seeds, controls, theoretical levels, logarithmic axes."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes

from isoscope.platform.figures.style import WIDTH, to_svg
from isoscope.studies.fusion.spectra import (
    BINS,
    GRADIENTS,
    PARTS,
    PLACES,
    ROWS,
    THEORY,
    frequency_magnitudes,
    gradient_noise,
    kernel,
    kernel_response,
    power,
    spectra,
)
from isoscope.studies.view import pictures

STEPS = (0, 4, 9)


def spectrum(arms: tuple[str, ...] = ("additive", "fft"), seeds: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = ("flatness", "dead", "flatness_permuted", "dead_permuted")
    rows = [
        {"step": step, "part": part, "arm": arm, "seed": seed, **{name: rng.uniform() for name in values}}
        for arm in arms
        for seed in range(seeds)
        for step in (*STEPS, None)
        for part in (*PARTS, "normed")
    ]
    return pd.DataFrame(rows).astype({"step": "Int64"})


def energy(arms: tuple[str, ...] = ("conv2d",), sources: tuple[str, ...] = ("word", "position")) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    rows = [
        {"step": step, "source": source, "arm": arm, "seed": seed, **{place: rng.uniform() for place in PLACES}}
        for arm in arms
        for seed in range(2)
        for step in STEPS
        for source in sources
    ]
    return pd.DataFrame(rows)


def lines(axes: Axes, kind: str) -> list[np.ndarray]:
    return [np.asarray(one.get_ydata()) for one in axes.lines if one.get_gid() == kind]


def test_spectra_are_the_means_beside_their_control_and_theory() -> None:
    made = spectrum()
    panels = iter(spectra(made).axes)
    for value in ROWS:
        for part in PARTS:
            axes = next(panels)
            for kind in (value, f"{value}_permuted"):
                for drawn, arm in zip(lines(axes, kind), ("additive", "fft"), strict=True):
                    own = made[(made["arm"] == arm) & (made["part"] == part)].dropna(subset="step")
                    np.testing.assert_allclose(drawn, own.groupby("step")[kind].mean())
            assert [set(level) for level in lines(axes, "theory")] == [{level} for level in THEORY[value]]
            assert all(line.is_dashed() for line in axes.lines if line.get_gid() == f"{value}_permuted")
            assert axes.get_ylim()[0] == 0.0


def test_theory_follows_from_its_formula() -> None:
    flat = float(np.exp(-np.euler_gamma))
    assert THEORY["flatness"] == pytest.approx((flat, flat**2), abs=5e-4)


def test_a_part_that_no_model_has_is_left_out() -> None:
    figure = spectra(spectrum()[lambda rows: rows["part"] != "position"])
    assert [axes.get_title(loc="left") for axes in figure.axes[:2]] == ["Word embedding", "Fused"]


def test_kernel_shares_are_the_means() -> None:
    made = energy(sources=("word", "token_type", "position"))
    for axes, source in zip(kernel(made).axes, ("word", "token_type", "position"), strict=True):
        for place in PLACES:
            (drawn,) = lines(axes, place)
            np.testing.assert_allclose(drawn, made[made["source"] == source].groupby("step")[place].mean())


@pytest.mark.parametrize("high", ["word", "position"])
def test_no_kernel_share_is_outside_its_panel(high: str) -> None:
    made = energy()
    made.loc[made["source"] != high, list(PLACES)] *= 0.01
    for axes in kernel(made).axes:
        assert axes.get_ylim()[0] == 0
        assert all(line.get_ydata().max() <= axes.get_ylim()[1] for line in axes.lines)


def test_arms_without_a_kernel_are_simply_absent() -> None:
    titles = [axes.get_title(loc="left") for axes in kernel(energy(arms=("conv2d", "residual"))).axes]
    assert titles == [
        f"{source}: {arm}, n = 2 seeds" for arm in ("conv2d", "residual") for source in ("Word", "Position")
    ]
    with pytest.raises(ValueError, match="no rows"):
        kernel(pd.DataFrame())


def test_responses_start_at_zero_and_share_their_scale() -> None:
    rng = np.random.default_rng(0)
    panels = [("word", rng.uniform(size=(16, 16))), ("position", 3 * rng.uniform(size=(16, 16)))]
    maps = [axes for axes in kernel_response(panels).axes if axes.images]
    for axes, (title, matrix) in zip(maps, panels, strict=True):
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert axes.images[0].get_clim() == (0.0, panels[1][1].max())
        assert axes.get_title(loc="left") == title


def test_zero_frequency_stands_at_the_origin() -> None:
    matrix = np.zeros((8, 8))
    matrix[4, 4] = 1.0  # where fftshift puts it
    axes = kernel_response([("word", matrix)]).axes[0]
    left, right, bottom, top = axes.images[0].get_extent()
    assert left + (4.5 / 8) * (right - left) == bottom + (4.5 / 8) * (top - bottom) == 0.0


def test_equal_tables_give_equal_bytes() -> None:
    for made in (
        lambda: spectra(spectrum(arms=("fft",), seeds=1)),
        lambda: kernel(energy()),
        lambda: kernel_response([("a", np.eye(9))]),
        lambda: gradient_noise(gradients()),
    ):
        assert to_svg(made()) == to_svg(made())


def test_a_loud_frequency_stands_out_in_its_part_alone() -> None:
    frequency = np.arange(1, 97)
    parts = [
        pd.DataFrame(
            {
                "arm": arm,
                "seed": seed,
                "step": step,
                "best": step == 8,
                "part": part,
                "frequency": frequency,
                "magnitude": 1.0 + 5.0 * ((frequency > 92) & (part == "fused")),
            }
        )
        for arm in ("additive", "fft")
        for seed in range(3)
        for step in (0, 8)
        for part in ("word", "fused")
    ]
    word, fused = frequency_magnitudes(pd.concat(parts)).axes
    lines = [line for line in fused.lines if line.get_gid() in ("first", "chosen")]
    assert len(lines) == 4
    for line in lines:
        assert len(line.get_xdata()) == BINS
        assert line.get_ydata()[-1] == pytest.approx(6.0)
        assert np.allclose(line.get_ydata()[:-1], 1.0)
    assert all(np.allclose(line.get_ydata(), 1.0) for line in word.lines)


TIMES = (0, 1, 10, 100)


def gradients(arms: tuple[str, ...] = ("additive", "conv2d"), seeds: int = 3) -> pd.DataFrame:
    """Noise of three parts; only `conv2d` has a fusion with weights."""
    rng = np.random.default_rng(0)
    rows = [
        {"arm": arm, "seed": seed, "step": step, "part": part, "noise": 10 ** rng.uniform(-2, 5)}
        for arm in arms
        for seed in range(seeds)
        for step in TIMES
        for part in ("fusion", "word", "norm")
    ]
    made = pd.DataFrame(rows)
    made.loc[(made["arm"] == "additive") & (made["part"] == "fusion"), "noise"] = np.nan
    return made


def means(axes: Axes) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(np.asarray(one.get_xdata()), np.asarray(one.get_ydata())) for one in axes.lines if one.get_gid() == "mean"]


def test_lines_are_geometric_means_and_bands_a_factor() -> None:
    made = gradients()
    figure = gradient_noise(made)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Word table", "LayerNorm", "Fusion"]
    for axes, part in zip(figure.axes[:2], ("word", "norm"), strict=True):
        for (step, mean), band, arm in zip(means(axes), axes.collections, ("additive", "conv2d"), strict=True):
            own = np.log(made[(made["arm"] == arm) & (made["part"] == part)].set_index("step")["noise"])
            over = own.groupby("step")
            np.testing.assert_array_equal(step, TIMES)
            np.testing.assert_allclose(mean, np.exp(over.mean()))
            heights = band.get_paths()[0].vertices[:, 1]
            np.testing.assert_allclose(heights.max(), np.exp((over.mean() + over.std()).max()))
            np.testing.assert_allclose(heights.min(), np.exp((over.mean() - over.std()).min()))


def test_an_arm_without_the_part_has_no_point_in_its_panel() -> None:
    additive, conv2d = means(gradient_noise(gradients()).axes[-1])
    assert np.isnan(additive[1]).all()
    assert np.isfinite(conv2d[1]).all()


def test_one_seed_has_no_band() -> None:
    axes = gradient_noise(gradients(arms=("conv2d",), seeds=1)).axes[0]
    (line,) = means(axes)
    np.testing.assert_allclose(np.unique(axes.collections[0].get_paths()[0].vertices[:, 1]), np.unique(line[1]))


def test_a_gradient_that_does_not_vary_has_no_logarithm_and_is_left_out() -> None:
    made = gradients(arms=("conv2d",), seeds=2)
    before = means(gradient_noise(made).axes[0])[0][1]
    made.loc[(made["part"] == "word") & (made["seed"] == 1), "noise"] = 0.0
    _, after = means(gradient_noise(made).axes[0])[0]
    rest = made[(made["part"] == "word") & (made["seed"] == 0)].sort_values("step")["noise"]
    np.testing.assert_allclose(after, rest)
    assert not np.allclose(before, after)


def test_the_axes_say_what_they_are_in_words_a_page_can_draw() -> None:
    figure = gradient_noise(gradients())
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
    parts = [gradients().assign(part=part) for part in ("word", "position", "token_type", "norm", "fusion")]
    figure = gradient_noise(pd.concat(parts))
    assert len(figure.axes) == 5
    assert figure.get_figwidth() <= WIDTH
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "additive, n = 3 seeds",
        "conv2d, n = 3 seeds",
    ]


def test_noise_alone_is_no_picture_of_a_study() -> None:
    made = gradients()
    assert [one.name for one in pictures([GRADIENTS], {"gradients": made})] == ["gradients"]
    alone = made.assign(noise=np.nan)
    assert list(pictures([GRADIENTS], {"gradients": alone})) == []
