"""Are two models less alike than two seeds of one: pairs, planted differences, and what noise gives."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.studies.spaces.models_against_seeds import couples, models_against_seeds

SEEDS = {"mlm": (0, 1, 2), "mt": (0, 1, 2)}
OPTIONS: dict[str, Any] = {"confidence": 0.95, "power": 0.8, "margin": 0.01}


def test_each_seed_meets_the_next_of_every_model() -> None:
    found = couples({"a": (0, 1, 2), "b": (1, 2, 5)})
    assert found == [
        *((("a", 1), ("b", 2)), (("a", 2), ("b", 1))),  # the common seeds, in both directions
        *((("a", 0), ("a", 1)), (("a", 1), ("a", 2)), (("a", 2), ("a", 0))),
        *((("b", 1), ("b", 2)), (("b", 2), ("b", 5)), (("b", 5), ("b", 1))),
    ]
    assert couples({"a": (0, 1)}) == [(("a", 0), ("a", 1))], "two seeds are one pair"
    assert couples({"a": (0,), "b": (0,)}) == [(("a", 0), ("b", 0))]
    assert len(couples(SEEDS)) == 6 + 3 + 3
    with pytest.raises(InputError, match="a and b have no seed in common"):
        couples({"a": (0, 1), "b": (2, 3)})


def planted(
    between: float, within: float, noise: float, *, groups: int = 20, models: Mapping[str, Sequence[int]] = SEEDS
) -> pd.DataFrame:
    """Similarities of all pairs on two layers; a group of sentences moves all of them alike."""
    draw, rows = np.random.default_rng(0), []
    of_groups = noise * draw.standard_normal(groups)
    for (one, seed), (other, after) in couples(models):
        for layer in range(2):
            mean = (within if one == other else between) + noise / 5 * draw.standard_normal()
            values = mean + of_groups + noise * draw.standard_normal(groups)
            without = (values.sum() - values) / (groups - 1)
            about = {"model": one, "seed": seed, "other_model": other, "other_seed": after, "of": "words"}
            about |= {"measure": "cka", "layer": layer, "other_layer": layer}
            about |= {"twin": False, "null": 0.0}
            rows.append(about | {"value": values.mean(), "adjusted": values.mean(), "without": without})
    return pd.DataFrame(rows)


def test_a_planted_difference_holds_with_its_size_and_counts_seeds_and_sentences() -> None:
    found = models_against_seeds(planted(0.5, 0.8, 0.02), SEEDS, **OPTIONS)
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


def test_a_pair_without_a_number_leaves_its_layer_without_a_test_and_the_others_as_they_were() -> None:
    models = {name: range(5) for name in SEEDS}
    given = planted(0.5, 0.8, 0.02, models=models)
    gone = (given["layer"] == 1) & (given["model"] == "mlm") & (given["seed"] == 2)
    whole, found = (
        models_against_seeds(one, models, **OPTIONS)
        for one in (given, given.assign(adjusted=given["adjusted"].mask(gone)))
    )
    assert found[["layer", "word"]].values.tolist() == [[0, "holds"], [1, "under-powered"]]
    assert found.loc[1, ["difference", "low", "two_way_low", "p_holm"]].isna().all()
    assert found.loc[0, "difference"] == whole.loc[0, "difference"]
    assert [*found["tests"]] == [1, 1]
    every = given.assign(adjusted=given["adjusted"].mask(given["layer"] == 1))
    assert [*models_against_seeds(every, models, **OPTIONS)["layer"]] == [0], "a layer without any number has no row"


@pytest.mark.parametrize(
    "first, second, common",
    [
        ((0, 1, 2), (2, 1, 0), 3),
        ((0, 1, 2, 3), (2, 0, 1), 3),
        ((0, 1, 2, 3, 4), (0, 2, 4), 3),
        ((0, 1, 2), (1, 2, 5), 2),  # two common seeds are one pair, which meets itself
    ],
)
def test_every_common_seed_counts_whatever_other_seeds_there_are(
    first: Sequence[int], second: Sequence[int], common: int
) -> None:
    models = {"mlm": first, "mt": second}
    pairs = [frozenset(pair) for pair in couples(models)]
    assert len(pairs) == len(set(pairs)), "a pair is measured once"
    found = models_against_seeds(planted(0.5, 0.8, 0.02, models=models), models, **OPTIONS)
    assert set(found["n"]) == {common}
    assert set(found["word"]) == ({"holds"} if common > 2 else {"under-powered"})
    assert set(found["tests"]) == ({found["layer"].nunique()} if common > 2 else {0})


@pytest.mark.parametrize(
    "between, within, noise, word",
    [
        (0.8, 0.8, 0.002, "does not"),
        (0.8, 0.8, 0.2, "under-powered"),
        (0.0, 0.0, 0.0004, "no verdict"),  # spaces without anything in common differ by 0 from two others: no equality
        (0.0, 0.1, 0.0004, "holds"),
    ],
)
def test_models_are_told_apart_if_they_are_less_alike_than_seeds(
    between: float, within: float, noise: float, word: str
) -> None:
    assert set(models_against_seeds(planted(between, within, noise), SEEDS, **OPTIONS)["word"]) == {word}


def test_one_seed_has_no_ceiling_and_no_row() -> None:
    one = {"mlm": (0,), "mt": (0,)}
    assert models_against_seeds(
        planted(0.5, 0.8, 0.1).query("seed == 0 and model != other_model"), one, **OPTIONS
    ).empty


def test_a_cell_without_a_value_has_no_row() -> None:
    table = planted(0.5, 0.8, 0.02)
    table["adjusted"] = table["adjusted"].where(table["layer"] == 1)
    assert models_against_seeds(table, SEEDS, **OPTIONS)["layer"].tolist() == [1]


def test_an_effect_of_a_seed_on_both_sides_cancels_and_a_null_is_taken_off() -> None:
    """A seed that is unlike all others lowers the ceiling and the similarity of the models alike."""
    table = planted(0.5, 0.8, 0.002)
    unlike = {0: -0.2, 1: 0.1, 2: 0.0}
    move = table["seed"].map(unlike) + table["other_seed"].map(unlike)
    table["adjusted"] += move
    table["without"] = [without + more for without, more in zip(table["without"], move, strict=True)]
    found = models_against_seeds(table, SEEDS, **OPTIONS)
    assert set(found["word"]) == {"holds"}
    assert found["difference"].tolist() == pytest.approx([0.3, 0.3], abs=0.01)
    biased = planted(0.5, 0.8, 0.002)
    biased["null"], raw = 0.4, biased["without"]
    biased["without"] = [0.4 + 0.6 * without for without in raw]  # the raw similarities of these adjusted values
    assert models_against_seeds(biased, SEEDS, **OPTIONS)["difference"].tolist() == pytest.approx([0.3, 0.3], abs=0.01)
