"""Compare a study's arms with its reference arm, over seeds and over test items."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from isoscope.base.metric import DECIMALS, Direction, Metric
from isoscope.platform.config.declared import declares
from isoscope.platform.outputs import Output
from isoscope.platform.statistics.failed_seed import Robust, robust
from isoscope.platform.statistics.paired import (
    Interval,
    Paired,
    Verdict,
    in_family,
    judge,
    paired_t,
    two_way_interval,
)


class Result(NamedTuple):
    """A run's results on the test split."""

    output: Output
    scores: Mapping[str, float]
    """Metric → value."""
    shares: Mapping[str, NDArray[np.float64]]
    """Metric → each test item's share of the score; only metrics that have shares."""
    items: NDArray[np.int64]
    """Identity of the test items: runs are comparable if it is equal."""
    above: Mapping[str, float] = MappingProxyType({})
    """Metric → by how much the score is better than the best prediction that reads no input; without other metrics."""


Arms = Mapping[str, Mapping[int, Result]]
"""Arm → seed → its result on the test split."""
Baselines = Mapping[str, Mapping[str, float]]
"""Name → metric → value on the test split; `n` is the number of items."""


class ArmRow(NamedTuple):
    """An arm or baseline of a study on a metric of the test split, compared with the study's first arm."""

    study: str
    task: str
    metric: str
    arm: str
    kind: str
    """reference (the first arm of an objective), arm, or baseline (deterministic: no seeds, no sd)."""
    seeds: tuple[int, ...]
    mean: float
    sd: float | None
    """Over seeds, divided by n − 1; None for a single seed."""
    items: int
    """Rows of the test split."""
    difference: float | None = None
    """From the reference arm; between arms, over the seeds that both have."""
    paired_seeds: tuple[int, ...] = ()
    """Seeds that both arms have."""
    paired: Paired | None = None
    """The difference over those seeds; with a paired-t interval and p if there are at least 3 pairs."""
    two_way: Interval | None = None
    """Interval of the difference if both seeds and test items are samples."""
    detectable: float | None = None
    """Minimum detectable effect: the true difference that Holm's first step finds with the stated power, given the
    observed spread."""
    p_holm: float | None = None
    """p corrected by Holm within the family, task × metric."""
    tests: int = 0
    """Number of tests in that family."""
    verdict: Verdict | None = None
    above: tuple[float, ...] = ()
    """By how much this arm and the reference are better than a constant prediction, if that is known."""
    robust: Robust | None = None
    """Median of the differences, and which seed lies apart from the others; None below 3 pairs."""
    better: Direction | None = None
    """The better direction of the metric; None if its objective declares none."""

    @property
    def family(self) -> str:
        """Name of the family within which p is corrected."""
        return f"{self.task} × {self.metric}"


class StudyRuns(NamedTuple):
    """The finished runs of a study, the manifest of its task, and the scores of its baselines."""

    arms: Arms
    manifest: Mapping[str, Any]
    stores: Mapping[str, Mapping[tuple[str, int], Path]] = MappingProxyType({})
    """`states` and `measures`: arm and seed → folder."""
    baselines: Baselines = MappingProxyType({})


def compare_arms(arms: Arms, baselines: Baselines, *, confidence: float, power: float, margin: float) -> list[ArmRow]:
    """Compare the arms of a study on each metric of the test split, reference arm first.

    Metrics: all that every run of an arm has, with an interval over items if runs have shares of the score by item.
    Only arms that predict the same are compared (see `_alike`): the first arm of each such group is the reference of
    the others. Differences are paired by seed. p is corrected by Holm within task × metric.

    `margin` is the smallest difference that counts, as a share of 1; only the verdict uses it.
    """
    rows: list[ArmRow] = []
    declared = declared_by(run.output for runs in arms.values() for run in runs.values())
    for metric in metrics_of(arms) if arms else ():
        family = [*_rows(arms, metric, baselines, confidence=confidence)]
        corrected = in_family([row.paired for row in family], confidence=confidence, power=power)
        tests = sum(p is not None for p, _ in corrected)
        for row, (p, least) in zip(family, corrected, strict=True):
            row = row._replace(p_holm=p, tests=0 if p is None else tests, detectable=least)
            limit = in_units(margin, declared.get(metric))
            found, whole = row.paired, row.two_way
            options: dict[str, Any] = {"p_holm": p, "detectable": least, "confidence": confidence, "margin": limit}
            verdict = judge(found, whole, **options, above=row.above)
            rows.append(row._replace(verdict=verdict) if row.kind == "arm" else row)
    return rows


