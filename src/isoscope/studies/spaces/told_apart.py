"""Are two models' spaces more different than two seeds of one model? A verdict per measure and layer."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from isoscope.statistics.paired import in_family, judge, paired_t, two_way_interval

KEYS = ["of", "measure", "layer"]


def couples(models: Mapping[str, Sequence[int]]) -> list[tuple[tuple[str, int], tuple[str, int]]]:
    """Return the pairs of (model, seed) to compare: each seed of a model with the next seed of every model.

    `models`: name → its seeds. Models of one seed may start from the same weights, which would make them more alike
    than two seeds of one model; so they are compared at one seed only if they have no other in common. After the last
    seed comes the first; two seeds of one model are one pair.
    """
    found = []
    for one, other in combinations(models, 2):
        both = [seed for seed in models[one] if seed in models[other]]
        found += [((one, seed), (other, after)) for seed, after in zip(both, _following(both), strict=True)]
    for name, seeds in models.items():
        last = len(seeds) if len(seeds) > 2 else len(seeds) - 1
        found += [((name, seed), (name, after)) for seed, after in zip(seeds[:last], _following(seeds), strict=False)]
    return found


def _following(seeds: Sequence[int]) -> list[int]:
    return [*seeds[1:], *seeds[:1]]


def told_apart(
    similarity: pd.DataFrame, models: Mapping[str, Sequence[int]], *, confidence: float, power: float, margin: float
) -> pd.DataFrame:
    """Return how much less alike two models are than two seeds of one model, per measure and layer.

    `similarity`: rows of `couples` (columns model, seed, other_model, other_seed), on equal layers. A seed's number:
    half of the similarity of both models with their next seed, minus the similarity of one with the other's next seed.
    Items are groups of sentences, by the jackknife's pseudo-values. p by Holm over the table.

    Columns: model, other_model, of, measure, layer, between (the models' similarity), within (the seeds'), difference,
    low, high, low and high over seeds and sentences (`two_way_…`), p_holm, detectable, word, reason, n (seeds).
    """
    equal = similarity[similarity["layer"] == similarity["other_layer"]]
    rows: list[dict[str, Any]] = []
    folds: list[np.ndarray] = []
    for one, other in combinations(models, 2):
        seeds = [seed for seed in models[one] if seed in models[other]]
        for about, between, within in _cells(equal, one, other, seeds):
            means = {"between": between.mean(), "within": within.mean(), "n": len(between)}
            rows.append({"model": one, "other_model": other} | about | means)
            folds.append(within - between)
    tests = [paired_t(list(own.mean(1)), confidence=confidence) for own in folds]
    family = in_family(tests, confidence=confidence, power=power)
    for row, own, test, (p, detectable) in zip(rows, folds, tests, family, strict=True):
        both = two_way_interval(own, confidence=confidence)
        options: dict[str, Any] = {"confidence": confidence, "margin": margin}
        verdict = judge(test, both, p_holm=p, detectable=detectable, **options)
        low, high = test.interval or (None, None)
        two_way_low, two_way_high = both or (None, None)
        row |= {"difference": test.mean, "low": low, "high": high}
        row |= {"two_way_low": two_way_low, "two_way_high": two_way_high, "p_holm": p, "detectable": detectable}
        row |= {"word": verdict.word, "reason": verdict.reason}
    return pd.DataFrame(rows)


def _cells(
    equal: pd.DataFrame, one: str, other: str, seeds: Sequence[int]
) -> Iterator[tuple[dict[str, Any], np.ndarray, np.ndarray]]:
    """Yield per measure and layer: its name, and the pseudo-values `[seeds, groups]` between models and within them."""
    for key, cell in equal.groupby(KEYS, sort=False):
        between, within = [], []
        for seed in seeds:
            apart = _pseudo(cell, (one, seed), other)
            first, second = (_pseudo(cell, (name, seed), name) for name in (one, other))
            if apart is not None and first is not None and second is not None:
                between.append(apart)
                within.append((first + second) / 2)
        if between:
            yield dict(zip(KEYS, key, strict=True)), np.stack(between), np.stack(within)


def _pseudo(cell: pd.DataFrame, one: tuple[str, int], other: str) -> np.ndarray | None:
    """Return the jackknife's pseudo-values of a similarity by group of sentences; None without a value."""
    rows = cell[(cell["model"] == one[0]) & (cell["seed"] == one[1]) & (cell["other_model"] == other)]
    if rows.empty or rows["without"].iloc[0] is None or not np.isfinite(rows["value"].iloc[0]):
        return None
    without = np.asarray(rows["without"].iloc[0], dtype=float)
    return len(without) * float(rows["value"].iloc[0]) - (len(without) - 1) * without
