"""Findings as sentences. Every word of them depends on a number or a verdict of a table."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from isoscope.report import numbers
from isoscope.report.drawing import Drawing
from isoscope.statistics.paired import Interval
from isoscope.studies.findings import Finding, Untested
from isoscope.titles import title

MOST = 8
"""Values in one sentence."""


def sentence(found: Finding) -> dict[str, str]:
    """Return the verdict's word (none for untested values) and a sentence."""
    if isinstance(found, Untested):
        return {"word": "", "text": _values(found)}
    way = "higher" if (found.difference or 0.0) > 0 else "lower"
    said = {"holds": way, "does not": "no difference"}.get(found.verdict.word, "not decided")
    number = "no common seed" if found.difference is None else numbers.signed(found.difference)
    bounds = f" {numbers.interval(found.interval)}" if found.interval else ""
    pairs = numbers.count(found.pairs, "paired seed")
    effect = f"; detectable {numbers.score(found.detectable)}" if found.detectable is not None else ""
    text = f"{found.what}, {found.one} against {found.other}: {said}, {number}{bounds} ({pairs}{effect})"
    return {"word": found.verdict.word, "text": f"{text}; {found.verdict.reason}."}


def confirmed(row: Mapping[str, Any], believed: Mapping[str, float]) -> dict[str, str]:
    """Return the verdict's word and a sentence on a trial of a search against the default, with fresh seeds.

    `believed`: the trial's objectives in the search.
    """
    search = believed.get(row["figure"])
    inside = "" if search is None else f"; in the search {title(row['figure'])} {_number(search)}"
    known = row["low"] is not None
    bounds = numbers.interval(Interval(row["low"], row["high"])) if known else "(an interval needs three seeds)"
    text = f"{title(row['judged'])}: {_number(row['mean_reference'])} (default), {_number(row['mean'])} (trial{inside})"
    text += f", difference {numbers.signed(row['difference'])} {bounds} over {row['by']}; {row['reason']}."
    return {"word": row["verdict"], "text": text}


def _values(found: Untested) -> str:
    known = {name: value for name, value in found.values.items() if math.isfinite(value)}
    shown = [
        f"{name} {_number(value)}{_spread(found.sds.get(name))}{_control(found, name)}"
        for name, value in [*known.items()][:MOST]
    ]
    left = f" and {len(known) - MOST} more" * (len(known) > MOST)
    beside = "".join(f"; {name} {_number(value)}" for name, value in found.beside.items() if math.isfinite(value))
    n = numbers.count(found.n, found.of)
    return f"{found.what}: {', '.join(shown) or 'no value'}{left}{beside} ({n}; not tested)."


def _number(value: float) -> str:
    return f"{value:.3g}".replace("-", "−")


def _control(found: Untested, name: str) -> str:
    value = found.controls.get(name, math.nan)
    return f" ({found.control} {_number(value)})" if math.isfinite(value) else ""


def _spread(sd: float | None) -> str:
    return "" if sd is None or math.isnan(sd) else f" ± {sd:.2g}"


def of_figures(drawings: Sequence[Drawing]) -> list[dict[str, str]]:
    """Return the findings of figures, with the figure's number and id on the page."""
    return [{**sentence(found), "figure": one.number, "key": one.key} for one in drawings for found in one.findings]
