"""Findings as sentences. Every word of them depends on a number or a verdict of a table."""

import math
from collections.abc import Sequence

from isoscope.report import numbers
from isoscope.report.drawing import Drawing
from isoscope.studies.findings import Finding, Untested

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
