"""Cosines of tokens: the given matrices and means, on a scale from −1 to 1."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from isoscope.base.view import View
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.token_cosines import COSINE_MAPS, COSINES, PAIRS, PARTS


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


def of(view: View, *tables: pd.DataFrame) -> pd.DataFrame:
    form: Any = view.form
    found: pd.DataFrame = form.drawn(*tables)
    return found


def test_maps_show_the_matrices_on_one_scale() -> None:
    matrices = {arm: cosines(6, seed) for seed, arm in enumerate(("additive", "fft"))}
    matrices["fft"][2] = matrices["fft"][:, 2] = np.nan
    made = pd.concat([pd.DataFrame({"arm": arm, "cosines": list(matrix)}) for arm, matrix in matrices.items()])
    figure = COSINE_MAPS.form(made)
    for axes, (arm, matrix) in zip(figure.axes, matrices.items(), strict=False):
        np.testing.assert_array_equal(np.ma.filled(axes.images[0].get_array(), np.nan), matrix)
        assert axes.images[0].get_clim() == (-1.0, 1.0)
        mean = np.nanmean(matrix[~np.eye(6, dtype=bool)])
        assert axes.get_title(loc="left") == f"{arm}\nmean {mean:.2f}".replace("-", "−")
    nothing = made[made["arm"] == "fft"].assign(cosines=[np.full(6, np.nan)] * 6)
    assert set(of(COSINE_MAPS, nothing)["note"]) == {"no number"}
    assert to_svg(figure) == to_svg(COSINE_MAPS.form(made))


def test_means_are_the_tables_first_and_chosen() -> None:
    made = table()
    found = of(COSINES, made).set_index(["part", "arm", "pairs", "end"]).sort_index()
    steps = made[made["step"].isin([0, 8])]
    for (part, arm, pairs, step), own in steps.groupby(["part", "arm", "pairs", "step"]):
        row = found.loc[(part, arm, pairs, "chosen" if step else "first")]
        assert row["cosine"] == pytest.approx(own["cosine"].mean())
        assert row["high"] - row["cosine"] == pytest.approx(own["cosine"].std())
        assert row["moment"] == ("chosen epoch (update 8)" if step else "first snapshot (update 0)")
    assert len(found) == 2 * 2 * len(PARTS) * len(PAIRS)
    alone = of(COSINES, table(seeds=1))
    np.testing.assert_array_equal(alone["low"], alone["high"], err_msg="a single seed has no sd")
