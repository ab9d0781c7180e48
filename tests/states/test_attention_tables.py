"""Planted heads are distinguished by what they attend to, and compared with the selected epoch and each other."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import jensenshannon

from isoscope.geometry.attention import summarise
from isoscope.geometry.moments import Floats
from isoscope.states.attention_tables import arm_heads, attention_table
from isoscope.states.trajectory import RANDOM, Trajectory
from probe_material import SNAPSHOTS, gpt2, planted, write_run


def look(kind: str, tokens: int) -> Floats:
    """Return a map with all attention on one token, on all alike, or at random."""
    found: dict[str, Floats] = {
        "first": np.eye(tokens)[np.zeros(tokens, int)],
        "itself": np.eye(tokens),
        "uniform": np.full((tokens, tokens), 1 / tokens),
        "any": np.random.default_rng(0).dirichlet(np.ones(tokens), tokens),
    }
    return found[kind]


def kept(layers: list[list[str]], lengths: tuple[int, ...], *, maps: bool = True) -> dict[str, Any]:
    """Return the stored attention of such heads, by layer."""
    drawn = [np.stack([np.stack([look(kind, size) for kind in heads]) for heads in layers]) for size in lengths]
    summaries = [summarise(one) for one in drawn]
    found = {
        f"attention_{name}": np.stack([getattr(one, name) for one in summaries], -1) for name in summaries[0]._fields
    }
    return found | ({f"attention_map_{place}": one for place, one in enumerate(drawn)} if maps else {})


def run(
    folder: Path, chosen: list[list[str]], others: list[list[str]], lengths: tuple[int, ...] = (4, 6, 8), **options: Any
) -> Trajectory:
    """`chosen` at the chosen epoch, `others` before, after and in the twin."""
    layers = {one.name: chosen if one.best else others for one in SNAPSHOTS}
    return planted(folder, {name: kept(heads, lengths, **options) for name, heads in layers.items()})


def row(table: pd.DataFrame, snapshot: str, layer: int, head: int) -> pd.Series:
    found = table[(table["snapshot"] == snapshot) & (table["layer"] == layer) & (table["head"] == head)]
    assert len(found) == 1
    return found.iloc[0]


def test_a_snapshot_without_attention_has_no_row(tmp_path: Path) -> None:
    arrays = {one.name: kept([["first", "itself"]], (4, 6)) for one in SNAPSHOTS}
    arrays[RANDOM] = {"mean": np.zeros((2, 3, 4))}
    table = attention_table(planted(tmp_path, arrays))
    assert [*dict.fromkeys(table["snapshot"])] == [one.name for one in SNAPSHOTS if one.name != RANDOM]


def test_a_head_agrees_with_itself_at_the_chosen_epoch(tmp_path: Path) -> None:
    """Layer 1 changes its heads about after the chosen epoch, layer 2 keeps them."""
    chosen, later = [["first", "itself"], ["uniform", "any"]], [["itself", "first"], ["uniform", "any"]]
    table = attention_table(run(tmp_path, chosen, later))
    assert table.loc[table["best"], "agreement"].tolist() == pytest.approx([1.0] * 4)
    for snapshot in ("step-0", "step-9", "random"):
        assert [row(table, snapshot, 2, head)["agreement"] for head in (0, 1)] == pytest.approx([1.0, 1.0])
        # of T queries T − 1 share no key, the first shares its only one
        expected = np.mean([1 / 4, 1 / 6, 1 / 8])
        assert [row(table, snapshot, 1, head)["agreement"] for head in (0, 1)] == pytest.approx([expected] * 2)


def test_heads_of_a_layer_are_held_against_each_other_as_scipy_does(tmp_path: Path) -> None:
    heads = ["first", "uniform", "any"]
    table = attention_table(run(tmp_path, [heads, heads[::-1]], [["any"] * 3] * 2))

    def agreement(one: str, other: str) -> float:
        shares = [1 - jensenshannon(look(one, size), look(other, size), axis=1, base=2) ** 2 for size in (4, 6, 8)]
        return float(np.mean([share.mean() for share in shares]))

    for head, kind in enumerate(heads):
        expected = np.mean([agreement(kind, other) for other in heads if other != kind])
        assert row(table, "step-5", 1, head)["between"] == pytest.approx(expected, abs=1e-6)
        assert row(table, "step-5", 2, 2 - head)["between"] == pytest.approx(expected, abs=1e-6)
        assert row(table, "step-9", 1, head)["between"] == pytest.approx(1.0)


def test_what_cannot_be_compared_is_left_out(tmp_path: Path) -> None:
    alone = attention_table(run(tmp_path / "alone", [["first"]], [["uniform"]]))
    assert alone["between"].isna().all()
    assert alone["agreement"].notna().all()
    mapless = attention_table(run(tmp_path / "mapless", [["first", "any"]], [["any", "any"]], maps=False))
    assert mapless[["between", "agreement"]].isna().all(axis=None)
    assert mapless["entropy"].notna().all()


@pytest.mark.parametrize("decoder", [False, True])
def test_a_models_heads_stand_in_the_order_of_its_layers(tmp_path: Path, decoder: bool) -> None:
    made = write_run(tmp_path, models=[gpt2(seed) for seed in range(2)] if decoder else None)
    table = attention_table(made)
    assert table.groupby("snapshot", sort=False).size().to_dict() == dict.fromkeys(
        [one.name for one in made.snapshots], 4
    )
    values = made.arrays(made.snapshots[0]).whole("attention_distance").astype(float)
    for layer, head in np.ndindex(2, 2):
        found = row(table, made.snapshots[0].name, layer + 1, head)
        assert found["distance"] == pytest.approx(values[layer, head].mean(), rel=1e-6)
        assert found["distance_sd"] == pytest.approx(values[layer, head].std(ddof=1), rel=1e-5)
    best = table[table["best"]]
    assert best["agreement"].to_numpy(float) == pytest.approx(1.0)
    assert (table.loc[~table["best"], "agreement"].astype(float) < 1).all()


def layered(table: pd.DataFrame, differ: str) -> dict[tuple[Any, ...], float]:
    rows = table[table["differ"] == differ].set_index(["arm", "seed", "other", "other_seed", "layer"])
    return rows["agreement"].to_dict()


def test_the_pairing_is_the_best_of_all(tmp_path: Path) -> None:
    """Against every permutation written out, with scipy's divergence, over random maps."""
    rng = np.random.default_rng(5)

    def drawn(seed: int) -> Trajectory:
        maps = [rng.dirichlet(np.ones(size), (1, 4, size)) for size in (5, 7)]
        arrays = {f"attention_map_{place}": one for place, one in enumerate(maps)}
        return planted(tmp_path / str(seed), {one.name: arrays for one in SNAPSHOTS})

    one, other = drawn(0), drawn(1)
    each = np.zeros((4, 4))
    for name in ("attention_map_0", "attention_map_1"):
        a, b = (run.arrays(run.best).whole(name)[0].astype(float) for run in (one, other))
        each += [[np.mean(1 - jensenshannon(x, y, axis=1, base=2) ** 2) / 2 for y in b] for x in a]
    best = max(np.mean([each[row, column] for row, column in enumerate(order)]) for order in permutations(range(4)))
    table = arm_heads({("a", 0): one, ("b", 0): other})
    assert layered(table, "arms")["a", 0, "b", 0, 1] == pytest.approx(best, abs=1e-6)
    assert table["unpaired"].iloc[0] == pytest.approx(each.mean(), abs=1e-6)


