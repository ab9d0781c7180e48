"""Interleaved timing: every round runs each case once, so that a busy machine slows all of them alike."""

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple


class Timing(NamedTuple):
    """Seconds: the least (what the work costs), and the middle (what one meets)."""

    least: float
    middle: float


def interleave(
    cases: Mapping[str, Callable[[], object]], rounds: int, warm_up: int = 1, in_a_row: int = 1
) -> dict[str, Timing]:
    """Wall time of each case over `rounds` rounds, after `warm_up` rounds that are not counted.

    The order turns by one from round to round, so no case always runs behind the same other one. Of those `in_a_row`
    the last counts: with 1 the caches hold what others left there, with several what the case itself did, as in a loop.
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
    """A Markdown table under a heading: the first column left, the others right."""
    lines = [f"### {title}", "", f"| {' | '.join(heads)} |", f"|{'|'.join(['---'] + ['---:'] * (len(heads) - 1))}|"]
    return "\n".join(lines + [f"| {' | '.join(row)} |" for row in rows]) + "\n"
