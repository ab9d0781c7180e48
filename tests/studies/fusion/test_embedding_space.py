"""The embedding space: every token in a plane, the evidence behind the map, and each hidden dimension."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.view import View
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.figures.style import to_svg
from isoscope.studies.fusion.embedding_space import DIMENSIONS, EVIDENCE, MAP, PCA, READ_BACK

ARMS = ("additive", "conv2d", "fft")


def drawn(view: View, *tables: pd.DataFrame) -> pd.DataFrame:
    form: Any = view.form
    found: pd.DataFrame = form.drawn(*tables)
    return found


def points(n: int = 30) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = [pd.DataFrame({"arm": arm, "x": rng.normal(size=n), "y": rng.normal(size=n)}) for arm in ARMS]
    return pd.concat(parts, ignore_index=True).assign(position=rng.integers(0, 9, 3 * n))


def test_every_token_has_its_place_and_pca_is_never_drawn_from_tsne_coordinates() -> None:
    made = points().assign(pc1=lambda rows: 5 * rows["x"], pc2=lambda rows: rows["y"] - 1)
    np.testing.assert_array_equal(drawn(MAP, made)[["x", "y"]], made[["x", "y"]])
    np.testing.assert_array_equal(drawn(PCA, made)[["x", "y"]], made[["pc1", "pc2"]])
    for table in (made, made.drop(columns="position"), made.assign(position=np.nan)):
        assert to_svg(MAP.form(table)) == to_svg(MAP.form(table))


def rows(column: str, kinds: tuple[str, ...], chance: str) -> pd.DataFrame:
    draw = np.random.default_rng(0)
    about = [
        {"arm": arm, "seed": seed, "step": step, "best": step == 8, "part": part, column: kind}
        for arm in ("additive", "fft")
        for seed in (0, 1, 2)
        for step in (0, 8, None)
        for part in ("fused", "normed")
        for kind in kinds
    ]
    return pd.DataFrame([{**one, "rate": draw.uniform(0.3, 0.9), chance: 0.1} for one in about]).astype(
        {"step": "Int64"}
    )


def test_the_first_and_the_chosen_snapshot_stand_beside_chance() -> None:
    neighbours = rows("neighbours", ("same word", "same position"), "chance")
    decoding = rows("read", ("word", "position"), "control")
    found = drawn(EVIDENCE, neighbours, decoding)
    assert found["chance"].to_numpy() == pytest.approx(0.1)
    for table, column in ((neighbours, "neighbours"), (decoding, "read")):
        own = table[table["part"] == "normed"].dropna(subset="step")
        means = own.groupby(["arm", column, "step"])["rate"].mean()
        for (arm, kind, step), mean in means.items():
            (one,) = found[
                (found["arm"] == arm) & (found["kind"] == kind) & (found["end"] == ("chosen" if step == 8 else "first"))
            ]["rate"]
            assert one == pytest.approx(mean)
    assert len(found) == 16


def dimensions(seeds: tuple[int, ...] = (0, 1)) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    parts = []
    for arm in ("additive", "fft"):
        for seed in seeds:
            for step in (0, 8):
                mean, sd = rng.normal(size=40), rng.uniform(0.5, 1, size=40)
                if step == 8:
                    mean[[3, 7]] = 9.0, -8.0
                facts = {"step": step, "best": step == 8, "arm": arm, "seed": seed, "n": 50, "dimension": np.arange(40)}
                parts.append(pd.DataFrame({**facts, "mean": mean, "sd": sd, "outlier": abs(mean) > 6}))
    return pd.concat(parts, ignore_index=True)


def test_each_dimension_of_the_first_run_is_drawn_and_outliers_are_named() -> None:
    made = dimensions()
    found = drawn(DIMENSIONS, made)
    own = made[made["seed"] == 0]
    assert len(found) == len(own) == 160
    for (arm, step), rows_of in own.groupby(["arm", "step"]):
        one = found[(found["arm"] == arm) & (found["end"] == ("chosen" if step else "first"))]
        np.testing.assert_array_equal(one["mean"], rows_of["mean"])
        np.testing.assert_allclose(one["high"], rows_of["mean"] + rows_of["sd"])
        np.testing.assert_allclose(one["low"], rows_of["mean"] - rows_of["sd"])
        assert one.loc[one["mark"].notna(), "dimension"].tolist() == ([3, 7] if step else [])
        assert set(one["note"]) == {"n = 50 tokens, " + ("outliers: 2 (3, 7)" if step else "no outlier")}


def decoded() -> pd.DataFrame:
    found = []
    for number, (arm, seed) in enumerate((arm, seed) for arm in ("additive", "fft") for seed in (0, 1, 2)):
        for step, best in ((0, False), (9, True)):
            who = {"arm": arm, "seed": seed, "step": step, "best": best, "snapshot": f"step-{step}"}
            for layer, part in enumerate(("normed", "layer 1", "layer 2")):
                for read in ("word", "position"):
                    rate = 1 - 0.1 * layer - 0.01 * number - 0.3 * (step == 0) - 0.05 * (read == "position")
                    found.append({**who, "part": part, "read": read, "rate": rate, "control": 0.05})
            found.append({**who, "part": "fused", "read": "word", "rate": 0.0, "control": 0.0})
    return pd.DataFrame(found).astype({"step": "Int64"})


def test_what_is_read_back_is_the_mean_over_seeds_at_the_chosen_epoch() -> None:
    (picture,) = pictures([READ_BACK], {"decoding": decoded()})
    found = drawn(READ_BACK, *picture.table)
    word = found[(found["arm"] == "additive") & (found["read"] == "word")]
    assert word["layer"].tolist() == [0, 1, 2]
    assert word["rate"].to_numpy() == pytest.approx(0.99 - 0.1 * np.arange(3))
    assert found["control"].to_numpy() == pytest.approx(0.05)
    block = decoded()[lambda rows: ~rows["part"].str.startswith("layer")]
    (picture,) = pictures([READ_BACK], {"decoding": block})
    assert set(drawn(READ_BACK, *picture.table)["layer"]) == {0}
    assert not list(pictures([READ_BACK], {"decoding": block[block["part"] == "fused"]}))
