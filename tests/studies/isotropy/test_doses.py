"""Matched-effect comparison of penalties: metrics interpolated along a path of weights, at its first crossing."""

import numpy as np
import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.studies.isotropy.doses import LEVELS, Dose, at_equal, dose, equated, references

ACROSS, FORCE, METRIC = "validation/a_1", "step/penalty_gradient_norm", "validation/accuracy"
WEIGHTS = (0.0, 1.0, 10.0, 100.0)
SEEDS = (0, 1, 2)
OPTIONS = {"anisotropy": [ACROSS], "force": FORCE, "metrics": [METRIC], "confidence": 0.95, "power": 0.8}
PATHS = {"entropy": (0.8, 0.7, 0.5, 0.2), "cosine": (0.8, 0.75, 0.6, 0.3)}
"""a_1 by weight; accuracy is a line of it, which interpolation must give back exactly."""


def table(slopes: dict[str, float], paths: dict[str, tuple[float, ...]] = PATHS) -> pd.DataFrame:
    """Averages of families over weights: accuracy 0.9 − slope · (0.8 − a_1), each seed off by its own constant."""
    rows = []
    for family, places in paths.items():
        for weight, place in zip(WEIGHTS, places, strict=True):
            for seed in SEEDS:
                own = 0.01 * seed * (1 + (family == "cosine"))
                found = {ACROSS: place, METRIC: 0.9 - slopes[family] * (0.8 - place) + own, FORCE: 0.003 * weight}
                rows += [(f"{family}-x{weight:g}", seed, figure, value) for figure, value in found.items()]
    return pd.DataFrame(rows, columns=["arm", "seed", "metric", "value"])


def doses(times: float = 1.0) -> dict[str, Dose]:
    return {f"{f}-x{w:g}": Dose(f, f"{f}-x{w:g}", w * times, 1.0) for f in PATHS for w in WEIGHTS}


def test_a_line_is_read_off_exactly() -> None:
    slopes = {"entropy": 0.1, "cosine": 0.3}
    found = equated(table(slopes), doses(), across=ACROSS, metrics=[METRIC])
    low, high = 0.3, 0.8  # what both reach
    levels = np.linspace(low, high, LEVELS + 2)[1:-1]
    assert found["metric"].drop_duplicates().tolist() == [f"{METRIC} where {ACROSS} is {one:.3g}" for one in levels]
    assert len(found) == LEVELS * 2 * len(SEEDS)
    for family, slope in slopes.items():
        rows = found[found["arm"] == family]
        expected = [
            0.9 - slope * (0.8 - level) + 0.01 * seed * (1 + (family == "cosine")) for level in levels for seed in SEEDS
        ]
        assert rows["value"].tolist() == pytest.approx(expected)


@pytest.mark.parametrize("other", [250.0, -1.0], ids=["other units", "turned round"])
def test_units_and_sign_of_a_weight_do_not_matter(other: float) -> None:
    averages = table({"entropy": 0.1, "cosine": 0.3})
    found = [equated(averages, doses(times), across=ACROSS, metrics=[METRIC]) for times in (1.0, other)]
    pd.testing.assert_frame_equal(*found)


def test_the_smallest_dose_that_gets_there_counts() -> None:
    """A path that turns back is read at its first crossing of the level, not at the next."""
    turning = PATHS | {"cosine": (0.8, 0.4, 0.7, 0.3)}
    averages = table({"entropy": 0.0, "cosine": 0.0}, turning)
    late = averages["arm"].isin(["cosine-x10", "cosine-x100"]) & (averages["metric"] == METRIC)
    averages.loc[late, "value"] = 0.1
    found = equated(averages, doses(), across=ACROSS, metrics=[METRIC])
    rows = found[(found["arm"] == "cosine") & (found["seed"] == 0)]
    assert rows["value"].tolist() == pytest.approx([0.9] * LEVELS), "the first step, from 0.8 to 0.4, passes all levels"


