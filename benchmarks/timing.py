"""Interleaved timing: every round runs each case once, so that load on the machine slows all cases equally."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds: the minimum (the cost of the work) and the median (the typical time)."""

    least: float
    middle: float


def interleave(
    cases: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1, in_a_row: int = 1
) -> dict[str, Timing]:
    """Return the wall time of each case over `rounds` rounds, after `warm_up` rounds that are not counted.

    The order rotates by one each round, so that no case always runs after the same other case. A case runs `in_a_row`
    times and the last time counts: with 1 the caches hold data of other cases; with more, its own data, as in a loop.
    """
    names = list(cases)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(-warm_up, rounds):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            for _ in range(in_a_row):
                began = time.perf_counter()
                cases[name]()
            if turn >= 0:
                seconds[name].append(time.perf_counter() - began)
    return {name: Timing(min(values), median(values)) for name, values in seconds.items()}


def table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """Format a Markdown table under a heading: first column left-aligned, the others right-aligned."""
    lines = [f"### {title}", "", f"| {' | '.join(heads)} |", f"|{'|'.join(['---'] + ['---:'] * (len(heads) - 1))}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"
