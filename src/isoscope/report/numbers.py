"""Numbers as text: one way to write each kind."""

from isoscope.statistics.paired import Interval

NOTHING = "–"
NAMES = {"f1": "F1", "matthews": "Matthews correlation"}


def called(metric: str) -> str:
    """A metric's name as a heading."""
    return NAMES.get(metric, metric.replace("_", " ").capitalize())


def score(value: float | None) -> str:
    """A mean or an effect, three decimals."""
    return NOTHING if value is None else f"{value:.3f}".replace("-", "−")


def signed(value: float | None) -> str:
    """A difference, three decimals and its sign."""
    return NOTHING if value is None else f"{value:+.3f}".replace("-", "−")


def spread(mean: float, sd: float | None) -> str:
    """Mean ± sd; the mean alone where there is no sd."""
    return score(mean) if sd is None else f"{score(mean)} ± {score(sd)}"


def interval(bounds: Interval | None) -> str:
    """Both bounds in brackets."""
    return NOTHING if bounds is None else f"[{signed(bounds.low)}, {signed(bounds.high)}]"


def probability(p: float | None) -> str:
    """A p value, two significant digits, never 0."""
    if p is None:
        return NOTHING
    return "< .001" if p < 0.001 else f"{p:.2g}"


def duration(seconds: float | None) -> str:
    """Seconds, minutes and seconds, or hours and minutes."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def count(n: int, noun: str, plural: str | None = None) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
