"""Heads: means over heads and seeds by layer, heads sorted by value, agreement beside its controls, fixed ranges."""

from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.view import View
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.heads import AGREEMENT, CURVES, HEADS, SUMMARIES

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


def drawn(view: View, made: pd.DataFrame) -> pd.DataFrame:
    form: Any = view.form
    found: pd.DataFrame = form.drawn(made)
    to_svg(form(made))
    return found


def test_curves_are_the_means_over_heads_then_seeds() -> None:
    made = table()
    found = drawn(CURVES, made).set_index(["arm", "layer", "summary", "column"]).sort_index()
    for arm, layer, summary in product(("additive", "fft"), (1, 2), SUMMARIES):
        own = made[(made["arm"] == arm) & (made["layer"] == layer)].dropna(subset="step")
        by_seed = own.groupby(["step", "seed"])[summary].mean().groupby("step")
        rows = found.loc[arm, layer, summary]
        np.testing.assert_array_equal(rows.index, STEPS)
        np.testing.assert_allclose(rows["value"], by_seed.mean())
        high = by_seed.mean() + by_seed.std()
        np.testing.assert_allclose(rows["high"], high if summary == "distance" else high.clip(upper=1.0))


def test_heads_are_ranked_before_they_are_averaged() -> None:
    made = table()
    made.loc[(made["step"] == 4) & (made["head"] == 1) & (made["seed"] == 0), "entropy"] = np.nan
    found, chosen = drawn(HEADS, made), made[made["step"] == 4]
    for arm in ("additive", "fft"):
        values = chosen[chosen["arm"] == arm].sort_values(["seed", "layer"])["entropy"].to_numpy().reshape(3, 2, 4)
        cells = found[found["arm"] == arm].pivot(index="layer", columns="rank", values="value")
        with np.errstate(all="ignore"):
            np.testing.assert_allclose(cells, np.nanmean(-np.sort(-values, axis=2), axis=0))
    assert set(found["note"]) == {"n = 3 seeds"}


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
    found = drawn(AGREEMENT, agreements())
    between = found[found["differ"] == "arms"]
    assert between["pair"].unique().tolist() == ["additive and conv2d", "additive and fft", "conv2d and fft"]
    assert between["value"].to_numpy() == pytest.approx(0.55)
    controls = found[found["differ"] != "arms"].groupby(["pair", "differ"])["value"].agg(["mean", "size"])
    assert controls["size"].tolist() == [3] * 6
    assert sorted(controls["mean"]) == pytest.approx([0.4] * 3 + [0.8] * 3)
    caption = AGREEMENT.caption(agreements())  # type: ignore[operator]
    assert "n = 3 sentences. With so few" in caption


def test_of_many_arms_those_pairs_are_drawn_that_have_the_first() -> None:
    found = drawn(AGREEMENT, agreements(tuple("abcdefghijklmno")))
    assert found.loc[found["differ"] == "arms", "pair"].unique().tolist() == [
        f"a and {one}" for one in "bcdefghijklmno"
    ]
    alone = drawn(AGREEMENT, agreements(("additive",), seeds=1))
    assert set(alone["differ"]) == {"random"}
