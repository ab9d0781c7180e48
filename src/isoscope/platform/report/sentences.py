"""Findings as sentences, and as rows of a table. Every word of them depends on a number or a verdict of a table."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from isoscope.base.paths import CONFIRMED
from isoscope.platform.config.declared import title
from isoscope.platform.figures import numbers
from isoscope.platform.report.drawing import Drawing
from isoscope.platform.statistics.findings import Finding, Untested
from isoscope.platform.statistics.paired import FEWEST_SEEDS, NO_VERDICT, Interval

MOST = 8
"""Values in one sentence."""
# Columns of the comparison of arms that sentences about it use:
COMPARED = "mean,sd,seeds,difference,paired_seeds,paired,two_way,detectable,p_holm,verdict,items"
DECIDED = ("holds", "does not")
"""Verdicts beside which a smallest detectable effect says nothing more."""


def sentence(found: Finding, tables: str = "") -> dict[str, str]:
    """Return a finding as a sentence, `text`, and as a row: what, value, n, the verdict's word (or none), and why.

    `tables`: names of those that it is made from; `source` of the result also has row and columns.
    """
    if isinstance(found, Untested):
        row = {"what": found.what, "value": _values(found), "n": numbers.count(found.n, found.of), "word": ""}
        row["source"] = f"{tables}/{found.what}#{','.join(found.values)}"
        return row | {"why": "not tested here", "text": f"{row['what']}: {row['value']} ({row['n']}; not tested here)."}
    said = way(found.verdict.word, found.difference)
    number = "no common seed" if found.difference is None else numbers.signed(found.difference)
    bounds = f" {numbers.interval(found.interval)}" if found.interval else ""
    row = {"what": f"{found.what}, {found.one} against {found.other}", "value": f"{number}{bounds}"}
    row |= {"n": numbers.count(found.pairs, "paired seed"), "word": found.verdict.word, "why": found.verdict.reason}
    row["source"] = f"{tables}/{row['what']}#difference,low,high,n,detectable,p_holm"
    known = found.detectable is not None and found.verdict.word not in DECIDED
    effect = f"; detectable {numbers.score(found.detectable)}" * known
    return row | {"text": f"{row['what']}: {said}, {row['value']} ({row['n']}{effect}); {row['why']}."}


def way(word: str, difference: float | None, up: str = "higher", down: str = "lower") -> str:
    """Return what a verdict's word says of an arm: `up` or `down` where the difference holds."""
    named = {"holds": up if (difference or 0.0) > 0 else down, "does not": "no difference", NO_VERDICT: NO_VERDICT}
    return named.get(word, "not decided")


def confirmed(row: Mapping[str, Any], believed: Mapping[str, float]) -> dict[str, str]:
    """Return the verdict's word and a sentence on a trial of a search against the default, with fresh seeds.

    `believed`: the trial's objectives in the search.
    """
    search = believed.get(row["metric"])
    inside = "" if search is None else f"; in the search {title(row['metric'])} {numbers.score(search)}"
    few = "(an interval needs three seeds)" if row["n"] < FEWEST_SEEDS else numbers.NOTHING
    bounds = few if row["low"] is None else numbers.interval(Interval(row["low"], row["high"]))
    default, trial = (numbers.score(row[name]) for name in ("mean_reference", "mean"))
    text = f"{title(row['judged'])}: {default} (default), {trial} (trial{inside})"
    text += f", difference {numbers.signed(row['difference'])} {bounds} over {row['by']}; {row['reason']}."
    return {"word": row["verdict"], "text": text, "source": f"{CONFIRMED}#{row['judged']}"}


def _values(found: Untested) -> str:
    known = {name: value for name, value in found.values.items() if math.isfinite(value)}
    number = _format(known.values())
    shown = [
        f"{name} {number(value)}{_spread(found.sds.get(name), number)}{_control(found, name, number)}"
        for name, value in [*known.items()][:MOST]
    ]
    left = f" and {len(known) - MOST} more" * (len(known) > MOST)
    beside = "".join(f"; {name} {number(value)}" for name, value in found.beside.items() if math.isfinite(value))
    return f"{', '.join(shown) or 'no value'}{left}{beside}"


def _format(values: Iterable[float]) -> Callable[[float], str]:
    """Return how to write all numbers of a sentence: with the decimals that give the largest three digits."""
    largest = max(map(abs, values), default=0.0)
    decimals = max(0, 2 - math.floor(math.log10(largest))) if largest else 3
    return lambda value: f"{value:.{decimals}f}".replace("-", "−")


def _control(found: Untested, name: str, number: Callable[[float], str]) -> str:
    value = found.controls.get(name, math.nan)
    return f" ({found.control} {number(value)})" if math.isfinite(value) else ""


def _spread(sd: float | None, number: Callable[[float], str]) -> str:
    return "" if sd is None or math.isnan(sd) else f" ± {number(sd)}"


def of_figures(drawings: Sequence[Drawing], study: str = "") -> list[dict[str, str]]:
    """Return the findings of figures, with the figure's number and id on the page. `study`: whose figures they are."""
    return [
        {**sentence(found, f"{study}/{','.join(one.tables)}"), "figure": one.number, "key": one.key}
        for one in drawings
        for found in one.findings
    ]
