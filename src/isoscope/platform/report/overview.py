"""The first screen: what each study asked, found, and could not decide. All sentences are from tables."""

from collections.abc import Mapping
from math import isfinite
from typing import Any

from isoscope.base.metric import Metric
from isoscope.platform.config.declared import title
from isoscope.platform.figures import numbers
from isoscope.platform.report.sentences import COMPARED, sentence, way
from isoscope.platform.results.paired_comparison import ArmRow, in_units
from isoscope.platform.results.study_tables import Tables
from isoscope.platform.statistics.findings import Difference
from isoscope.platform.statistics.paired import FEWEST_SEEDS, MOST_PAIRS, NO_VERDICT, pairs_needed

SHOWN = 3
"""Findings per study on the first screen."""
WAYS = {"maximise": ("better", "worse"), "minimise": ("worse", "better"), None: ("higher", "lower")}
"""Better direction of a metric → what a higher and a lower value is."""
ORDER = ("holds", "does not", "under-powered", NO_VERDICT)


def overview(tables: Tables) -> dict[str, Any]:
    """Return the question of a study, its answer, best arm, main findings, and what limits them, in sentences.

    All are on the study's first metric; findings that hold stand first, the largest first.
    """
    metrics = list(dict.fromkeys(row.metric for row in tables.comparison))
    rows = [row for row in tables.comparison if row.metric == (metrics or [""])[0]]
    arms = [row for row in rows if row.kind != "baseline"]
    judged = sorted(
        (row for row in rows if row.kind == "arm" and row.verdict),
        key=lambda row: (ORDER.index(row.verdict.word) if row.verdict else 0, -abs(row.difference or 0.0)),
    )
    return {
        "question": _question(arms),
        "answer": _answer(judged, arms, tables.metrics),
        "best": _best(arms, tables.metrics),
        "findings": [finding(row, tables) for row in judged[:SHOWN] if not few(row)],
        "left": max(0, len(judged) - SHOWN) if judged and not few(judged[0]) else 0,
        "limits": _limits(judged, arms, [row for row in rows if row.kind == "baseline"], tables, len(metrics)),
        "source": f"{tables.study}/comparison/{(metrics or [''])[0]}#{COMPARED}",
    }


def summary(tables: Tables) -> dict[str, Any]:
    """Return the overview for a terminal: question, best, findings (texts with the verdict's word) and limits."""
    found = overview(tables)
    said = [f"{one['word']}: {one['text']}" for one in found["findings"]]
    return {part: found[part] for part in ("question", "answer", "best", "limits")} | {"findings": said}


def few(row: ArmRow) -> bool:
    """Return whether the row has too few paired seeds for an interval."""
    return row.kind == "arm" and len(row.paired_seeds) < FEWEST_SEEDS


def finding(row: ArmRow, tables: Tables) -> dict[str, str]:
    """Return the verdict's word and a sentence on the difference of an arm from the reference arm."""
    assert row.verdict is not None
    same = [one for one in tables.comparison if one.metric == row.metric]
    *_, reference = "the reference", *(one.arm for one in same[: same.index(row)] if one.kind == "reference")
    interval = row.two_way or (row.paired and row.paired.interval)  # that of the verdict
    about = (row.verdict, row.difference, interval, len(row.paired_seeds), row.detectable)
    said = sentence(Difference(title(row.metric, tables.metrics), row.arm, reference, *about))
    said["source"] = f"{tables.study}/comparison/{row.metric} {row.arm}#{COMPARED}"
    return said | {"text": said["text"] + _apart(row)}


def _apart(row: ArmRow) -> str:
    """Return which seed lies apart from the others, and the median beside it; nothing if no seed does."""
    found = row.robust
    if found is None or found.apart is None:
        return ""
    inside = numbers.interval(found.interval) if found.interval else f"range {numbers.interval(found.range)}"
    return (
        f" Seed {row.paired_seeds[found.apart]} lies apart from the others ({numbers.signed(found.farthest)}), so the "
        f"interval may miss the mean. Median: {numbers.signed(found.median)}, {inside}."
    )


def _question(arms: list[ArmRow]) -> str:
    if not arms:
        return "There are no runs."
    *others, last = [row.arm for row in arms]
    if not others:
        return f"How well does {last} do on {arms[0].task}?"
    if sum(row.kind == "reference" for row in arms) > 1:
        return f"{', '.join(others)} and {last} on {arms[0].task}: objectives differ, so their scores are not compared."
    return f"How do {', '.join(others)} and {last} differ on {arms[0].task}?"


