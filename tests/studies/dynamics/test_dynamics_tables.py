"""Tables of loss change allocation: closed forms, planted groups, matched heads, counted hurts."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from allocation_material import ARM, allocation, group, minibatch, planted, run
from isoscope.studies.dynamics.allocated_runs import AllocatedRun, with_shared
from isoscope.studies.dynamics.hurting_counts import PUBLISHED, compared, hurting_counts, warmup_updates
from isoscope.studies.dynamics.learning import closure_note, learned, shown, words
from isoscope.studies.dynamics.sliced import course, positive, synchronies
from isoscope.studies.dynamics.sums import NORMALISATIONS, allocated, closed, head_shares, normalised
from isoscope.training.optim import schedule_factor

EMB = group("emb", -1, parameters=100)
W1, W2 = group("W1"), group("W2", 1)


def test_shares_sum_to_one_at_every_level_and_a_planted_group_has_its_value() -> None:
    runs = [
        run(allocation([(EMB, [-1.0, -0.5]), (W1, [-0.25, 0.0]), (W2, [-0.5, 0.25])], [1, 4]), seed=seed)
        for seed in (0, 1)
    ]
    table = allocated(runs, 0.95)
    assert set(table["set"]) == {"train", "validation"}
    for _, own in table.groupby(["set", "level"]):
        assert own["share"].sum() == pytest.approx(1)
        assert own["nats"].sum() == pytest.approx(-2)
        assert own["parameters"].sum() == 120
    emb = table[(table["level"] == "block") & (table["component"] == "emb")].iloc[0]
    assert (emb["nats"], emb["share"], emb["per_parameter"]) == pytest.approx((-1.5, 0.75, -15_000))
    assert emb["n"] == 2
    assert emb["low_nats"] is None, "two seeds have no interval"


def test_a_gap_is_missing_in_the_shares() -> None:
    one = run(allocation([(EMB, [-1.0]), (W1, [-1.0])], [1]), gap=0.5)
    table = allocated([one], 0.95)
    assert table.loc[(table["level"] == "all"), "share"].iloc[0] == pytest.approx(2 / 2.5)


def test_three_seeds_have_the_t_interval() -> None:
    values = [-1.0, -1.2, -1.7]
    table = allocated([run(allocation([(EMB, [v])], [1]), seed=i) for i, v in enumerate(values)], 0.95)
    row = table[table["level"] == "all"].iloc[0]
    low, high = stats.t.interval(0.95, 2, np.mean(values), stats.sem(values))
    assert (row["low_nats"], row["high_nats"]) == pytest.approx((low, high))


def test_open_intervals_are_counted_and_named() -> None:
    good = run(allocation([(EMB, [-1.0, -1.0])], [1, 2]))
    bad = run(allocation([(EMB, [-1.0, -1.0])], [1, 2]), seed=1, gap=0.01)
    table = closed([good, bad])
    assert list(table["open"]) == [0, 0, 2, 2]
    assert list(table["total_closed"]) == [True, True, False, False]
    assert table["worst"].max() == pytest.approx(2)
    text = shown(table)
    assert "2 of 4 intervals are open" in text
    assert f"Open over all of training: {ARM} seed 1 (validation, +0.010 nats)" in text
    assert closure_note(table[table["seed"] == 0]) == "All 4 intervals are closed."


def test_rates_are_per_update_and_cumulate() -> None:
    table = course([run(allocation([(EMB, [-1.0, -3.0]), (W1, [0.5, 0.0])], [1, 4]), seed=seed) for seed in (0, 1)])
    emb = table[(table["grouping"] == "component") & (table["group"] == "emb")]
    assert list(emb["update"]) == [1, 4]
    assert list(emb["rate"]) == pytest.approx([-1.0, -1.0])
    assert list(emb["cumulative"]) == pytest.approx([-1.0, -4.0])
    assert set(emb["n"]) == {2}
    stack = table[table["grouping"] == "stack"]
    assert list(stack["cumulative"]) == pytest.approx([0.5, 0.5]), "layers only"


def test_a_word_table_of_both_stacks_is_in_neither() -> None:
    dec = group("W1", stack="dec")
    assert set(with_shared(allocation([(EMB, [-1.0]), (W1, [-1.0])], [1]))["stack"]) == {"enc"}
    both = with_shared(allocation([(EMB, [-1.0]), (W1, [-1.0]), (dec, [-1.0])], [1]))
    assert set(both.loc[both["component"] == "emb", "stack"]) == {"shared"}
    assert set(both.loc[both["component"] == "W1", "stack"]) == {"enc", "dec"}


def test_positive_part_is_the_largest_over_seeds() -> None:
    values = {("enc", 0, "W1"): [-1.0, 0.2, -1.0], ("enc", 1, "W1"): [-1.0, 0.1, -1.0]}
    low = run(allocation([(W1, [-1.0])], [3]), minibatch=minibatch(values))
    values = {("enc", 0, "W1"): [-1.0, -1.0, 0.7]}
    high = run(allocation([(W1, [-1.0])], [3]), seed=1, minibatch=minibatch(values))
    table = positive([low, high])
    assert set(table["estimator"]) == {"minibatch"}
    assert table.set_index("update")["value"].to_dict() == pytest.approx({1: 0.0, 2: 0.3, 3: 0.7})


def heads_of(values: list[list[float]], order: list[int]) -> pd.DataFrame:
    """Return an allocation to the heads of two layers; head h of a layer has the value number `order[h]`."""
    groups = [
        (group(component, layer, head=head), [0.5 * values[layer][order[head]]])
        for layer in range(2)
        for head in range(len(order))
        for component in ("query", "out")
    ]
    return allocation([*groups, (EMB, [-1.0])], [1])


def test_heads_are_matched_under_permutation() -> None:
    values = [[-3.0, 0.0, 1.0], [-2.0, -1.0, -0.5]]
    runs = [run(heads_of(values, [2, 0, 1]), seed=0), run(heads_of(values, [0, 1, 2]), seed=1)]
    table = head_shares(runs)
    raw = table[table["normalisation"] == "raw"].sort_values(["layer", "rank"])
    assert list(raw["value"]) == pytest.approx([value for layer in values for value in layer])
    assert set(raw["sd"]) == {0.0}
    assert set(raw["n"]) == {2}
    assert head_shares([run(allocation([(EMB, [-1.0])], [1]))]).empty


@pytest.mark.parametrize("kind, expected", [
    ("raw", [-3.0, 0.0, 1.0]), ("sum-abs", [-0.75, 0.0, 0.25]), ("max-abs", [-1.0, 0.0, 1 / 3]),
    ("min-max", [0.0, 0.75, 1.0]),
])  # fmt: skip
def test_normalisations(kind: str, expected: list[float]) -> None:
    assert kind in NORMALISATIONS
    assert list(normalised(np.array([-3.0, 0.0, 1.0]), kind)) == pytest.approx(expected)
    if kind != "raw":
        assert np.isnan(normalised(np.zeros(2), kind)).all()


def test_what_hurts_is_counted_apart_for_updates_single_intervals_and_chords() -> None:
    ends = [1, 2, 3, 10, 20]
    table = allocation([(W1, [0.5, -0.5, 0.5, -1.0, 0.2]), (W2, [-0.1, -0.1, 0.3, 0.4, -1.0])], ends, noise=0.01)
    values = {("enc", 0, "W1"): [-1.0, 0.1, 0.2, -1.0], ("enc", 1, "W2"): [-1.0] * 4}
    found = hurting_counts([run(table, minibatch=minibatch(values))])
    of = found[found["unit"] == "component"].set_index(["counted", "component"])
    assert of["hurts"].to_dict() == {
        ("updates", "W1"): 2, ("updates", "W2"): 0,
        ("single", "W1"): 2, ("single", "W2"): 1,
        ("chords", "W1"): 1, ("chords", "W2"): 1,
    }  # fmt: skip
    expected = {
        **{("single", "W1", name): value for name, value in (("cases", 3), ("hurts_by_noise", 1.5), ("share", 2 / 3))},
        ("single", "W1", "surely"): 2,  # folds differ by ± 0.01 only
        ("chords", "W1", "last"): 20,
        ("chords", "W1", "largest"): 0.2,
        ("updates", "W2", "last"): 0,
        ("updates", "W2", "largest"): 0.0,
        ("updates", "W1", "hurts_by_noise"): math.nan,
    }
    assert {key: of.loc[key[:2], key[2]] for key in expected} == pytest.approx(expected, nan_ok=True)
    assert set(found.loc[found["unit"] == "block", "layer"]) == {0, 1}


def test_a_component_is_summed_before_it_is_counted() -> None:
    """Two layers that cancel do not hurt as a component, and each hurts once as a block."""
    other = group("W1", 1)
    found = hurting_counts([run(allocation([(W1, [1.0, -2.0]), (other, [-2.0, 1.0])], [1, 2]))])
    by_unit = found.groupby("unit")["hurts"].sum()
    assert by_unit.to_dict() == {"block": 2, "component": 0}


@pytest.mark.parametrize(
    "settings, expected",
    [
        ({"epochs": 3, "budget": None}, 21),
        ({"epochs": 1, "budget": None, "schedule": {"warmup": 0.07, "epochs": 5}}, 35),
        ({"budget": {"kind": "updates", "number": 450}}, 31),
        ({"budget": {"kind": "updates", "number": 450}, "schedule": {"warmup": 0.07, "epochs": 2}}, 14),
        ({"budget": {"kind": "tokens", "number": 9000}}, 2),
    ],
)
def test_the_warm_up_is_that_of_the_schedule(settings: dict[str, Any], expected: int, tmp_path: Path) -> None:
    """Not of the updates that were made, which patience shortens; of an epoch of 100 updates."""
    points = [{"name": "validation/loss", "value": 1.0, "step": 100 * epoch, "epoch": epoch} for epoch in range(3)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in points), "utf-8")
    one = run(allocation([(W1, [-1.0])], [30]), folder=tmp_path)
    one.output.params["training"] |= {"schedule": {"warmup": 0.07, "epochs": None}} | settings
    training = one.output.params["training"]
    assert warmup_updates(one) == expected
    total = {21: 300, 35: 500, 31: 450, 14: 200, 2: 30}[expected]
    factors = [
        schedule_factor("linear", step, total=total, warmup=training["schedule"]["warmup"]) for step in range(60)
    ]
    assert int(np.argmax(factors)) + 1 == expected


def test_the_published_order_agrees_with_itself_and_not_with_its_reverse() -> None:
    ranks = {"emb": 1, "W1": 1, "W2": 1, "out": 2, "value": 3, "key": 4, "query": 5}
    word = {ARM: "trained"}

    def tau(counts: dict[str, int], words: dict[str, str] = word) -> Any:
        one = planted(counts, 40)
        table = compared(hurting_counts([one]), [one], words)
        return table.set_index("counted").loc["updates"]

    same = tau(ranks)
    assert same["tau"] == pytest.approx(1)
    assert same["p"] < 0.01
    assert (same["last"], same["warmup"], same["phase"], same["published_phase"]) == (5, 4, "after", "after")
    assert same["same_phase"] == "same"
    reverse = tau({name: 6 - rank for name, rank in ranks.items()})
    assert reverse["tau"] == pytest.approx(-1)
    none = tau(ranks, {ARM: "not trained"})
    assert none["tau"] is None or math.isnan(none["tau"])
    assert none["same_phase"] is None


def test_a_control_is_compared_with_no_published_objective() -> None:
    objective = {"kind": "denoising"}
    one = run(allocation([(W1, [-1.0])], [1]), objective=objective)
    assert compared(hurting_counts([one]), [one], {ARM: "trained"}).empty
    assert {name: sum(found["counts"].values()) for name, found in PUBLISHED["values"].items()} == {
        "causal": 151, "masked": 3650, "translation": 563,
    }  # fmt: skip


def test_layers_that_peak_together_are_synchronous_and_shuffled_layers_are_not() -> None:
    draw = np.random.default_rng(0)
    shared, ends = draw.normal(size=60), list(range(1, 61))

    def found(other: np.ndarray) -> Any:
        values = [(W1, list(shared)), (group("W1", 1), list(other)), (EMB, [0.0] * 60)]
        return synchronies([run(allocation(values, ends))], {ARM: "trained"}).iloc[0]

    together = found(shared + 0.1 * draw.normal(size=60))
    assert together["layers"] == 2
    assert together["observed"] > 2 * together["by_chance"]
    apart = found(draw.normal(size=60))
    assert apart["observed"] == pytest.approx(apart["by_chance"], abs=0.1)


MANIFEST = {
    "columns": ["sentence1", "sentence2"],
    "baselines": {
        name: {"validation": {"sentence1": {"loss": loss, "n": 9}, "sentence2": {"loss": loss + 1, "n": 9}}}
        for name, loss in {"unigram": 4.0, "unigram_masked": 4.5, "trigram": 3.0}.items()
    },
}


def with_loss(folder: Path, losses: list[float], **changed: Any) -> AllocatedRun:
    folder.mkdir()
    lines = [{"name": "validation/loss", "value": loss, "step": step} for step, loss in enumerate(losses)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return run(allocation([(EMB, [-1.0]), (W1, [-1.0])], [1]), folder=folder, **changed)


def test_an_arm_is_trained_if_every_seed_is_below_the_unigrams_of_its_side(tmp_path: Path) -> None:
    translation = {"kind": "translation"}
    runs = [
        with_loss(tmp_path / "0", [5.0, 4.3]),
        with_loss(tmp_path / "1", [5.0, 4.41], seed=1),
        with_loss(tmp_path / "2", [5.0, 4.89], arm="mt", objective=translation),
    ]
    table = learned(runs, MANIFEST)
    assert list(table["margin"]) == pytest.approx([0.2, 0.09, 0.11])
    assert list(table["unigram"]) == [4.5, 4.5, 5.0]
    assert list(table["trigram"].fillna(-1)) == [-1, -1, 4.0]
    assert set(table["parameters"]) == {110}
    assert words(table) == {ARM: "not trained", "mt": "trained"}
    assert words(learned(runs, {"baselines": {}})) == {ARM: "no unigram loss", "mt": "no unigram loss"}
