"""Spectra, kernels and gradient noise: means over seeds, controls, theoretical levels, logarithmic axes."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.view import View
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.spectra import (
    BINS,
    GRADIENTS,
    KERNEL,
    MAGNITUDES,
    PARTS,
    PLACES,
    RESPONSE,
    ROWS,
    SPECTRUM,
    THEORY,
)

STEPS = (0, 4, 9)


def spectrum(arms: tuple[str, ...] = ("additive", "fft"), seeds: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    values = ("flatness", "dead", "flatness_permuted", "dead_permuted")
    rows = [
        {"step": step, "part": part, "arm": arm, "seed": seed, **{name: rng.uniform() for name in values}}
        for arm in arms
        for seed in range(seeds)
        for step in (*STEPS, None)
        for part in PARTS
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


def of(view: View, made: pd.DataFrame) -> pd.DataFrame:
    form: Any = view.form
    found: pd.DataFrame = form.drawn(made)
    assert to_svg(form(made)) == to_svg(form(made))
    return found


def test_spectra_are_the_means_beside_their_control_and_theory() -> None:
    made = spectrum()
    found = of(SPECTRUM, made).set_index(["quantity", "part", "arm", "column"]).sort_index()
    for (part, arm, step), own in made.dropna(subset="step").groupby(["part", "arm", "step"]):
        for name, label in ROWS.items():
            row = found.loc[(label, part, arm, step)]
            assert row["value"] == pytest.approx(own[name].mean())
            assert row["permuted"] == pytest.approx(own[f"{name}_permuted"].mean())
            assert (row["normal"], row["convolved"]) == pytest.approx(THEORY[name])


def test_theory_follows_from_its_formula() -> None:
    flat = float(np.exp(-np.euler_gamma))
    assert THEORY["flatness"] == pytest.approx((flat, flat**2), abs=5e-4)


def test_kernel_shares_are_the_means() -> None:
    made = energy(arms=("conv2d", "residual"), sources=("word", "token_type", "position"))
    found = of(KERNEL, made).set_index(["arm", "source", "column", "place"]).sort_index()
    means = made.groupby(["arm", "source", "step"])[[*PLACES]].mean()
    for (arm, source, step), own in means.iterrows():
        for place in PLACES:
            assert found.loc[(arm, source, step, place), "value"] == pytest.approx(own[place])
    with pytest.raises(ValueError, match="no rows"):
        of(KERNEL, made[:0])


def test_responses_start_at_zero_share_their_scale_and_have_zero_frequency_in_the_middle() -> None:
    rng = np.random.default_rng(0)
    matrices = [rng.uniform(size=(8, 16)), 3 * rng.uniform(size=(8, 16))]
    made = pd.concat([
        pd.DataFrame({"arm": "conv2d", "moment": "chosen", "source": source, "magnitudes": list(matrix)})
        for source, matrix in zip(("word", "position"), matrices, strict=True)
    ])  # fmt: skip
    figure, found = RESPONSE.form(made), of(RESPONSE, made)
    for axes, matrix in zip(figure.axes, matrices, strict=False):
        np.testing.assert_array_equal(axes.images[0].get_array(), matrix)
        assert axes.images[0].get_clim() == (0.0, matrices[1].max())
    assert figure.axes[0].get_title(loc="left") == "conv2d, chosen: word"
    middle = found[(found["tokens"] == 0) & (found["hidden"] == 0)]
    assert middle["magnitude"].tolist() == [matrix[4, 8] for matrix in matrices]


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
    found = of(MAGNITUDES, pd.concat(parts, ignore_index=True))
    for (part, *_), own in found.groupby(["part", "arm", "moment"]):
        assert len(own) == BINS
        own = own.sort_values("frequency")
        assert own["magnitude"].iloc[-1] == pytest.approx(6.0 if part == "fused" else 1.0)
        assert np.allclose(own["magnitude"].iloc[:-1], 1.0)
    assert found["moment"].iloc[0].startswith("chosen"), "its line is solid"


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


def test_noise_is_a_geometric_mean_and_its_band_a_factor() -> None:
    made = gradients()
    found = of(GRADIENTS, made).set_index(["part", "arm", "column"]).sort_index()
    for (part, arm, step), own in made.dropna(subset="noise").groupby(["part", "arm", "step"]):
        log = np.log(own["noise"])
        row = found.loc[(part, arm, step)]
        assert row["noise"] == pytest.approx(np.exp(log.mean()))
        assert row["high"] == pytest.approx(np.exp(log.mean() + log.std()))
        assert row["low"] == pytest.approx(np.exp(log.mean() - log.std()))
    assert "additive" not in found.loc["fusion"].index.get_level_values("arm")
    figure = GRADIENTS.form(made)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["Word table", "LayerNorm", "Fusion"]
    assert "$" not in "".join(text.get_text() for text in figure.axes[0].get_yticklabels())


def test_a_gradient_that_does_not_vary_has_no_logarithm_and_is_left_out() -> None:
    made = gradients(arms=("conv2d",), seeds=2)
    made.loc[(made["part"] == "word") & (made["seed"] == 1), "noise"] = 0.0
    found = of(GRADIENTS, made)
    word = found[found["part"] == "word"].sort_values("column")
    rest = made[(made["part"] == "word") & (made["seed"] == 0)].sort_values("step")["noise"]
    np.testing.assert_allclose(word["noise"], rest)
    np.testing.assert_allclose(word["low"], word["high"], err_msg="a single seed has no sd")


def test_noise_alone_is_no_picture_of_a_study() -> None:
    made = gradients()
    assert [one.name for one in pictures([GRADIENTS], {"gradients": made})] == ["gradients"]
    assert list(pictures([GRADIENTS], {"gradients": made.assign(noise=np.nan)})) == []
