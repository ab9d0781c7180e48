"""Are two models less alike than two seeds of one: pairs, planted differences, and what noise gives."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.studies.spaces.told_apart import couples, told_apart

SEEDS = {"mlm": (0, 1, 2), "mt": (0, 1, 2)}
OPTIONS: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "margin": 0.01}


def test_each_seed_meets_the_next_of_every_model() -> None:
    found = couples({"a": (0, 1, 2), "b": (1, 2, 5)})
    assert found == [
        *((("a", 1), ("b", 2)), (("a", 2), ("b", 1))),
        *((("a", 0), ("a", 1)), (("a", 1), ("a", 2)), (("a", 2), ("a", 0))),
        *((("b", 1), ("b", 2)), (("b", 2), ("b", 5)), (("b", 5), ("b", 1))),
    ]
    assert couples({"a": (0, 1)}) == [(("a", 0), ("a", 1))], "two seeds are one pair"
    assert couples({"a": (0,), "b": (0,)}) == [(("a", 0), ("b", 0))]


def planted(between: float, within: float, noise: float, *, groups: int = 20) -> pd.DataFrame:
    """Similarities of all pairs on two layers; a group of sentences moves all of them alike."""
    draw, rows = np.random.default_rng(0), []
    of_groups = noise * draw.standard_normal(groups)
    for (one, seed), (other, after) in couples(SEEDS):
        for layer in range(2):
            mean = (within if one == other else between) + noise / 5 * draw.standard_normal()
            values = mean + of_groups + noise * draw.standard_normal(groups)
            without = (values.sum() - values) / (groups - 1)
            about = {"model": one, "seed": seed, "other_model": other, "other_seed": after, "of": "words"}
            about |= {"measure": "cka", "layer": layer, "other_layer": layer}
            rows.append(about | {"value": values.mean(), "without": without})
    return pd.DataFrame(rows)


def test_a_planted_difference_holds_with_its_size_and_counts_seeds_and_sentences() -> None:
    found = told_apart(planted(0.5, 0.8, 0.02), SEEDS, **OPTIONS)
    assert found[["model", "other_model", "measure", "layer"]].values.tolist() == [
        ["mlm", "mt", "cka", 0],
        ["mlm", "mt", "cka", 1],
    ]
    assert found["difference"].tolist() == pytest.approx([0.3, 0.3], abs=0.02)
    assert found["between"].tolist() == pytest.approx([0.5, 0.5], abs=0.02)
    assert found["within"].tolist() == pytest.approx([0.8, 0.8], abs=0.02)
    assert set(found["word"]) == {"holds"}
    assert set(found["n"]) == {3}
    assert (found["two_way_low"] <= found["low"]).all(), "sentences widen an interval, never narrow it"


def test_models_that_are_as_alike_as_seeds_are_not_told_apart() -> None:
    assert set(told_apart(planted(0.8, 0.8, 0.002), SEEDS, **OPTIONS)["word"]) == {"does not"}
    assert set(told_apart(planted(0.8, 0.8, 0.2), SEEDS, **OPTIONS)["word"]) == {"under-powered"}


def test_one_seed_has_no_ceiling_and_no_row() -> None:
    one = {"mlm": (0,), "mt": (0,)}
    assert told_apart(planted(0.5, 0.8, 0.1).query("seed == 0 and model != other_model"), one, **OPTIONS).empty


def test_a_cell_without_a_value_has_no_row() -> None:
    table = planted(0.5, 0.8, 0.02)
    table["value"] = table["value"].where(table["layer"] == 1)
    assert told_apart(table, SEEDS, **OPTIONS)["layer"].tolist() == [1]
