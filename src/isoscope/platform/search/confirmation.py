"""Compare a trial with the default over fresh seeds, on the test split."""

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from isoscope.base.metric import Metric
from isoscope.platform.results.paired_comparison import in_units
from isoscope.platform.statistics.paired import in_family, judge, paired_t, two_way_interval

VALIDATION, TEST, WHOLE_CLOUD = "validation/", "test/", "posthoc/untouched/"


class Fresh(NamedTuple):
    """A run with a fresh seed: its metrics at the epoch that counts, and of which each test sentence has a share.

    `items`: metric of the test split, without `test/` → `shares` of the sentences `[n]`, and by how much a mean is
    better than a `constant` prediction.
    """

    metrics: Mapping[str, float]
    items: Mapping[str, Any] = MappingProxyType({})


def confirmation(
    metrics: Sequence[str],
    default: Sequence[Fresh],
    chosen: Sequence[Fresh],
    *,
    confidence: float,
    power: float,
    margin: float,
    declared: Mapping[str, Metric] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Yield a row per metric of the search: the same metric on the test split, chosen − default, paired by seed.

    Keys: metric (the metric of the search), judged (the metric compared), by (the samples: seeds and sentences, or
    seeds for a metric without a value per sentence), n, mean_reference, mean, difference, low, high (two-way, or over
    seeds), p, tests (of the metric's family: one), p_holm, detectable, verdict, reason. A metric that is not measured
    on test is judged on validation, and `judged` says so. The verdict *holds* needs sentences, except of metrics of the
    test split that are no means over sentences, such as a₁; see `paired.judge`.
    """
    for metric in metrics:
        judged = _on_test(metric, default[0].metrics)
        pairs = np.array([[one.metrics[judged] for one in arm] for arm in (default, chosen)])
        paired = paired_t((pairs[1] - pairs[0]).tolist(), confidence=confidence, scale=float(np.abs(pairs).max()))
        name = judged.removeprefix(TEST)
        known = judged.startswith(TEST) and all(name in one.items for one in (*default, *chosen))
        arms = [np.stack([one.items[name].shares for one in arm]) for arm in (default, chosen)] if known else []
        two_way = two_way_interval(arms[1] - arms[0], confidence=confidence) if known else None
        ((p, detectable),) = in_family([paired], confidence=confidence, power=power)
        verdict = judge(
            paired,
            two_way,
            p_holm=p,
            detectable=detectable,
            confidence=confidence,
            margin=in_units(margin, declared.get(judged.rpartition("/")[2])),
            items=not judged.startswith(WHOLE_CLOUD),
            above=tuple(map(default[0].items[name].above, pairs.mean(axis=1))) if known else (),
        )
        low, high = two_way or paired.interval or (None, None)
        yield {
            "metric": metric,
            "judged": judged,
            "by": "seeds and sentences" if known else "seeds",
            "n": paired.n,
            "mean_reference": float(pairs[0].mean()),
            "mean": float(pairs[1].mean()),
            "difference": paired.mean,
            "low": low,
            "high": high,
            "p": paired.p,
            "tests": int(p is not None),
            "p_holm": p,
            "detectable": detectable,
            "verdict": verdict.word,
            "reason": verdict.reason,
        }


def _on_test(metric: str, metrics: Mapping[str, float]) -> str:
    """Return the test-split metric for a validation metric; the metric itself if there is none."""
    name = metric.removeprefix(VALIDATION)
    return next((one for one in (f"{TEST}{name}", f"{WHOLE_CLOUD}{name}") if one in metrics), metric)
