"""Short names of checkpoints are distinct, short, made of the parts that differ, and independent of order."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from isoscope.data.short_names import LONGEST, short_names

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
        (["one/s/0/model", "two/s/0/model", "two/s/1/model"], ["one/…/0", "two/…/0", "two/…/1"]),
        (["bert", "./x/bert", "x/y/bert"], ["bert", "x/bert", "y/bert"]),
        (["y", "y/y"], ["y", "y/y"]),
        (["a", "/a"], ["a", "/a"]),
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


def test_a_path_that_repeats_is_refused() -> None:
    with pytest.raises(ValueError, match="a path repeats"):
        short_names(["a", "a"])
