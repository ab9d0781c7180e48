"""Findings as sentences. Every word of them depends on a number or a verdict of a table."""

from collections.abc import Mapping, Sequence
from typing import Any

from isoscope.report import numbers
from isoscope.report.drawing import Drawing
from isoscope.statistics.paired import Interval
from isoscope.studies.findings import Finding, Values
from isoscope.titles import title

MOST = 8
"""Values in one sentence."""


def sentence(found: Finding) -> dict[str, str]:
    """Return the verdict's word (none for values) and a sentence."""
    if isinstance(found, Values):
        return {"word": "", "text": _values(found)}
    match found.verdict.word:
        case "holds":
            way = "higher" if (found.difference or 0.0) > 0 else "lower"
            said = f"{found.what} of {found.one} is {way} than that of {found.other}"
        case "does not":
            said = f"{found.what} of {found.one} does not differ from that of {found.other}"
        case _:
            said = f"{found.what} of {found.one} and {found.other}: no verdict"
    number = "no common seed" if found.difference is None else numbers.signed(found.difference)
    bounds = f" {numbers.interval(found.interval)}" if found.interval else ""
    pairs = numbers.count(found.pairs, "paired seed")
    effect = f"; detectable {numbers.score(found.detectable)}" if found.detectable is not None else ""
    text = f"{said}: {number}{bounds} ({pairs}{effect}): {found.verdict.reason}."
    return {"word": found.verdict.word, "text": text}


def _values(found: Values) -> str:
    shown = [*found.values.items()][:MOST]
    text = ", ".join(f"{name} {f'{value:.3g}'.replace('-', '−')}" for name, value in shown)
    left = f" and {len(found.values) - MOST} more" * (len(found.values) > MOST)
    return f"{found.what}: {text}{left} ({numbers.count(found.n, found.of)}, no verdict)."


def of_figures(drawings: Sequence[Drawing]) -> list[dict[str, str]]:
    """Return the findings of figures, with the figure's number and id on the page."""
    return [{**sentence(found), "figure": one.number, "key": one.key} for one in drawings for found in one.findings]


def of_differences(rows: Sequence[Mapping[str, Any]], *, confidence: float) -> list[dict[str, str]]:
    """Return how many tested differences between arms have a small p after Holm, and which has the smallest.

    `rows`: see `statistics.differences`. Nothing if none is tested.
    """
    tested = [row for row in rows if row["p_holm"] is not None]
    if not tested:
        return []
    below = sorted((row for row in tested if row["p_holm"] < 1 - confidence), key=lambda row: float(row["p_holm"]))
    text = f"{len(below)} of {numbers.count(len(tested), 'tested difference')} between arms"
    text += f" {'has' if len(below) == 1 else 'have'} p < {1 - confidence:.2g} after Holm's correction"
    if below:
        first = below[0]
        bounds = numbers.interval(Interval(first["low"], first["high"]))
        text += f", first {title(first['figure'])}, {first['arm']} − {first['reference']}: "
        text += f"{numbers.signed(first['difference'])} {bounds} ({numbers.count(first['n'], 'paired seed')})"
    return [{"word": "", "text": f"{text}."}]