def test_levels_that_are_close_keep_names_of_their_own() -> None:
    narrow = {name: tuple(1 - place / 1e5 for place in places) for name, places in PATHS.items()}
    found = equated(table({"entropy": 0.1, "cosine": 0.1}, narrow), doses(), across=ACROSS, metrics=[METRIC])
    assert found["metric"].nunique() == LEVELS


def test_paths_that_share_nothing_are_not_compared() -> None:
    apart = {"entropy": (0.9, 0.85, 0.8, 0.7), "cosine": (0.6, 0.5, 0.4, 0.3)}
    averages = table({"entropy": 0.1, "cosine": 0.1}, apart)
    assert equated(averages, doses(), across=ACROSS, metrics=[METRIC]).empty
    two = averages[~averages["arm"].str.endswith(("x10", "x100"))]
    assert equated(two, doses(), across=FORCE, metrics=[METRIC], log=True).empty, "two weights are no path"
    assert equated(averages, doses(), across="validation/absent", metrics=[METRIC]).empty


def test_a_seed_that_never_gets_there_is_left_out() -> None:
    averages = table({"entropy": 0.1, "cosine": 0.1})
    stuck = (averages["arm"].str.startswith("cosine")) & (averages["seed"] == 2) & (averages["metric"] == ACROSS)
    averages.loc[stuck, "value"] = 0.8
    found = equated(averages, doses(), across=ACROSS, metrics=[METRIC])
    missing = found[found["value"].isna()]
    assert set(missing["arm"]) == {"cosine"}
    assert set(missing["seed"]) == {2}
    assert found["value"].notna().sum() == 5 * LEVELS


def test_a_level_that_a_seed_never_reaches_is_not_tested() -> None:
    """Seeds that reach the level are selected by the outcome: their difference has no interval and no p."""
    averages = table({"entropy": 0.1, "cosine": 0.3})
    short = (averages["arm"].str.startswith("cosine")) & (averages["seed"] == 2) & (averages["metric"] == ACROSS)
    averages.loc[short, "value"] = 0.8
    found = at_equal(averages, doses(), **OPTIONS)
    lost = found["metric"].str.contains(f"where {ACROSS}")
    assert found.loc[lost, "dropped"].tolist() == [1] * LEVELS
    assert found.loc[lost, ["low", "high", "p", "p_holm", "detectable"]].isna().all(axis=None)
    assert (found.loc[lost, "n"] == len(SEEDS) - 1).all()
    assert found.loc[lost, "difference"].notna().all()
    accuracy = found["metric"].str.startswith(METRIC)
    assert (found.loc[accuracy, "tests"] == found.loc[accuracy & ~lost, "p"].notna().sum()).all()


def test_a_seed_without_a_path_is_not_passed_over() -> None:
    """Anisotropy is NaN at one of three weights: the seed has no path, and the other seeds are a selection."""
    averages = table({"entropy": 0.1, "cosine": 0.3})
    averages = averages[~averages["arm"].str.endswith("x100")]
    gone = (averages["arm"] == "cosine-x1") & (averages["seed"] == 2) & (averages["metric"] == ACROSS)
    assert gone.sum() == 1
    averages.loc[gone, "value"] = np.nan
    found = at_equal(averages, doses(), **OPTIONS)
    lost = found[found["metric"].str.contains(f"where {ACROSS}")]
    assert lost["dropped"].tolist() == [1] * LEVELS
    assert lost["p"].isna().all()