def in_units(margin: float, metric: Metric | None) -> float:
    """Return a margin, a share of a metric's highest value, in its units; of a metric without a bound, as it is."""
    return margin * ((metric and metric.high) or 1.0)


def declared_by(outputs: Iterable[Output]) -> dict[str, Metric]:
    """Return the metrics that the objectives of runs declare, by name; of a name that several declare, the first."""
    found: dict[str, Metric] = {}
    for output in outputs:
        for name, one in output.metrics.items():
            found.setdefault(name, one)
    return found


def metrics_of(arms: Arms) -> list[str]:
    """Return the metrics of all runs: in the order that their objectives declare, then as they were recorded."""
    every = [run for runs in arms.values() for run in runs.values()]
    measured = dict.fromkeys(metric for run in every for metric in run.scores)
    declared = dict.fromkeys(name for name in declared_by(run.output for run in every) if name in measured)
    return list(declared | measured)


def _alike(arms: Arms, metric: str) -> list[Arms]:
    """Return the arms that have a metric, apart by what they predict: the task's target, or that of their objective.

    Arms whose first arm lacks the metric at a seed are left out: no other arm takes its place as reference.
    """
    found: dict[str, dict[str, Mapping[int, Result]]] = {}
    for arm, runs in arms.items():
        output = next(iter(runs.values())).output
        # What an objective without a target predicts, such as masked tokens, depends on its options.
        same = declares(output.objective, "TARGET") is not None
        predicts = output.objective if same else json.dumps(output.params.get("objective"), sort_keys=True)
        found.setdefault(predicts, {})[arm] = runs
    has = {arm: all(metric in run.scores for run in runs.values()) for arm, runs in arms.items()}
    return [{arm: runs for arm, runs in own.items() if has[arm]} for own in found.values() if has[next(iter(own))]]


def _rows(arms: Arms, metric: str, baselines: Baselines, *, confidence: float) -> Iterator[ArmRow]:
    """Yield the rows of a metric, without the fields that need all of them."""
    if not (alike := _alike(arms, metric)):
        return
    for group in alike:
        yield from _against_first(group, metric, confidence=confidence)
    base = _alone(*next(iter(alike[0].items())), metric)
    for name, values in baselines.items():
        if metric in values:  # else it is a baseline of another objective
            about = (base.study, base.task, metric, name, "baseline", (), values[metric], None, int(values["n"]))
            difference = round(values[metric] - base.mean, DECIMALS) + 0.0  # as its score is rounded; not −0
            yield ArmRow(*about, difference=difference, better=base.better)


def _against_first(arms: Arms, metric: str, *, confidence: float) -> Iterator[ArmRow]:
    """Yield the first arm as reference, and each other arm with its difference from it."""
    (first, reference), *others = arms.items()
    yield _alone(first, reference, metric)
    for name, runs in others:
        row = _alone(name, runs, metric)._replace(kind="arm")
        if both := tuple(seed for seed in runs if seed in reference):
            pairs = [(runs[seed], reference[seed]) for seed in both]
            scores = np.array([[run.scores[metric], other.scores[metric]] for run, other in pairs])
            scale = float(np.abs(scores).max())
            differences = (scores[:, 0] - scores[:, 1]).tolist()
            test = paired_t(differences, confidence=confidence, scale=scale)
            shared = all(metric in run.shares for pair in pairs for run in pair)
            by_item = [run.shares[metric] - other.shares[metric] for run, other in pairs] if shared else []
            row = row._replace(
                difference=test.mean,
                paired_seeds=both,
                paired=test,
                above=above_constant(metric, [run for run, _ in pairs], [other for _, other in pairs]),
                robust=robust(differences, confidence=confidence),
                two_way=two_way_interval(np.stack(by_item), confidence=confidence) if by_item else None,
            )
        yield row


def above_constant(metric: str, *sides: Sequence[Result]) -> tuple[float, ...]:
    """Return by how much the mean of each side's runs is better than a constant prediction; empty if not known."""
    if not all(metric in run.above for side in sides for run in side):
        return ()
    return tuple(float(np.mean([run.above[metric] for run in side])) for side in sides)


def _alone(arm: str, runs: Mapping[int, Result], metric: str) -> ArmRow:
    """Return an arm's mean and sd over all its seeds, without a comparison."""
    values = [run.scores[metric] for run in runs.values()]
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else None
    first = next(iter(runs.values()))
    about = (first.output.run.study, first.output.run.task, metric, arm, "reference", tuple(runs))
    declared = first.output.metrics.get(metric)
    better = declared and declared.better
    return ArmRow(*about, mean=float(np.mean(values)), sd=sd, items=len(first.items), better=better)
