"""What a view's rows say, for a page's first screen: a judged difference, or values without a verdict."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import pandas as pd

from isoscope.statistics.paired import Interval, Verdict


class Difference(NamedTuple):
    """`what` of `one` minus that of `other`, with its verdict."""

    what: str
    one: str
    other: str
    verdict: Verdict
    difference: float | None
    """None if they share no seed."""
    interval: Interval | None
    pairs: int
    """Paired seeds."""
    detectable: float | None = None


class Untested(NamedTuple):
    """`what` by name, of `n` seeds (or of what `of` says); no verdict was asked for. `sds`: over seeds, where known."""

    what: str
    values: Mapping[str, float]
    n: int
    of: str = "seed"
    sds: Mapping[str, float] = MappingProxyType({})
    beside: Mapping[str, float] = MappingProxyType({})
    """What the values are to be compared with: baselines and controls."""

    @classmethod
    def of_seeds(
        cls, what: str, rows: pd.DataFrame, value: str = "value", *, beside: Mapping[str, float] = MappingProxyType({})
    ) -> "Untested":
        """Return the mean and deviation of `value` over seeds, by arm; `n`: the fewest seeds of an arm."""
        groups = rows.groupby("arm", sort=False)[value]
        means, sds = ({str(name): float(one) for name, one in of.items()} for of in (groups.mean(), groups.std()))
        return cls(what, means, int(groups.count().min()), sds=sds, beside=beside)


Finding = Difference | Untested