@pytest.mark.parametrize("seeds", [SEEDS, SEEDS[:1]])
def test_nothing_is_interpolated_across_a_weight_without_anisotropy(seeds: tuple[int, ...]) -> None:
    """A cloud that collapsed at a middle weight: beside it nobody knows the path."""
    averages = table({"entropy": 0.1, "cosine": 0.3})
    own = averages["arm"] == "cosine-x10"
    averages.loc[own & (averages["metric"] == METRIC), "value"] = 0.1
    averages.loc[own & (averages["metric"] == ACROSS) & averages["seed"].isin(seeds), "value"] = np.nan
    found = equated(averages, doses(), across=ACROSS, metrics=[METRIC])
    cosine = found[(found["arm"] == "cosine") & found["seed"].isin(seeds)]
    at = cosine["metric"].str.rpartition(" is ")[2].astype(float)
    assert (at < 0.75).any()
    assert cosine.loc[at < 0.75, "value"].isna().all()
    assert cosine.loc[at >= 0.75, "value"].notna().all()


def test_runs_without_an_update_have_nothing_to_match() -> None:
    empty = pd.DataFrame(columns=["arm", "seed", "metric", "value"])
    assert equated(empty, doses(), across=ACROSS, metrics=[METRIC]).empty


def test_force_is_read_over_its_logarithm_without_the_weight_of_zero() -> None:
    averages = table({"entropy": 0.0, "cosine": 0.0})
    rows = averages["metric"] == METRIC
    weights = averages.loc[rows, "arm"].str.rpartition("x")[2].astype(float)
    averages.loc[rows, "value"] = np.log10(weights.clip(lower=1e-9))
    found = equated(averages, doses(), across=FORCE, metrics=[METRIC], log=True)
    levels = [0.003 * 10 ** (2 * share) for share in (0.25, 0.5, 0.75)]
    assert found["metric"].drop_duplicates().tolist() == [f"{METRIC} where {FORCE} is {one:.3g}" for one in levels]
    assert found["value"].to_numpy() == pytest.approx(np.repeat([0.5, 1.0, 1.5], 2 * len(SEEDS)))


def test_families_are_compared_with_the_first_one_by_seed() -> None:
    averages = table({"entropy": 0.1, "cosine": 0.3})
    found = at_equal(averages, doses(), **OPTIONS)
    assert len(found) == LEVELS * 3  # accuracy at equal a_1; accuracy and a_1 at equal force
    at_a_1 = found[found["metric"].str.contains(f"where {ACROSS}")]
    levels = np.linspace(0.3, 0.8, LEVELS + 2)[1:-1]
    assert at_a_1["difference"].tolist() == pytest.approx([-0.2 * (0.8 - level) + 0.01 for level in levels])
    fewer = averages.assign(arm="few-" + averages["arm"], value=averages["value"] / 100)
    mixed = {f"few-{arm}": one._replace(family=f"few-{one.family}", fraction=0.1) for arm, one in doses().items()}
    both = at_equal(pd.concat([averages, fewer]), doses() | mixed, **OPTIONS)
    assert set(both["reference"]) == {"few-entropy", "entropy"}, "each share of the data by itself"
    whole = both[both["reference"] == "entropy"].set_index(["metric", "arm"])
    alike = found.set_index(["metric", "arm"]).loc[whole.index]
    of_family = ["tests", "p_holm", "detectable"]
    pd.testing.assert_frame_equal(whole.drop(columns=of_family), alike.drop(columns=of_family))
    assert (whole["tests"] == 2 * alike["tests"]).all()
    assert (whole["p_holm"].dropna() >= alike["p_holm"].dropna()).all(), "more is said of the metric"
    alone = averages[averages["arm"].str.startswith("entropy")]
    assert at_equal(alone, doses(), **OPTIONS).empty


def test_a_path_that_shares_no_more_than_seeds_differ_is_not_compared() -> None:
    """Without any effect paths cross by chance: there is nothing to read off."""
    random = np.random.default_rng(0)
    flat = {name: (0.8,) * len(WEIGHTS) for name in PATHS}
    for _ in range(20):
        averages = table({"entropy": 0.1, "cosine": 0.1}, flat)
        averages["value"] += 0.01 * random.standard_normal(len(averages))
        assert equated(averages, doses(), across=ACROSS, metrics=[METRIC]).empty


