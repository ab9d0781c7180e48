"""Which setting makes runs log a metric: for errors about a metric that no run logs."""

import re

from isoscope.platform.config.objective import METRICS

SETTINGS = {
    r"(step|validation)/(a_\d\w*|between_share|normal_cosine\w*|radius|bar_\w+|n)|posthoc/.*": (
        "it is logged where training.watch is set"
    ),
    r"(step|validation)/(penalty\w*|\w+/class_\d+)": "it is logged where penalty.kind is not none",
    r"(\w+/)?allocat\w*(/.*)?": "training.allocation writes it to allocation.parquet; it is no metric",
    r"(\w+/)?slices?\w*(/.*)?": "training.slices writes it to slices.parquet; it is no metric",
    r"speed/.*": "speeds are in the record, not among the metrics",
}
"""Pattern of a metric's name → what logs it."""


def logged_by(metric: str) -> str:
    """Return which setting makes runs log `metric`, as a clause; empty if no setting does."""
    for pattern, clause in SETTINGS.items():
        if re.fullmatch(pattern, metric):
            return clause
    kinds = [kind for kind, names in METRICS.items() if metric.removeprefix("validation/") in names]
    return f"objective.kind {' or '.join(kinds)} logs it" if kinds and metric.startswith("validation/") else ""
