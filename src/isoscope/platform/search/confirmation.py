"""Compare a trial with the default over fresh seeds, on the test split."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray
from scipy import stats

from isoscope.metrics.matrix_scores import SCORES, constant_scores, pseudo_values
from isoscope.platform.statistics.paired import in_family, judge, paired_t, two_way_interval

ITEMWISE = frozenset(f"test/{name}" for name in (*SCORES, "loss"))
"""Metrics of a classifier with a share for each test sentence."""
VALIDATION, TEST, WHOLE_CLOUD = "validation/", "test/", "posthoc/untouched/"


class Fresh(NamedTuple):
    """A run with a fresh seed: its metrics at the epoch that counts; the file of its predictions, if it classifies."""

    metrics: Mapping[str, float]
    predictions: Path | None


def confirmation(
    figures: Sequence[str],
    default: Sequence[Fresh],
    chosen: Sequence[Fresh],
    *,
    confidence: float,
    power: float,
    margin: float,
) -> Iterator[dict[str, Any]]:
    """Yield a row per metric of the search: the same metric on the test split, chosen − default, paired by seed.

    Keys: figure (the metric of the search), judged (the metric compared), by (the samples: seeds and sentences, or
    seeds for a metric without a value per sentence), n, mean_reference, mean, difference, low, high (two-way, or over
    seeds), p, tests (of the metric's family: one), p_holm, detectable, verdict, reason. A metric that is not measured
    on test is judged on validation, and `judged` says so. The verdict *holds* needs sentences; see `paired.judge`.
    """
    for figure in figures:
        judged = _on_test(figure, default[0].metrics)
        pairs = np.array([[one.metrics[judged] for one in arm] for arm in (default, chosen)])
        paired = paired_t((pairs[1] - pairs[0]).tolist(), confidence=confidence, scale=float(np.abs(pairs).max()))
        known = judged in ITEMWISE and all(one.predictions for one in (*default, *chosen))
        arms = [np.stack([_items(one, judged) for one in arm]) for arm in (default, chosen)] if known else []
        two_way = two_way_interval(arms[1] - arms[0], confidence=confidence) if known else None
        ((p, detectable),) = in_family([paired], confidence=confidence, power=power)
        options: dict[str, Any] = {"p_holm": p, "detectable": detectable, "confidence": confidence, "margin": margin}
        above = _above(judged, pairs.mean(axis=1), default[0]) if known else ()
        verdict = judge(paired, two_way, **options, above=above)
        interval = two_way or paired.interval
        yield {
            "figure": figure,
            "judged": judged,
            "by": "seeds and sentences" if known else "seeds",
            "n": paired.n,
            "mean_reference": float(pairs[0].mean()),
            "mean": float(pairs[1].mean()),
            "difference": paired.mean,
            "low": interval and interval.low,
            "high": interval and interval.high,
            "p": paired.p,
            "tests": int(p is not None),
            "p_holm": p,
            "detectable": detectable,
            "verdict": verdict.word,
            "reason": verdict.reason,
        }


def _on_test(figure: str, metrics: Mapping[str, float]) -> str:
    """Return the test-split metric for a validation metric; the metric itself if there is none."""
    name = figure.removeprefix(VALIDATION)
    return next((one for one in (f"{TEST}{name}", f"{WHOLE_CLOUD}{name}") if one in metrics), figure)


def _above(judged: str, means: NDArray[np.float64], run: Fresh) -> tuple[float, ...]:
    """Return by how much the means of a metric of `ITEMWISE` are better than a constant prediction on the test rows.

    The least loss without reading a text is the entropy of the labels.
    """
    table = pq.read_table(run.predictions).to_pandas()
    label, classes = table["label"].to_numpy(), sum(column.startswith("logit_") for column in table)
    name = judged.removeprefix(TEST)
    if name == "loss":
        return tuple(float(stats.entropy(np.bincount(label)) - mean) for mean in means)
    constant = constant_scores(label, classes)[name]
    return tuple(float(mean - constant) for mean in means)


def _items(run: Fresh, judged: str) -> NDArray[np.float64]:
    """Return each test sentence's share of a metric of `ITEMWISE`, `[n]`."""
    name = judged.removeprefix(TEST)
    assert run.predictions is not None
    table = pq.read_table(run.predictions).to_pandas().sort_values("row")
    logits = table[[column for column in table if column.startswith("logit_")]].to_numpy(dtype=np.float64)
    label = table["label"].to_numpy()
    if name == "loss":
        return np.asarray(np.logaddexp.reduce(logits, axis=1) - logits[np.arange(len(label)), label])
    return pseudo_values(SCORES[name], label, table["predicted"].to_numpy(), logits.shape[1])
