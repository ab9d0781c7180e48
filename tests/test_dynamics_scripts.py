"""What the scripts of the measured runs compute from their tables (docs/results/dynamics_*.py)."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from allocation_material import allocation, group, run
from isoscope.models.components import blocks, members
from isoscope.studies.dynamics.allocated_runs import OUTSIDE, with_shared
from language_material import causal_lm, masked_lm, pairs, translates
from training_runs import make_loop

FOLDER = Path(__file__).parents[1] / "docs/results"


@pytest.fixture(scope="module")
def script() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        import dynamics_inside

        yield dynamics_inside
        for name in ("dynamics_inside", "dynamics_agreement"):
            sys.modules.pop(name, None)


def test_help_and_damage_are_ranked_within_components(script: ModuleType) -> None:
    """W1 is large in both; within a component, what helped more does less damage."""
    help_ = np.concatenate([np.arange(12.0), 100 + np.arange(12.0)])
    damage = np.concatenate([-np.arange(12.0), 100 - np.arange(12.0)])
    about = {"arm": "a", "seed": 0, "kind": "zero", "component": np.repeat(["query", "W1"], 12)}
    about["parameters"] = np.repeat([10, 40], 12)
    (found,) = script.damage_ranks(pd.DataFrame(about | {"allocated": -help_, "damage": damage})).to_dict("records")
    assert found["rho"] > 0.4
    assert found["rho_size"] == pytest.approx(np.sqrt(3) / 2, abs=0.02), "size alone tells both components apart"
    assert (found["rho_within"], found["groups"]) == (pytest.approx(-1), 24)
    assert max(found["p"], found["p_within"]) < 0.05


def test_only_the_training_set_counts_and_heads_are_summed(script: ModuleType) -> None:
    values = [
        (group("W1", 0, head=0), [-1.0, -2.0, -50.0]),
        (group("W1", 0, head=1), [-0.5, -0.5, -50.0]),
        (group("pos", OUTSIDE), [0.25, 0.25, 9.0]),
        (group("emb", OUTSIDE), [-9.0, -9.0, -9.0]),
    ]
    known = allocation(values, [5, 10, 12])
    known.loc[known["set"] == "validation", "value"] += 100
    found = script.by_block(run(known), 10).set_index("group")["value"]
    assert found.to_dict() == {"enc.0.W1": -4.0, "enc.pos": 0.5}


def test_the_names_are_those_of_the_models_blocks(script: ModuleType, tmp_path: Path) -> None:
    model = make_loop(tmp_path, make=translates, table=pairs).raw_model
    places = {place for one in members(model) for place in one.groups}
    values = [
        (group(one.component, OUTSIDE if one.layer is None else one.layer, stack=one.stack), [0.0]) for one in places
    ]
    found = script.by_block(run(with_shared(allocation(values, [1]))), 1)
    assert {*found["group"]} == blocks(model).keys() - {"shared.emb"}


def test_a_layers_allocation_is_cumulative_and_has_its_cross_attention(script: ModuleType) -> None:
    values = [
        (group("W1", 0, stack="dec"), [-1.0, -2.0]),
        (group("query", 0, stack="cross"), [-0.5, 0.25]),
        (group("W1", 0, stack="enc"), [-4.0, 1.0]),
        (group("emb", OUTSIDE, stack="shared"), [-9.0, -9.0]),
    ]
    found = script.by_layer(run(allocation(values, [2, 5])))
    assert found.index.tolist() == [0, 2, 5]
    assert found["dec", 1].tolist() == [0.0, -1.5, -3.25]
    assert found["enc", 1].tolist() == [0.0, -4.0, -3.0]
    assert found.shape == (3, 2)


def with_envelope(seed: int, *, matched: float) -> list[dict[str, Any]]:
    """A run whose layers all change much at first; `matched` of a layer's geometry changes with its own help."""
    draw, envelope = np.random.default_rng(seed), np.exp(-np.arange(12) / 3)
    help_, shape = draw.standard_normal((2, 4, 12)) * envelope
    shape += matched * help_ + 3 * envelope
    about = {"arm": "a", "seed": seed, "stack": "enc"}
    return [
        about | {"layer": layer + 1, "update": update, "measure": name, "value": value}
        for layer in range(4)
        for name, changes in (("allocated", -help_[layer] - 3 * envelope), ("a_1", shape[layer]))
        for update, value in enumerate(changes.cumsum())
    ]  # fmt: skip


def test_a_common_envelope_is_no_relation_of_a_layer_with_itself(script: ModuleType) -> None:
    """In five seeds of curves that all decay: p below .05 in about 5 % of 200 experiments without a relation."""
    layers = script.geometry_layers
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["dynamics_agreement"], "MEASURES", ("a_1",))

        def lag_0(first: int, matched: float) -> pd.Series:
            rows = [row for seed in range(5) for row in with_envelope(first + seed, matched=matched)]
            return layers(pd.DataFrame(rows)).query("lag == 0").iloc[0]

        below = np.mean([lag_0(5 * number, 0.0)["p_holm"] < 0.05 for number in range(200)])
        assert below <= 0.09
        related = lag_0(0, 1.0)
        assert related["low"] > 0
        assert related["p_holm"] < 0.05
        assert related["n"] == 5


@pytest.mark.parametrize("make", [masked_lm, causal_lm, translates])
def test_tokens_are_those_of_the_texts_without_special_tokens(script: ModuleType, tmp_path: Path, make: Any) -> None:
    loop = make_loop(tmp_path, make=make, table=pairs)
    objective: Any = loop.objective
    found = script.tokens(loop.raw_model.eval(), SimpleNamespace(objective=objective))
    stacks = {masked_lm: {"enc": 3}, causal_lm: {"dec": 3}, translates: {"enc": 2, "dec": 2}}[make]
    assert found.keys() == {(stack, layer) for stack, layers in stacks.items() for layer in range(layers)}
    sides = {"enc": objective.texts.source, "dec": objective.texts.target}
    for (stack, _), (points, of) in found.items():
        lengths = sides[stack]["validation"].lengths - 2
        assert np.bincount(of).tolist() == lengths.tolist()
        assert points.shape == (lengths.sum(), 16)
    batch = {name: torch.from_numpy(one) for name, one in objective.batch("validation", np.array([3]), None).items()}
    batch.pop("labels")
    with torch.no_grad():
        output = loop.raw_model(**batch, output_hidden_states=True)
    for (stack, layer), (points, of) in found.items():
        states = output["hidden_states" if len(stacks) == 1 else f"{stack}oder_hidden_states"]
        own = states[layer][0, 1:] if stack == "dec" else states[layer][0, 1:-1]
        np.testing.assert_allclose(points[of == 3], own[: (of == 3).sum()].numpy(), atol=1e-5)