def _answer(judged: list[ArmRow], arms: list[ArmRow], metrics: Mapping[str, Metric]) -> str:
    """Return which arms are better or worse than the reference, by their verdicts; nothing without an interval.

    Of a metric that its objective does not declare: which are higher or lower.
    """
    references = [row.arm for row in arms if row.kind == "reference"]
    if len(references) != 1 or not judged or all(map(few, judged)):
        return ""
    up, down = WAYS[judged[0].better]
    said: dict[str, list[str]] = {one: [] for one in (*sorted((up, down)), "no difference", "not decided", NO_VERDICT)}
    for row in judged:
        assert row.verdict is not None
        said[way(row.verdict.word, row.difference, up, down)].append(row.arm)
    found = ". ".join(f"{one.capitalize()}: {', '.join(named)}" for one, named in said.items() if named)
    return f"{title(judged[0].metric, metrics)}, compared with {references[0]}. {found}."


def _best(arms: list[ArmRow], metrics: Mapping[str, Metric]) -> str:
    """Return which arm has the best mean of the metric; nothing for objectives that differ, and for few seeds.

    This is no verdict.
    """
    apart = sum(row.kind == "reference" for row in arms) > 1
    if not arms or apart or min(len(row.seeds) for row in arms) < FEWEST_SEEDS or not _finite(arms):
        return ""
    less = arms[0].better == "minimise"
    best = (min if less else max)(arms, key=lambda row: row.mean)
    score = f"{numbers.spread(best.mean, best.sd)} ({numbers.count(len(best.seeds), 'seed')})"
    if len(arms) == 1:
        return f"{title(best.metric, metrics)}: {score}."
    *others, last = [row.arm for row in arms if row.mean == best.mean]
    named = f"{', '.join(others)} and {last}, {numbers.score(best.mean)} each" if others else f"{last}, {score}"
    return f"{'Lowest' if less else 'Highest'} mean, {title(best.metric, metrics)}: {named}."


def _beaten(arms: list[ArmRow], baselines: list[ArmRow]) -> list[str]:
    """Return which arms have no better mean than the best baseline, in a sentence; nothing if all have."""
    if not arms or not baselines or arms[0].better is None or not _finite(baselines):
        return []
    sign = -1 if arms[0].better == "minimise" else 1
    best = max(baselines, key=lambda row: sign * row.mean)
    if not (weak := [row.arm for row in arms if sign * row.mean <= sign * best.mean]):
        return []
    return [f"No better mean than {best.arm} ({numbers.score(best.mean)}): {', '.join(weak)}."]


def _limits(
    judged: list[ArmRow], arms: list[ArmRow], baselines: list[ArmRow], tables: Tables, metrics: int
) -> list[str]:
    """Return what was under-powered, with the seeds that would find a difference, else why, and what was tested."""
    found, weak = [], [row for row in judged if row.verdict and row.verdict.word == "under-powered"]
    if judged and all(map(few, judged)):
        most = numbers.count(max(len(row.seeds) for row in arms), "seed")
        found.append(f"{most} per arm: every difference is under-powered. It takes at least {FEWEST_SEEDS} seeds.")
    elif weak:
        said = [f"Under-powered: {len(weak)} of {len(judged)}."]
        more = [row for row in weak if _of_seeds(row, tables.confidence)]
        said += [f"{row.arm}: {row.verdict.reason}." for row in weak if row.verdict and row not in more]
        if more:
            needed = "; ".join(f"{row.arm}: {_needed(row, tables)}" for row in more)
            said.append(f"Seeds in all, to find a difference: {needed}.")
            said.append(f"To add seeds: studies.{tables.study}.seeds in params.yaml, then isoscope repro.")
        found.append(" ".join(said))
    found += _beaten(arms, baselines)
    if rows := max((row.items for row in judged), default=0):
        others = f", and {numbers.count(metrics - 1, 'other metric')} in the table below" if metrics > 1 else ""
        found.append(f"One test split of {numbers.count(rows, 'row')}{others}.")
    return found


def _of_seeds(row: ArmRow, confidence: float) -> bool:
    """Return whether more seeds could decide a row: not without an interval over items, or if seeds agree already."""
    return few(row) or (row.two_way is not None and row.p_holm is not None and row.p_holm >= 1 - confidence)


def _finite(rows: list[ArmRow]) -> bool:
    return all(isfinite(row.mean) for row in rows)


def _needed(row: ArmRow, tables: Tables) -> str:
    """Return how many seeds would find a true difference as large as the measured one, and one of the margin.

    Both are for the observed spread over seeds.
    """
    if row.paired is None or not row.paired.sd or not row.tests:
        return f"at least {FEWEST_SEEDS}, to know their spread"
    said = []
    margin = in_units(tables.margin, tables.metrics.get(row.metric))
    for effect, of in ((abs(row.paired.mean), "as large as measured"), (margin, "of the margin")):
        standard = effect / row.paired.sd
        most = pairs_needed(standard, tests=row.tests, confidence=tables.confidence, power=tables.power)
        seeds = f"about {most:,}" if most else f"more than {MOST_PAIRS:,}"
        said.append(f"{seeds} for one {of} ({numbers.score(effect)})")
    return ", ".join(said)
