"""Held groups: the exact best and worst quarter, random groups of the same size, names that the observer knows."""

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest

from allocation_material import allocation, group, run
from isoscope.base.errors import InputError
from isoscope.models.blocks import blocks
from isoscope.models.components import members
from isoscope.models.language import Specials, from_scratch
from isoscope.studies.dynamics.allocated_runs import OUTSIDE, with_shared
from isoscope.studies.dynamics.held_groups import QUARTER, SHORT, by_block, early, held_sets


def table(sizes: Any, values: Any) -> pd.DataFrame:
    names = [f"enc.{number}.W1" for number in range(len(sizes))]
    return pd.DataFrame({"group": names, "parameters": sizes, "value": values})


@pytest.mark.parametrize("seed", range(3))
def test_the_extreme_sets_are_those_of_all_subsets(seed: int) -> None:
    draw = np.random.default_rng(seed)
    sizes, values = draw.integers(5, 40, 12), 1e-3 * draw.standard_normal(12)
    subsets = np.array(list(itertools.product([False, True], repeat=12)))
    quarter = QUARTER * sizes.sum()
    subsets = subsets[(subsets @ sizes <= quarter) & (subsets @ sizes >= (1 - SHORT[0]) * quarter)]
    contrasts = (subsets @ values)[:, None] - subsets @ values
    disjoint = subsets.astype(int) @ subsets.T == 0
    most, least, *random = held_sets(table(sizes, values), random=20, seed=seed)
    assert not set(most.groups) & set(least.groups)
    assert most.allocated - least.allocated == pytest.approx(contrasts[disjoint].min(), abs=1e-12)
    for one in (most, least, *random):
        rows = table(sizes, values).set_index("group").loc[list(one.groups)]
        assert (1 - SHORT[0]) * quarter <= one.parameters <= quarter
        assert (one.parameters, one.allocated) == (rows["parameters"].sum(), pytest.approx(rows["value"].sum()))
    assert len({one.groups for one in random}) > 5
    assert [one.choice for one in random[:2]] == ["random_1", "random_2"]


def test_random_sets_have_no_favourites() -> None:
    """Of twenty equal blocks each is in a quarter of the sets, whatever its allocation."""
    sets = held_sets(table([10] * 20, np.arange(20.0)), random=400, seed=0)[2:]
    counts = pd.Series([name for one in sets for name in one.groups]).value_counts()
    assert len(counts) == 20
    assert (abs(counts / 400 - 0.25) < 4 * np.sqrt(0.25 * 0.75 / 400)).all()


def test_the_same_seed_draws_the_same_sets() -> None:
    asked = table([10] * 20, np.arange(20.0))
    assert held_sets(asked, random=3, seed=1) == held_sets(asked, random=3, seed=1)
    assert held_sets(asked, random=3, seed=1)[2:] != held_sets(asked, random=3, seed=2)[2:]


def test_sets_are_a_little_smaller_where_none_has_a_quarter() -> None:
    """A quarter of 17 equal blocks is 4.25 blocks; 4 blocks are 94 % of it."""
    sets = held_sets(table([10] * 17, np.arange(17.0)), random=2, seed=0)
    assert [one.parameters for one in sets] == [40] * 4
    assert (sets[0].allocated, sets[1].allocated) == (0 + 1 + 2 + 3, 13 + 14 + 15 + 16)


def test_groups_too_large_for_a_quarter_are_one_line() -> None:
    with pytest.raises(InputError, match=r"no sets of groups have 20 to 25 parameters, a quarter of all"):
        held_sets(table([50, 50], [0.0, 1.0]), random=0, seed=0)


def test_only_the_training_set_of_the_first_tenth_counts() -> None:
    ends = [5, 10, 12, 100]
    values = [
        (group("W1", 0, head=0, parameters=3), [-1.0, -2.0, -50.0, -50.0]),
        (group("W1", 0, head=1, parameters=4), [-0.5, -0.5, -50.0, -50.0]),
        (group("pos", OUTSIDE, parameters=5), [0.25, 0.25, 9.0, 9.0]),
        (group("emb", OUTSIDE, parameters=500), [-9.0, -9.0, -9.0, -9.0]),
    ]
    known = allocation(values, ends)
    known.loc[known["set"] == "validation", "value"] += 100
    found = early(run(known))
    assert found.after == 10
    rows = found.blocks.set_index("group")[["parameters", "value"]]
    assert rows.to_dict("index") == {
        "enc.0.W1": {"parameters": 7, "value": -4.0},
        "enc.pos": {"parameters": 5, "value": 0.5},
    }
    with pytest.raises(InputError, match="no interval ends in the first tenth of 100 updates"):
        early(run(known[known["update"] > 10]))


def test_the_names_are_those_of_the_model() -> None:
    sizes = {"hidden_size": 8, "heads": 2, "intermediate_size": 8, "max_positions": 9, "vocab_size": 11}
    plain = {"activation": "relu", "norm": "post", "positions": "learned", "dropout": 0.0, "attention_dropout": 0.0}
    model = from_scratch(
        "translation", family="bert", layers=2, tied=True, specials=Specials(0, 1, 2), seed=0,
        fusion={"kind": "additive"}, init_std=0.02, initializer_range=0.02, **sizes, **plain,
    )  # fmt: skip
    counts: dict[Any, int] = {}
    for one in members(model):
        for place in one.groups:
            counts[place] = counts.get(place, 0) + one.parameter.numel() // len(one.groups)
    values = [
        (group(one.component, OUTSIDE if one.layer is None else one.layer, stack=one.stack, parameters=count), [0.0])
        for one, count in counts.items()
    ]
    found = by_block(run(with_shared(allocation(values, [1]))), 1)
    sizes = {name: sum(one.numel() for one in own.values()) for name, own in blocks(model).items()}
    sizes.pop("shared.emb")
    assert dict(zip(found["group"], found["parameters"], strict=True)) == sizes
