"""What a kind of study says on a page of checkpoints beside its figures: leads, limits, and data of its template."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np


class CheckpointText(NamedTuple):
    """What a page says."""

    leads: Mapping[str, str] = MappingProxyType({})
    """Question of views, a heading of the page → what a reader should know before its figures."""
    notes: Sequence[str] = ()
    """Limits of the results."""
    data: Mapping[str, Any] = MappingProxyType({})
    """What the kind's template `page.html` shows besides."""


def number(value: Any) -> float | None:
    """Return a number of a table as a float; None if it is missing or not finite."""
    return None if value is None or not np.isfinite(value) else float(value)
