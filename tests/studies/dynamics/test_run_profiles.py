"""Profiles of runs: parts by hand."""

from allocation_material import ARM, allocation, group, run
from isoscope.studies.dynamics.sums import halved, objective, profiles


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
    assert found["minibatch"].isna().all(), "it was not asked for"
    assert found.drop(columns="minibatch").iloc[0].to_dict() | {"nats": -0.5} == {
        "arm": ARM, "seed": 0, "objective": "masked", "data": "reordered", "size": 9958, "word": "trained",
        "component": "W1", "half": "lower", "nats": -0.5,
    }  # fmt: skip
    assert found["nats"].sum() == -1
    assert objective({"kind": "causal", "share": 0.15}) == "causal_part"


def test_the_minibatch_estimator_stands_beside_the_fixed_set_by_part() -> None:
    one = run(allocation([(group("W1"), [-1.0]), (group("key"), [-3.0])], [1]))
    table = allocation([(group("W1"), [-5.0]), (group("out"), [2.0])], [1])
    also = one._replace(minibatch=table[table["set"] == "train"])
    found = profiles([also], {}, {ARM: "trained"}).groupby("component")[["nats", "minibatch"]].sum(min_count=1)
    assert found["minibatch"].dropna().to_dict() == {"W1": -5.0, "out": 2.0}
    assert found["nats"].dropna().to_dict() == {"W1": -1.0, "key": -3.0}