def test_seeds_of_an_arm_and_the_twin_stand_beside(tmp_path: Path) -> None:
    same, uniform = [["first", "itself"]], [["uniform", "uniform"]]
    runs = {
        (arm, seed): run(tmp_path / f"{arm}{seed}", [same[0][::-1]] if seed else same, uniform)
        for arm in ("a", "b")
        for seed in (0, 1)
    }
    table = arm_heads(runs)
    assert set(layered(table, "arms")) == {("a", 0, "b", 0, 1), ("a", 1, "b", 1, 1)}
    seeds, twins = layered(table, "seeds"), layered(table, "random")
    assert set(seeds) == {("a", 0, "a", 1, 1), ("b", 0, "b", 1, 1)}
    assert list(seeds.values()) == pytest.approx([1.0, 1.0])
    assert set(twins) == {(arm, seed, arm, seed, 1) for arm, seed in runs}
    assert all(value < 0.7 for value in twins.values())


def test_runs_without_maps_or_with_other_sentences_are_not_compared(tmp_path: Path) -> None:
    heads = [["first", "any"]]
    mapless = {("a", seed): run(tmp_path / f"m{seed}", heads, heads, maps=False) for seed in (0, 1)}
    assert arm_heads(mapless).empty
    for name, lengths in (("fewer", (4,)), ("others", (4, 7))):
        two = {("a", 0): run(tmp_path / f"{name}-a", heads, heads, (4, 6))}
        found = arm_heads(two | {("b", 0): run(tmp_path / f"{name}-b", heads, heads, lengths)})
        assert set(found["differ"]) == {"random"}, "each with its own control"
