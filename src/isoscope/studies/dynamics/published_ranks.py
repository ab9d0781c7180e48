"""Verdicts on the ranks of components by how often they hurt, next to the table of Vázquez et al. 2022."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.platform.statistics.paired import FEWEST_SEEDS, holm
from isoscope.studies.dynamics.hurting_counts import COUNTED
from isoscope.studies.dynamics.learning import TRAINED
from isoscope.studies.published import FAIL, NO_VERDICT, PASS, UNDERPOWERED, Reproduced, Reproducible, counted
from isoscope.studies.tables import read_tables

TABLE = "hurting_published"
DECIDES = "updates"
"""The counting that decides the exit code: the minibatch estimator is the likely published one."""


class RankCell(NamedTuple):
    """The ranks of an arm's components in one counting, next to the published ranks."""

    arm: str
    objective: str
    counted: str
    decides: bool
    seeds: int
    components: int
    tau: float | None
    p: float | None
    """Exact, two-sided, of tau."""
    p_holm: float | None
    """By Holm over the arms of a counting."""
    phase: str
    """Whether the last hurting update falls inside or after the warm-up, or `never`; not part of the verdict."""
    published_phase: str
    verdict: str
    reason: str


def judged(row: Mapping[str, Any], confidence: float) -> tuple[str, str]:
    """Return the verdict on a row of `hurting_counts.compared`, and its reason.

    - *no verdict*: the arm is not trained.
    - *under-powered*: fewer than 3 seeds; or no order of these counts, with their ties, reaches p ≤ 1 − `confidence`;
      or p after Holm (`corrected`) is larger than that.
    - *pass*: tau > 0 with p after Holm ≤ 1 − `confidence` (exact, two-sided).
    - *fail*: tau < 0 with such a p: the order is rather the reverse.
    """
    level = 1 - confidence + 1e-9
    if row["word"] != TRAINED:
        return NO_VERDICT, str(row["word"])
    tau, p, least = (_number(row[name]) for name in ("tau", "p_holm", "least"))
    if row["n"] < FEWEST_SEEDS:
        return UNDERPOWERED, f"{row['n']} seed{'s' * (row['n'] != 1)}: no verdict below {FEWEST_SEEDS}"
    if tau is None or p is None or least is None:
        return UNDERPOWERED, "all components hurt equally often"
    if least > level:
        return UNDERPOWERED, f"no order of {row['components']} components with these ties has p ≤ {level:.2g}"
    if p > level:
        return UNDERPOWERED, f"no clear order: p > {level:.2g}"
    if tau > 0:
        return PASS, f"the ranks agree (τ > 0, p ≤ {level:.2g})"
    return FAIL, f"the ranks are rather reversed (τ < 0, p ≤ {level:.2g})"


def corrected(rows: Sequence[Mapping[str, Any]]) -> list[float]:
    """Return p of each row of `hurting_counts.compared` by Holm over the arms of its counting; NaN without p."""
    found = [math.nan] * len(rows)
    for counting in dict.fromkeys(row["counted"] for row in rows):
        places = [place for place, row in enumerate(rows) if row["counted"] == counting]
        chances = [_number(rows[place]["p"]) for place in places]
        for place, p in zip(places, holm([math.nan if p is None else p for p in chances]), strict=True):
            found[place] = p
    return found


def _number(value: Any) -> float | None:
    return None if value is None or math.isnan(float(value)) else float(value)


def reproduced(folder: Path) -> Reproduced:
    """Return the comparison of a study that `isoscope analyse` wrote to `folder`.

    Raises `InputError` if it is missing, or from an older version.
    """
    again = f"run: isoscope analyse {folder.name}"
    try:
        tables = read_tables(folder)
    except InputError as error:
        raise InputError(f"{str(error).partition('; run:')[0]}; {again}") from None
    rows = tables.by_name[TABLE].to_dict("records") if TABLE in tables.by_name else []
    try:
        cells = [_cell(row, p, tables.confidence) for row, p in zip(rows, corrected(rows), strict=True)]
    except KeyError as error:
        raise InputError(f"{folder}: table {TABLE} has no column {error}; {again}") from None
    failed = any(cell.decides and cell.verdict == FAIL for cell in cells)
    return Reproduced([cell._asdict() for cell in cells], _text(cells), failed)


def _cell(row: Mapping[str, Any], p_holm: float, confidence: float) -> RankCell:
    decides = row["counted"] == DECIDES
    named = (str(row["arm"]), str(row["objective"]), str(row["counted"]), decides, int(row["n"]))
    agreed = (int(row["components"]), _number(row["tau"]), _number(row["p"]), _number(p_holm))
    verdict = judged({**row, "p_holm": p_holm}, confidence)
    return RankCell(*named, *agreed, row["phase"], row["published_phase"], *verdict)


def _text(cells: Sequence[RankCell]) -> str:
    """Format the cells as lines for a terminal, with the count of each verdict."""
    if not cells:
        return "no runs of a published objective (masked, causal, translation) with an allocation"
    width = max(len(cell.arm) for cell in cells)
    lines = [f"{'arm':{width}}  {'counted':8}  {'seeds':>5}  {'tau':>5}  {'p':>5}  warm-up (published)    verdict"]
    for cell in cells:
        tau, p = ("–" if value is None else f"{value:.2f}" for value in (cell.tau, cell.p))
        last = f"{cell.phase} ({cell.published_phase})"
        shown = f"{cell.arm:{width}}  {cell.counted:8}  {cell.seeds:>5}  {tau:>5}  {p:>5}  {last:21}"
        lines.append(f"{shown}  {cell.verdict}: {cell.reason}")
    deciding = [cell.verdict for cell in cells if cell.decides]
    lines += [f"{name}: {text}" for name, text in COUNTED.items() if any(cell.counted == name for cell in cells)]
    of = f"Only {DECIDES} decide the exit code, since the published estimator is likely the minibatch's"
    missing = "" if deciding else "; no run has it (settings: [allocated, minibatch])"
    return "\n".join([*lines, f"{of}{missing}.", counted([cell.verdict for cell in cells])])


REPRODUCIBLE = Reproducible(
    lambda study, cells: bool(study.seeds) and any(cell.training.allocation for cell in cells), reproduced
)