def test_the_weight_of_zero_has_no_force_and_no_share_in_the_noise() -> None:
    """A range of forces narrower than twice the spread of seeds has no level, with an arm without force and without."""
    for spread, empty in ((0.2, True), (0.17, False)):
        averages = table({"entropy": 0.1, "cosine": 0.1})
        force, weightless = averages["metric"] == FORCE, averages["arm"].str.endswith("-x0")
        powers = averages["arm"].map({arm: np.log10(max(1.0, one.weight)) for arm, one in doses().items()})
        own = np.exp(0.185 * powers + spread * (averages["seed"] - 1))
        averages.loc[force, "value"] = own[force].where(~weightless[force], 0.0)
        for rows in (averages, averages[~weightless]):
            assert equated(rows, doses(), across=FORCE, metrics=[METRIC], log=True).empty == empty


def test_where_nothing_happens_holm_finds_nothing_at_any_level() -> None:
    """All levels and conditions of a metric are one family: of 60 without effect at most 6 give a finding."""
    random, found = np.random.default_rng(0), 0
    for _ in range(60):
        averages = table({"entropy": 0.0, "cosine": 0.0})
        noise = averages["metric"] == METRIC
        averages.loc[noise, "value"] = 0.8 + 0.01 * random.standard_normal(int(noise.sum()))
        rows = at_equal(averages, doses(), **OPTIONS)
        assert len(rows) == LEVELS * 3
        found += bool((rows[rows["metric"].str.startswith(METRIC)]["p_holm"] < 0.05).any())
    assert found <= 6


def test_an_arm_is_held_against_its_own_penalty_without_weight() -> None:
    weighed = {"a-w0": Dose("a", "a-w0", 0.0, 0.1), "a-w1": Dose("a", "a-w1", 1.0, 0.1)}
    weighed |= {"b-w5": Dose("b", "b-w5", -5.0, 1.0), "b-w0": Dose("b", "b-w0", 0.0, 1.0)}
    assert references(weighed) == {"a-w0": "a-w0", "a-w1": "a-w0", "b-w5": "b-w0", "b-w0": "b-w0"}
    plain = {name: Dose(name, name, weight, 1.0) for name, weight in (("none", 0.0), ("all", 1.0), ("cosine", 1.0))}
    assert set(references(plain).values()) == {"none"}
    less = {f"{name}-tenth": one._replace(family=f"{name}-tenth", fraction=0.1) for name, one in plain.items()}
    found = references(plain | less)
    assert found["all"] == "none"
    assert found["all-tenth"] == "none-tenth"
    with pytest.raises(InputError, match="weights of both signs, -5 and 1"):
        references(weighed | {"b-w1": Dose("b", "b-w1", 1.0, 1.0)})


def test_a_reference_that_was_never_measured_is_not_replaced_by_another() -> None:
    averages = table({"entropy": 0.1, "cosine": 0.3})
    third = averages[averages["arm"].str.startswith("cosine")]
    third = third.assign(arm=third["arm"].str.replace("cosine", "other"))
    known = doses() | {f"other-x{w:g}": Dose("other", f"other-x{w:g}", w, 1.0) for w in WEIGHTS}
    assert not at_equal(pd.concat([averages, third]), known, **OPTIONS).empty
    without = averages[~averages["arm"].isin(["entropy-x1", "entropy-x10"])]
    assert at_equal(pd.concat([without, third]), known, **OPTIONS).empty


def test_the_dose_of_a_run() -> None:
    axes = {"fusion": "additive", "penalty": "all", "weight": "x10", "fraction": "tenth"}
    run = {"axes": axes, "params": {"penalty": {"kind": "cosine", "weight": 10.0}, "training": {"fraction": 0.1}}}
    assert dose(run) == Dose("additive-all-tenth", "additive-all-x10", 10.0, 0.1)
    run["params"]["penalty"] = {"kind": "none"}
    assert dose(run).weight == 0
