"""Format numbers as text, in the same way everywhere."""

import math

from isoscope.base.metric import DIGITS
from isoscope.platform.statistics.paired import Interval

NOTHING = "–"


def written(value: float | None, how: str) -> str:
    """Return a number in a format; a dash if it is missing, or not finite."""
    return f"{value:{how}}".replace("-", "−") if value is not None and math.isfinite(value) else NOTHING


def score(value: float | None, digits: int = DIGITS) -> str:
    """Return a mean or an effect with `digits` decimals."""
    return written(value, f".{digits}f")


def signed(value: float | None, digits: int = DIGITS) -> str:
    """Return a difference with its sign and `digits` decimals."""
    return written(value, f"+.{digits}f")


def short(value: float | None, *, sign: bool = False) -> str:
    """Return a number of any size with three significant digits."""
    return written(value, "+.3g" if sign else ".3g")


def spread(mean: float, sd: float | None, digits: int = DIGITS) -> str:
    """Return mean ± sd; only the mean if there is no sd."""
    return score(mean, digits) if sd is None else f"{score(mean, digits)} ± {score(sd, digits)}"


def interval(bounds: Interval | None, digits: int = DIGITS) -> str:
    """Return both bounds in brackets."""
    return NOTHING if bounds is None else f"[{signed(bounds.low, digits)}, {signed(bounds.high, digits)}]"


def probability(p: float | None) -> str:
    """Return a p value with two significant digits, never 0."""
    if p is None:
        return NOTHING
    return "< .001" if p < 0.001 else f"{p:.2g}"


def duration(seconds: float | None) -> str:
    """Return a duration in seconds, in minutes and seconds, or in hours and minutes."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 seed`, `3 seeds`."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
