"""What a number means, declared once where it is computed: its name, title and unit, the better way, its range."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from isoscope.base.errors import InputError, brief

Direction = Literal["maximise", "minimise"]
"""Which way a metric is better."""
DIGITS = 3
"""Decimals of a number in tables, unless its metric has its own."""
DECIMALS = 6
"""Decimals of a baseline's score: the last digits of a sum differ between processors."""
DRAWN = frozenset({"title", "unit", "digits", "shown"})
"""Fields that only drawings show: no part of a run, nor of its code version."""


class Shown(NamedTuple):
    """Figures of hidden states that show a metric of a measure, on the page of `isoscope geometry` and of a study."""

    heading: str = ""
    """Heading of its figure by layer on the page of `isoscope geometry`, which measures may share."""
    over_training: bool = False
    """Whether a study's report has its curves over training, of [CLS]."""
    compared: bool = False
    """Whether arms are compared by it, of [CLS] at the last layer and the chosen epoch."""
    maps: tuple[str, ...] = ()
    """Kinds of representation that a study's report has a map of, by layer and snapshot."""


class Metric(NamedTuple):
    """A number that is logged by name, such as `accuracy`; the same name on every split."""

    name: str
    title: str = ""
    """What people read; default: the name with spaces."""
    unit: str = ""
    better: Direction | None = None
    """None: neither way is better."""
    low: float | None = None
    """Lowest value that it can take, whatever was measured; None: no bound."""
    high: float | None = None
    digits: int = DIGITS
    """Decimals in tables."""
    shown: Shown = Shown()
    """Figures that show it. Every figure of measures shows all metrics of a plugin's measure."""

    @property
    def label(self) -> str:
        """The title with its unit."""
        title = self.title or re.sub(r"^[a-z]", lambda first: first[0].upper(), self.name.replace("_", " "))
        return f"{title} ({self.unit})" if self.unit else title

    @property
    def recorded(self) -> dict[str, Any]:
        """The fields that a run keeps of itself."""
        return {name: value for name, value in self._asdict().items() if name not in DRAWN}


def checked(metrics: Any, where: str) -> tuple[Metric, ...]:
    """Return the metrics that a plugin declares. Raises `InputError`, which begins with `where`, for anything else."""
    found = tuple(metrics) if isinstance(metrics, Sequence) else ()
    if not found or not all(isinstance(one, Metric) and _sound(one) for one in found):
        raise InputError(
            f"{where}: metrics: expected a sequence such as (Metric('loss', better='minimise'),), got {brief(metrics)}"
        )
    return found


def read(rows: Iterable[Mapping[str, Any]]) -> dict[str, Metric]:
    """Return metrics by name, from their `recorded` fields. Raises `ValueError` or `TypeError` for anything else."""
    found = [Metric(**row) for row in rows]
    if wrong := [one for one in found if not _sound(one)]:
        raise ValueError(f"metric {wrong[0].recorded}")
    return {one.name: one for one in found}


def _sound(one: Metric) -> bool:
    ends = all(end is None or isinstance(end, int | float) for end in (one.low, one.high))
    return isinstance(one.name, str) and one.better in (None, *get_args(Direction)) and ends
