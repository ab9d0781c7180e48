"""What metrics mean, by name: declared by objectives, measures and observers, built in or of plugins; what logs them.

A module that declares metrics is imported when a name is asked for.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any

from isoscope.base import built_in
from isoscope.base.entry import Entry
from isoscope.base.metric import Metric
from isoscope.base.registry import MEASURES, OBJECTIVES

WHERE = {"step": "of a batch", "posthoc": ""}
"""Place of a metric in a run, before its name → what people read; default: the place itself."""
NONE: Mapping[str, Metric] = MappingProxyType({})
WATCH = "it is logged where training.watch is set"
SETTINGS = {
    r"posthoc/.*": WATCH,
    r"(step|validation)/(penalty\w*|\w+/class_\d+)": "it is logged where penalty.kind is not none",
    r"(\w+/)?allocat\w*(/.*)?": "training.allocation writes it to allocation.parquet; it is no metric",
    r"(\w+/)?slices?\w*(/.*)?": "training.slices writes it to slices.parquet; it is no metric",
    r"speed/.*": "speeds are in the record, not among the metrics",
}
"""Pattern of a metric's name → what logs it."""


def metrics_of(kind: str, *, generated: bool = False) -> dict[str, Metric]:
    """Return the metrics that an objective declares, by name; none of a plugin whose factory does not say its class.

    `generated`: also those of the test split alone.
    """
    if kind in built_in.METRICS:
        module = built_in.load(built_in.METRICS, kind)
        found = (*module.METRICS, *(getattr(module, "GENERATED", ()) if generated else ()))
    else:
        found = OBJECTIVES.own[kind].metrics if kind in OBJECTIVES.own else ()
    return {one.name: one for one in found}


@cache
def with_target() -> tuple[Entry, ...]:
    """Return the built-in objectives with a target per text; their options are those of `options` in their module."""
    found = {kind: built_in.load(built_in.METRICS, kind) for kind in built_in.METRICS}
    return tuple(
        Entry(kind, module.options, Path(str(module.__file__)), built_in=True)
        for kind, module in found.items()
        if hasattr(module, "options")
    )


def declares(kind: str, name: str) -> Any:
    """Return what the metrics module of a built-in objective calls `name`; None of other objectives."""
    return getattr(built_in.load(built_in.METRICS, kind), name, None) if kind in built_in.METRICS else None


def known() -> Mapping[str, Metric]:
    """Return every declared metric by name.

    Objectives may give a name different units, as they do for a loss: then it has none.
    """
    return _known((*MEASURES.values(), *OBJECTIVES.own.values()))


@cache
def _known(added: tuple[Entry, ...]) -> Mapping[str, Metric]:
    every = [one for kind in built_in.METRICS for one in metrics_of(kind, generated=True).values()]
    every += [one for entry in added for one in entry.metrics]
    every += import_module(built_in.WATCHED).METRICS
    found: dict[str, Metric] = {}
    for one in every:
        first = found.setdefault(one.name, one)
        found[one.name] = first if first.unit == one.unit else first._replace(unit="")
    return found


def title(name: str, own: Mapping[str, Metric] = NONE) -> str:
    """Return what people read for a logged name, such as `validation/f1`, `a_1_centred` or `posthoc/whitened/a_1`.

    `own`: the metrics of the objective that logged it, by name.
    """
    place = name.rpartition("/")[0] and name.partition("/")[0]
    where = WHERE.get(place, place)
    label = _declared(name, own).label
    return f"{label}, {where}" if where else label


def natural(name: str, own: Mapping[str, Metric] = NONE) -> tuple[float | None, float | None]:
    """Return the ends of the range that a logged name can take; None: no bound."""
    found = _declared(name, own)
    return found.low, found.high


def _declared(name: str, own: Mapping[str, Metric]) -> Metric:
    last = name.partition("/")[2] or name
    return own.get(last) or known().get(last, Metric(last))


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
