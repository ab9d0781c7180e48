"""Profiles of runs, and what decides them: parts by hand, planted objectives and data."""

import numpy as np
import pandas as pd
import pytest

from allocation_material import ARM, allocation, group, run
from isoscope.base.errors import InputError
from isoscope.studies.dynamics.objective_or_data import Decided, objective_or_data
from isoscope.studies.dynamics.profiles import halved, objective, profiles
from isoscope.studies.objective_or_data.views import VIEWS
from struck_views import wrong

PARTS = [("emb", "outside"), ("W1", "lower"), ("W1", "upper"), ("key", "lower")]
OBJECTIVES = ("masked", "causal", "translation")


def test_one_stack_of_four_and_two_stacks_of_two_have_the_same_halves() -> None:
    emb = (group("emb", -1), [-5.0])
    one = allocation([emb, *((group("W1", layer), [-float(2**layer)]) for layer in range(4))], [1])
    stacks = [(stack, layer) for stack in ("enc", "dec") for layer in (0, 1)]
    two = allocation([emb, *((group("W1", layer, stack=stack), [-1.0 - layer]) for stack, layer in stacks)], [1])
    for table, expected in ((one, (-3.0, -12.0)), (two, (-2.0, -4.0))):
        found = halved(table[table["set"] == "train"]).set_index(["component", "half"])["nats"]
        assert found.to_dict() == {("emb", "outside"): -5, ("W1", "lower"): expected[0], ("W1", "upper"): expected[1]}


def test_the_middle_layer_of_three_counts_half_and_nothing_is_lost() -> None:
    table = allocation([(group("key", layer), [value]) for layer, value in enumerate((-1.0, -10.0, -100.0))], [1])
    found = halved(table[table["set"] == "train"]).set_index("half")["nats"]
    assert found.to_dict() == {"lower": -6, "upper": -105}


def test_a_run_has_its_size_and_a_control_its_own_objective() -> None:
    one = run(allocation([(group("W1"), [-1.0])], [1]))
    one.output.params["training"]["fraction"] = 0.34338
    found = profiles([one], {"splits": {"train": {"rows": 29_000}}}, {ARM: "trained"})
    assert found.iloc[0].to_dict() | {"nats": -0.5} == {
        "arm": ARM, "seed": 0, "objective": "masked", "data": "reordered", "size": 9958, "word": "trained",
        "component": "W1", "half": "lower", "nats": -0.5,
    }  # fmt: skip
    assert found["nats"].sum() == -1
    assert objective({"kind": "causal", "share": 0.15}) == "causal_part"


def planted(*, by: str, seeds: int = 3, noise: float = 0.03, word: str = "trained") -> dict[str, pd.DataFrame]:
    """Return the profiles of three data conditions, which differ by objective or by data."""
    draw, centres, studies = np.random.default_rng(0), np.random.default_rng(1).uniform(0.2, 2, size=(3, 4)), {}
    for place, (data, size) in enumerate((("captions", 100), ("news", 100), ("captions", 10))):
        rows = []
        for number, name in enumerate(OBJECTIVES):
            for seed in range(seeds):
                values = -centres[number if by == "objective" else place] + noise * draw.normal(size=4)
                about = {"arm": name, "seed": seed, "objective": name, "data": data, "size": size, "word": word}
                rows += [about | {"component": part, "half": half, "nats": nats} for (part, half), nats in
                         zip(PARTS, values, strict=True)]  # fmt: skip
        studies[f"{data}-{size}"] = pd.DataFrame(rows)
    return studies


def test_every_figure_survives_tables_without_numbers(pytestconfig: pytest.Config) -> None:
    found = objective_or_data(planted(by="objective"), permutations=9)
    tables = {"shares": found.shares, "told": found.told, "left_out": pd.DataFrame({"runs": [*found.left_out]})}
    assert wrong(VIEWS, tables, exhaustive=pytestconfig.getoption("--exhaustive")) == []


def share(found: Decided, source: str) -> pd.Series:
    rows = found.shares.set_index(["objectives", "distance", "source"])
    return rows.loc[("all", "hellinger", source)]


def told(found: Decided, told: str, left_out: str) -> pd.Series:
    return found.told.set_index(["objectives", "told", "left_out"]).loc[("all", told, left_out)]


def test_a_planted_objective_decides_and_is_told_in_unseen_data() -> None:
    found = objective_or_data(planted(by="objective"), permutations=99)
    of = share(found, "objective")
    assert of["share"] > 0.9
    assert of["low"] <= of["share"] <= of["high"]
    assert of["p"] == 0.01
    assert share(found, "condition")["share"] < 0.05
    assert share(found, "seed")["share"] < 0.1
    rows = found.shares[(found.shares["objectives"] == "all") & (found.shares["distance"] == "cosine")]
    assert rows["source"].tolist() == ["objective", "condition", "interaction", "seed", "data", "size"]
    assert rows["share"][:4].sum() == pytest.approx(1)
    assert told(found, "objective", "condition")["accuracy"] == 1
    assert told(found, "condition", "seed")["p"] > 0.05
    assert set(found.shares["objectives"]) == {"all", "masked and causal"}
    assert found.left_out == ()


def test_planted_data_decide_and_the_objective_is_then_not_told() -> None:
    found = objective_or_data(planted(by="data"), permutations=19)
    assert share(found, "objective")["share"] < 0.05
    assert share(found, "condition")["share"] > 0.9
    assert share(found, "data")["p"] == 0.05, "captions and news of equal size"
    assert told(found, "condition", "objective")["accuracy"] == 1
    assert told(found, "objective", "condition")["p"] > 0.05


def test_data_that_all_differ_in_size_leave_no_share_to_either() -> None:
    studies = planted(by="data")
    found = objective_or_data({name: studies[name] for name in ("news-100", "captions-10")}, permutations=9)
    assert set(found.shares["source"]) == {"objective", "condition", "interaction", "seed"}


def test_arms_that_did_not_learn_are_left_out_and_named() -> None:
    studies = planted(by="objective")
    news = studies["news-100"]
    studies["news-100"] = news.assign(word=news["word"].mask(news["arm"] == "causal", "not trained"))
    found = objective_or_data(studies, permutations=9)
    assert found.left_out == ("news-100: causal",)
    assert share(found, "objective")["runs"] == 24
    with pytest.raises(InputError, match="0 runs learned enough to be compared"):
        objective_or_data(planted(by="data", word="not trained"))


def test_two_seeds_have_no_interval_and_a_single_condition_no_shares() -> None:
    found = objective_or_data(planted(by="objective", seeds=2), permutations=9)
    assert share(found, "objective")["low"] is None or np.isnan(share(found, "objective")["low"])
    news = planted(by="objective")["news-100"]
    with pytest.raises(InputError, match="one objective and one data condition"):
        objective_or_data({"news": news[news["objective"] == "masked"]})
