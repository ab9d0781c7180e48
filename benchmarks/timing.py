"""Interleaved timing, and bounds: every round runs each case once, so that load slows all cases equally."""

import sys
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


class Bound(NamedTuple):
    """What was measured, and the most that it may be (with `least`: the least)."""

    what: str
    measured: float
    limit: float
    unit: str = "×"
    least: bool = False

    @property
    def missed(self) -> float:
        """Return how many times the bound was exceeded: at most 1 if it was kept."""
        high, low = (self.limit, self.measured) if self.least else (self.measured, self.limit)
        return high / low if low > 0 else float("inf")


FAR = 1.5
"""A bound missed by more than half fails a benchmark; the noise of a machine explains less."""


_BOUNDS: list[Bound] = []


def bound(what: str, measured: float, limit: float, unit: str = "×", *, least: bool = False) -> None:
    """Compare a result with its bound in `conclude`: a ratio to a peer of the same run, if there is a peer."""
    _BOUNDS.append(Bound(what, measured, limit, unit, least))


def conclude(*, smoke: bool) -> None:
    """Print all bounds next to what was measured; exit with 1 if a bound is missed by more than half.

    A smoke test prints them too; its numbers mean nothing, so it fails none.
    """
    rows = []
    for one in _BOUNDS:
        verdict = "kept" if one.missed <= 1 else "missed" if one.missed <= FAR else "**missed by more than half**"
        limit = f"{'at least' if one.least else 'at most'} {one.limit:g} {one.unit}".strip()
        rows.append((one.what, f"{one.measured:.3g} {one.unit}".strip(), limit, verdict))
    print(table("Bounds", ("measured", "result", "bound", "verdict"), rows), flush=True)
    if not smoke and any(not one.missed <= FAR for one in _BOUNDS):
        sys.exit(1)
