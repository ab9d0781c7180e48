"""Which setting makes runs log a metric: for errors about a metric that no run logs."""

import re
from importlib import import_module

from isoscope.base import built_in
from isoscope.platform.config.declared import metrics_of

WATCH = "it is logged where training.watch is set"
SETTINGS = {
    r"posthoc/.*": WATCH,
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
    place, _, name = metric.partition("/")
    if place in ("step", "validation") and name in {one.name for one in import_module(built_in.WATCHED).METRICS}:
        return WATCH
    kinds = [kind for kind in built_in.METRICS if name in metrics_of(kind)] if place == "validation" else []
    return f"objective.kind {' or '.join(kinds)} logs it" if kinds else ""
