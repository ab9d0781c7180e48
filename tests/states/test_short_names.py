"""Short names of checkpoints are distinct, short, made of the parts that differ, and independent of order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoscope.states.given_checkpoints import LONGEST, RunCheckpoint, checkpoint_names, short_names

PARTS = st.sampled_from(["a", "b", "seed-0", "seed-1", "model", "checkpoints", "…", "a…b", "(1)", "@", "x" * 40, "é"])
PATHS = st.lists(PARTS, min_size=1, max_size=6).map("/".join) | st.text(min_size=1, max_size=90)


@pytest.mark.parametrize(
    "paths, names",
    [
        (["/data/runs/models/bert-base"], ["bert-base"]),
        (["/"], ["/"]),
        (["org/bert@main", "org/bert@v2"], ["bert@main", "bert@v2"]),
        (["s/checkpoints/epoch-1", "s/checkpoints/epoch-2", "deep"], ["epoch-1", "epoch-2", "deep"]),
        (["m/additive/seed-0/model", "m/fft/seed-0/model"], ["additive", "fft"]),
        (
            ["m/additive/seed-0/model", "m/additive/seed-1/model", "m/fft/seed-0/model"],
            ["additive/seed-0", "additive/seed-1", "fft/seed-0"],
        ),
        (["one/s/0/model", "two/s/0/model", "two/s/1/model"], ["one/s/0", "two/s/0", "two/s/1"]),
        (["bert", "./x/bert", "x/y/bert"], ["bert", "x/bert", "x/y/bert"]),
        (["y", "y/y"], ["y", "y/y"]),
        (["a", "/a"], ["a", "/a"]),
        (["m/x/model", "n/x/model", "org/bert"], ["m", "n", "bert"]),
    ],
)
def test_a_name_is_the_parts_that_differ(paths: list[str], names: list[str]) -> None:
    assert short_names(paths) == names


def test_long_names_that_differ_in_the_middle_are_still_told_apart() -> None:
    paths = [f"{'x' * 60}{number}{'y' * 60}" for number in range(12)]
    names = short_names(paths)
    assert len(set(names)) == 12
    assert max(map(len, names)) == LONGEST
    ends = short_names([f"runs/{'a-very-long-name-' * 5}{epoch}" for epoch in ("epoch-1", "epoch-2")])
    assert [name[-7:] for name in ends] == ["epoch-1", "epoch-2"], "not cut at the end, where names mostly differ"


@given(st.lists(PATHS, unique=True, max_size=8), st.randoms(use_true_random=False))
def test_distinct_paths_have_distinct_short_names_in_any_order(paths: list[str], random: object) -> None:
    names = short_names(paths)
    assert len(set(names)) == len(paths)
    assert all(0 < len(name) <= LONGEST for name in names)
    order = list(range(len(paths)))
    random.shuffle(order)  # type: ignore[attr-defined]
    assert short_names([paths[one] for one in order]) == [names[one] for one in order]


def of(*parts: str, project: str = "/p") -> RunCheckpoint:
    study, arm, seed, kept = parts
    return RunCheckpoint(f"{study}/{arm}/seed-{seed}", kept, project)


@pytest.mark.parametrize(
    "paths, trained, names",
    [
        (["a"], [of("fusion", "additive", "0", "epoch-3")], ["fusion/additive/seed-0"]),
        (
            ["m/a/epoch-18", "m/b/epoch-19"],
            [of("s", "plain", "0", "epoch-18"), of("s", "conv2d", "0", "epoch-19")],
            ["s/plain/seed-0", "s/conv2d/seed-0"],
        ),
        (
            ["m/epoch-1", "m/epoch-2", "n/epoch-2"],
            [of("s", "a", "0", "epoch-1"), of("s", "a", "0", "epoch-2"), of("s", "a", "1", "epoch-2")],
            ["s/a/seed-0/epoch-1", "s/a/seed-0/epoch-2", "s/a/seed-1"],
        ),
        (
            ["one/x", "two/x"],
            [of("s", "a", "0", "epoch-1", project="/one"), of("s", "a", "0", "epoch-1", project="/two")],
            ["one/s/a/seed-0", "two/s/a/seed-0"],
        ),
        (
            ["m/epoch-1", "bert", "org/gpt"],
            [of("s", "a", "0", "epoch-1"), None, None],
            ["s/a/seed-0", "bert", "gpt"],
        ),
        (["s/a/seed-0", "m/epoch-1"], [None, of("s", "a", "0", "epoch-1")], ["seed-0", "s/a/seed-0"]),
    ],
)
def test_a_checkpoint_of_a_project_is_named_by_its_cell(
    paths: list[str], trained: list[RunCheckpoint | None], names: list[str]
) -> None:
    assert checkpoint_names(paths, trained) == names


@given(st.lists(PATHS, unique=True, max_size=6), st.data())
def test_all_names_are_distinct(paths: list[str], data: st.DataObject) -> None:
    """Also where a folder is called as a cell."""
    cells = st.none() | st.builds(RunCheckpoint, PARTS, PARTS, PARTS)
    trained: list[RunCheckpoint | None] = []
    for _ in paths:
        one = data.draw(cells)
        trained.append(None if one in trained else one)
    names = checkpoint_names(paths, trained)
    assert len(set(names)) == len(paths)
    assert all(0 < len(name) <= LONGEST for name in names)
