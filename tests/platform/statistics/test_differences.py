"""Comparison of arms by their measures, against scipy; families of tests are counted where p is corrected."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from isoscope.platform.statistics.differences import differences
from isoscope.platform.statistics.paired import (
    by_chance,
    families,
    holm,
    in_family,
    minimum_detectable_effect,
    paired_t,
)

SEEDS = range(5)


def figures(**shift: float) -> pd.DataFrame:
    """Two figures of arms whose mean is shifted, five seeds each."""
    draw = np.random.default_rng(0)
    rows = []
    for arm, by in shift.items():
        for metric in ("avg_sim", "a_1"):
            noise = 0.1 * draw.standard_normal(len(SEEDS))
            rows += [
                {"arm": arm, "seed": seed, "metric": metric, "value": by + one}
                for seed, one in zip(SEEDS, noise, strict=True)
            ]
    return pd.DataFrame(rows)


def test_a_difference_is_scipys_paired_t_and_holm_counts_the_arms_of_a_figure() -> None:
    table = figures(additive=0.0, conv2d=1.0, fft=0.0)
    found = differences(table, confidence=0.95, power=0.8)
    assert len(found) == 4
    assert set(found["reference"]) == {"additive"}
    wide = table.pivot_table(index=["metric", "seed"], columns="arm", values="value")
    for row in found.itertuples():
        own, base = wide.loc[row.metric, row.arm], wide.loc[row.metric, "additive"]
        peer = stats.ttest_rel(own, base)
        assert row.p == pytest.approx(peer.pvalue)
        assert (row.low, row.high) == pytest.approx(tuple(peer.confidence_interval(0.95)))
        assert row.difference == pytest.approx((own - base).mean())
        effect = minimum_detectable_effect(5, tests=2, confidence=0.95, power=0.8)
        assert row.detectable == pytest.approx(effect * (own - base).std())
        assert (row.family, row.tests) == (row.metric, 2)
        assert row.n == len(SEEDS)
    for _, family in found.groupby("metric"):
        assert len(family) == 2
        assert family["p_holm"].tolist() == pytest.approx(holm(family["p"].tolist()))
        assert (family["p_holm"] > family["p"]).any()
    assert (found.loc[found["arm"] == "conv2d", "p_holm"] < 0.05).all()
    assert (found.loc[found["arm"] == "fft", "p_holm"] > 0.05).all()


def test_equal_differences_and_no_numbers_are_no_tests() -> None:
    """.1 + .2 against .3 is rounding; a family counts the tests that were made."""
    table = figures(additive=0.0, conv2d=1.0, fft=0.0)
    one = table["metric"] == "a_1"
    table.loc[one & (table["arm"] == "additive"), "value"] = 0.0
    table.loc[one & (table["arm"] == "conv2d"), "value"] = [0.1 + 0.2, 0.3, 0.3, 0.3, 0.3]
    found = differences(table, confidence=0.95, power=0.8).set_index(["metric", "arm"])
    equal, other = found.loc[("a_1", "conv2d")], found.loc[("a_1", "fft")]
    assert equal[["p", "p_holm", "low", "high", "detectable"]].isna().all()
    assert other["tests"] == equal["tests"] == 1
    assert other["p_holm"] == other["p"]


@pytest.mark.parametrize("nothing", [np.nan, np.inf])
@pytest.mark.parametrize("arm", ["additive", "conv2d"])
def test_a_seed_without_a_number_is_counted_and_the_others_are_not_tested(arm: str, nothing: float) -> None:
    """They are a selection by the outcome: a run that collapsed must not make its arm look better."""
    table = figures(additive=0.0, conv2d=1.0, fft=0.0)
    table.loc[(table["metric"] == "a_1") & (table["arm"] == arm) & (table["seed"] == 3), "value"] = nothing
    found = differences(table, confidence=0.95, power=0.8).set_index(["metric", "arm"])
    row = found.loc[("a_1", "conv2d")]
    assert (row["n"], row["dropped"]) == (len(SEEDS) - 1, 1)
    assert row[["low", "high", "p", "p_holm", "detectable"]].isna().all()
    assert found.loc[("avg_sim", "conv2d"), ["p", "p_holm"]].notna().all()
    assert (found.loc[("a_1", "fft"), "dropped"] == 0) == (arm == "conv2d")


def test_an_arm_without_any_number_is_named_and_not_tested() -> None:
    """It must not look as if it had not been measured."""
    table = figures(additive=0.0, conv2d=1.0, fft=0.0)
    table.loc[(table["metric"] == "a_1") & (table["arm"] == "conv2d"), "value"] = np.nan
    found = differences(table, confidence=0.95, power=0.8).set_index(["metric", "arm"])
    row = found.loc[("a_1", "conv2d")]
    assert (row["n"], row["dropped"], row["tests"]) == (0, len(SEEDS), 1)
    assert row[["mean", "difference", "sd", "low", "high", "p", "p_holm", "detectable"]].isna().all()
    assert found.loc[("a_1", "fft"), "p_holm"] == found.loc[("a_1", "fft"), "p"]


def test_seeds_are_paired_and_those_of_one_arm_alone_left_out() -> None:
    table = figures(additive=0.0, conv2d=0.0)
    table = table[~((table["arm"] == "conv2d") & (table["seed"] > 2))]
    found = differences(table.sample(frac=1.0, random_state=0).sort_values("arm"), confidence=0.95, power=0.8)
    assert (found["n"] == 3).all()
    two = differences(table[table["seed"] < 2], confidence=0.95, power=0.8)
    assert two[["low", "high", "p", "detectable"]].isna().all(axis=None)
    assert np.isfinite(two["difference"]).all()


def test_one_arm_alone_differs_from_none() -> None:
    found = differences(figures(additive=0.0), confidence=0.95, power=0.8)
    assert len(found) == 0
    assert set(differences(figures(additive=0.0, fft=1.0), confidence=0.95, power=0.8)) == set(found)


def test_each_arm_has_its_own_reference_and_holm_counts_the_circumstances_of_a_metric() -> None:
    table = figures(additive=0.0, conv2d=1.0, fft=1.0)
    against = {"additive": "additive", "conv2d": "additive", "fft": "conv2d"}
    found = differences(table, against=against, confidence=0.95, power=0.8).set_index(["metric", "arm"])
    assert found["reference"].unstack().iloc[0].to_dict() == {"conv2d": "additive", "fft": "conv2d"}
    wide = table.pivot_table(index=["metric", "seed"], columns="arm", values="value")
    for metric, row in found.xs("fft", level="arm").iterrows():
        assert row["p"] == pytest.approx(stats.ttest_rel(wide.loc[metric, "fft"], wide.loc[metric, "conv2d"]).pvalue)
    names = {name: f"accuracy where a_1 is {k}" for k, name in enumerate(table["metric"].unique())}
    one = differences(table.assign(metric=table["metric"].map(names)), confidence=0.95, power=0.8)
    assert one["p_holm"].tolist() == pytest.approx(holm(one["p"].tolist()))
    absent = dict.fromkeys(against, "absent")
    assert differences(table, against=absent, confidence=0.95, power=0.8).empty


def test_every_way_to_correct_p_is_counted() -> None:
    draw = np.random.default_rng(0)
    tests = [paired_t(draw.normal(size=4).tolist(), confidence=0.95) for _ in range(3)]
    rows = [(metric, arm, seed, draw.normal()) for metric in "xyz" for arm in "abc" for seed in range(3)]
    with families() as found:
        corrected = holm([0.01, np.nan, 0.2])
        in_family(tests, confidence=0.95, power=0.8)
        differences(pd.DataFrame(rows, columns=["metric", "arm", "seed", "value"]), confidence=0.95, power=0.8)
    assert found[0] == corrected
    assert [len(one) for one in found] == [3, 3, 2, 2, 2]
    holm([0.5])
    assert len(found) == 5, "outside the block nothing is counted"


def test_blocks_do_not_share_their_families() -> None:
    with families() as outer:
        with families() as inner:
            holm([0.5])
        holm([0.1])
    assert (inner, outer) == ([[0.5]], [[0.1]])


@pytest.mark.parametrize("tests", [1, 3, 24])
@pytest.mark.parametrize("shared", [0.0, 0.9], ids=["independent", "dependent"])
def test_chance_gives_a_twentieth_of_a_finding_per_family(tests: int, shared: float) -> None:
    """3,000 families of t tests at 5 seeds, of true differences of 0; the standard error is at most .012."""
    draw = np.random.default_rng(tests)
    found = 0
    for _ in range(3000):
        noise = np.sqrt(shared) * draw.normal(size=(5, 1)) + np.sqrt(1 - shared) * draw.normal(size=(5, tests))
        t = noise.mean(0) / (noise.std(0, ddof=1) / np.sqrt(5))
        found += sum(p < 0.05 for p in holm((2 * stats.t.sf(np.abs(t), 4)).tolist()))
    assert found / 3000 == pytest.approx(by_chance(1, confidence=0.95), abs=0.03)
