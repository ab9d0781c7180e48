"""What the scripts of the held and measured runs compute from their tables (docs/results/dynamics_*.py)."""

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
from isoscope.studies.dynamics.allocated_runs import OUTSIDE
from language_material import causal_lm, masked_lm, pairs, translates
from training_runs import make_loop

FOLDER = Path(__file__).parents[1] / "docs/results"


@pytest.fixture(scope="module")
def scripts() -> Iterator[tuple[ModuleType, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(FOLDER))
        import dynamics_held
        import dynamics_inside

        yield dynamics_held, dynamics_inside
        for name in ("dynamics_held", "dynamics_inside", "dynamics_agreement", "checkpoints", "collect"):
            sys.modules.pop(name, None)


def test_differences_are_between_the_runs_of_a_seed(scripts: tuple[ModuleType, ModuleType]) -> None:
    """Seeds differ by whole nats, choices by fixed amounts: intervals see the choices alone."""
    losses = {"none": 0.0, "most": 0.3, "least": 0.05, "random_1": 0.1, "random_2": 0.2}
    noise = [-0.01, 0.0, 0.01]
    rows = [
        {
            "arm": "a",
            "seed": seed,
            "choice": choice,
            "loss": 2.0 + seed + value + (noise[seed] if choice == "most" else 0),
        }
        for seed in range(3)
        for choice, value in losses.items()
    ]
    found = scripts[0].held_differences(pd.DataFrame(rows)).set_index("difference")
    assert found["nats"].to_dict() == pytest.approx(
        {"most - random": 0.15, "least - random": -0.1, "random - none": 0.15}
    )
    assert found.loc["most - random", "high"] - 0.15 == pytest.approx(4.302653 * 0.01 / np.sqrt(3), rel=1e-5)


def test_help_and_damage_are_ranked_within_components(scripts: tuple[ModuleType, ModuleType]) -> None:
    """W1 is large in both; within a component, what helped more does less damage."""
    help_ = np.concatenate([np.arange(12.0), 100 + np.arange(12.0)])
    damage = np.concatenate([-np.arange(12.0), 100 - np.arange(12.0)])
    about = {"arm": "a", "seed": 0, "kind": "zero", "component": np.repeat(["query", "W1"], 12)}
    about["parameters"] = np.repeat([10, 40], 12)
    (found,) = scripts[1].damage_ranks(pd.DataFrame(about | {"allocated": -help_, "damage": damage})).to_dict("records")
    assert found["rho"] > 0.4
    assert found["rho_size"] == pytest.approx(np.sqrt(3) / 2, abs=0.02), "size alone tells both components apart"
    assert (found["rho_within"], found["groups"]) == (pytest.approx(-1), 24)
    assert max(found["p"], found["p_within"]) < 0.05


def test_a_layers_allocation_is_cumulative_and_has_its_cross_attention(scripts: tuple[ModuleType, ModuleType]) -> None:
    values = [
        (group("W1", 0, stack="dec"), [-1.0, -2.0]),
        (group("query", 0, stack="cross"), [-0.5, 0.25]),
        (group("W1", 0, stack="enc"), [-4.0, 1.0]),
        (group("emb", OUTSIDE, stack="shared"), [-9.0, -9.0]),
    ]
    found = scripts[1].by_layer(run(allocation(values, [2, 5])))
    assert found.index.tolist() == [0, 2, 5]
    assert found["dec", 1].tolist() == [0.0, -1.5, -3.25]
    assert found["enc", 1].tolist() == [0.0, -4.0, -3.0]
    assert found.shape == (3, 2)


@pytest.mark.parametrize("course", ["own", "relative"])
def test_a_layer_that_turns_anisotropic_after_it_helps_is_found(
    scripts: tuple[ModuleType, ModuleType], course: str
) -> None:
    """Three layers with a common course. Layer 2 changes one snapshot after it helps, the others when they like."""
    draw = np.random.default_rng(0)
    common = 3 * draw.standard_normal(60)
    own = draw.standard_normal((2, 3, 60))
    own[1, 1, 1:] = own[0, 1, :-1]
    rows = [
        {"arm": "a", "seed": 0, "stack": "enc", "layer": layer + 1, "update": update, "measure": name, "value": value}
        for layer in range(3)
        for name, sign, changes in (("allocated", -1, own[0, layer]), ("a_1", 1, own[1, layer]))
        for update, value in enumerate((sign * (changes + common)).cumsum())
    ]
    rows += [
        row | {"measure": name} for row in rows if row["measure"] == "a_1" for name in ("avg_sim", "effective_rank")
    ]
    table = scripts[1].geometry_lags(pd.DataFrame(rows))
    found = table[(table["course"] == course) & (table["measure"] == "a_1")].set_index("layer")
    if course == "own":
        assert (found["lag"] == 0).all(), "what all layers have in common hides it"
        assert (found["p"] < 0.01).all()
    else:
        assert (found.loc[2, "lag"], found.loc[2, "changes"]) == (1, 59)
        assert found.loc[2, "p"] < 0.01
        assert found.loc[2, "r"] > 0.5


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


def test_a_common_envelope_is_no_relation_of_a_layer_with_itself(scripts: tuple[ModuleType, ModuleType]) -> None:
    """In five seeds of curves that all decay: p below .05 in about 5 % of 200 experiments without a relation."""
    layers = scripts[1].geometry_layers
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
def test_tokens_are_those_of_the_texts_without_special_tokens(
    scripts: tuple[ModuleType, ModuleType], tmp_path: Path, make: Any
) -> None:
    loop = make_loop(tmp_path, make=make, table=pairs)
    objective: Any = loop.objective
    found = scripts[1].tokens(loop.raw_model.eval(), SimpleNamespace(task=SimpleNamespace(objective=objective)))
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
