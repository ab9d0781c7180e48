"""What a view's rows say, for a page's first screen: a judged difference, or values without a verdict."""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pandas as pd

from isoscope.platform.statistics.paired import Interval, Paired, Verdict, judge


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


def of_row(
    row: Mapping[str, Any], what: str, *, confidence: float, margin: float, above: Sequence[float] = ()
) -> Difference:
    """Return a row of `statistics.differences` as a finding, with its verdict; only seeds are a sample."""
    p_holm, detectable = (None if pd.isna(row[name]) else float(row[name]) for name in ("p_holm", "detectable"))
    interval = None if pd.isna(row["low"]) else Interval(float(row["low"]), float(row["high"]))
    paired = Paired(int(row["n"]), float(row["difference"]), None, interval, p_holm)
    options: dict[str, Any] = {"confidence": confidence, "margin": margin, "items": False, "above": above}
    verdict = judge(paired, None, p_holm=p_holm, detectable=detectable, **options)
    named = what, str(row["arm"]), str(row["reference"])
    return Difference(*named, verdict, paired.mean, interval, paired.n, detectable)


class Untested(NamedTuple):
    """`what` by name, of `n` seeds (or of what `of` says); no verdict was asked for. `sds`: over seeds, where known."""

    what: str
    values: Mapping[str, float]
    n: int
    of: str = "seed"
    sds: Mapping[str, float] = MappingProxyType({})
    beside: Mapping[str, float] = MappingProxyType({})
    """What all values are to be compared with: baselines and theory."""
    control: str = ""
    controls: Mapping[str, float] = MappingProxyType({})
    """What each value is to be compared with, and its name: the same arm with random weights, for instance."""

    @classmethod
    def of_seeds(cls, what: str, rows: pd.DataFrame, value: str = "value", **more: Any) -> "Untested":
        """Return the mean and deviation of `value` over seeds, by arm; `n`: the fewest seeds of an arm."""
        n = rows.groupby("arm", sort=False)[value].count().min()
        return cls(what, by_arm(rows, value), int(n), sds=by_arm(rows, value, "std"), **more)


def by_arm(rows: pd.DataFrame, value: str, how: str = "mean") -> dict[str, float]:
    """Return the mean, or another summary, of a column by arm."""
    return {str(arm): float(one) for arm, one in rows.groupby("arm", sort=False)[value].agg(how).items()}


Finding = Difference | Untested
