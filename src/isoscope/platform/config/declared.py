"""What metrics mean, by name: declared by objectives, measures and observers, built in or of plugins.

A module that declares metrics is imported when a name is asked for.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from types import MappingProxyType

from isoscope import plugins
from isoscope.base import built_in
from isoscope.base.metric import Metric

WHERE = {"step": "of a batch", "posthoc": ""}
"""Place of a metric in a run, before its name → what people read; default: the place itself."""
NONE: Mapping[str, Metric] = MappingProxyType({})


def metrics_of(kind: str, *, generated: bool = False) -> dict[str, Metric]:
    """Return the metrics that an objective declares, by name; none of a plugin whose factory does not say its class.

    `generated`: also those of the test split alone.
    """
    if kind in built_in.METRICS:
        module = built_in.load(built_in.METRICS, kind)
        found = (*module.METRICS, *(getattr(module, "GENERATED", ()) if generated else ()))
    else:
        found = plugins.OBJECTIVES[kind].metrics if kind in plugins.OBJECTIVES else ()
    return {one.name: one for one in found}


def metric(name: str) -> Metric:
    """Return what a metric means; without a declaration, its name is its title.

    Objectives may give a name different units, as they do for a loss: then it has none.
    """
    kinds = (*built_in.METRICS, *plugins.OBJECTIVES)
    found = [one for kind in kinds if (one := metrics_of(kind, generated=True).get(name))]
    if found:
        return found[0]._replace(unit=found[0].unit if len({one.unit for one in found}) == 1 else "")
    return next((one for one in measured() if one.name == name), Metric(name))


def known() -> dict[str, Metric]:
    """Return every declared metric by name."""
    kinds = (*built_in.METRICS, *plugins.OBJECTIVES)
    names = [name for kind in kinds for name in metrics_of(kind, generated=True)] + [one.name for one in measured()]
    return {name: metric(name) for name in names}


def measured() -> Iterator[Metric]:
    """Yield the metrics of all measures and observers, of plugins first."""
    for plugin in plugins.MEASURES.values():
        yield from plugin.metrics
    for module in built_in.MEASURED:
        yield from import_module(module).METRICS


def title(name: str, own: Mapping[str, Metric] = NONE) -> str:
    """Return what people read for a logged name, such as `validation/f1`, `a_1_centred` or `posthoc/whitened/a_1`.

    `own`: the metrics of the objective that logged it, by name.
    """
    place, _, last = name.partition("/") if "/" in name else ("", "", name)
    where = WHERE.get(place, place)
    label = (own.get(last) or metric(last)).label
    return f"{label}, {where}" if where else label


def natural(name: str, own: Mapping[str, Metric] = NONE) -> tuple[float | None, float | None]:
    """Return the ends of the range that a logged name can take; None: no bound."""
    last = name.partition("/")[2] or name
    found = own.get(last) or metric(last)
    return found.low, found.high
