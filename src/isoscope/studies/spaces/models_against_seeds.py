"""Are two models' spaces more different than two seeds of one model? A verdict per measure and layer."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, product
from typing import Any

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.statistics.delete_a_group import pseudo_values, seed_values
from isoscope.platform.statistics.paired import in_family, judge, paired_t, two_way_interval

FAMILY = ["of", "measure"]
"""With the pair of models: columns whose layers are one family of tests."""


Pair = tuple[tuple[str, int], tuple[str, int]]
"""Two runs, (model, seed) each."""


def couples(models: Mapping[str, Sequence[int]]) -> list[Pair]:
    """Return the pairs of (model, seed) to compare: each seed of a model with the next seed of every model.

    `models`: name → its seeds. Models of one seed may start from the same weights, which would make them more alike
    than two seeds of one model; so two models are compared at different seeds, in both directions, so that a seed that
    is unlike all others moves both sides of a comparison. With a single seed they are compared at that. After the last
    seed comes the first; two seeds of one model are one pair. The next seed is that of all seeds of a model and that of
    the seeds in common with another model. Raises `InputError` for models without a common seed.
    """
    found, inside = list[Pair](), [(name, seeds) for name, seeds in models.items()]
    for one, other in combinations(models, 2):
        common = _common(models, one, other)
        for seed, after in zip(common, _following(common), strict=True):
            found += dict.fromkeys([((one, seed), (other, after)), ((one, after), (other, seed))])
        inside += [(one, common), (other, common)]
    found += (((name, seed), (name, after)) for name, seeds in inside for seed, after in _pairs(seeds))
    once: dict[frozenset[tuple[str, int]], Pair] = {}
    for pair in found:
        once.setdefault(frozenset(pair), pair)
    return [*once.values()]


def references(models: Mapping[str, Sequence[int]]) -> list[Pair]:
    """Return what each (model, seed) is compared with over training: the next seed of every model, and its own end.

    Two models are compared at different seeds for the reason that `couples` gives; with a single seed, at that.
    """
    found = []
    for one, other in product(models, repeat=2):
        common = _common(models, one, other)
        found += [((one, seed), (other, after)) for seed, after in zip(common, _following(common), strict=True)]
    return [*dict.fromkeys([*found, *(((name, seed), (name, seed)) for name in models for seed in models[name])])]


def _common(models: Mapping[str, Sequence[int]], one: str, other: str) -> list[int]:
    if common := [seed for seed in models[one] if seed in models[other]]:
        return common
    raise InputError(f"models {one} and {other} have no seed in common; train one of both")


def _following(seeds: Sequence[int]) -> list[int]:
    return [*seeds[1:], *seeds[:1]]


def _pairs(seeds: Sequence[int]) -> list[tuple[int, int]]:
    """Return each seed with the next, and the last with the first; two seeds are one pair, one seed is none."""
    return [*zip(seeds, _following(seeds), strict=True)][: len(seeds) if len(seeds) > 2 else len(seeds) - 1]


def models_against_seeds(
    similarity: pd.DataFrame, models: Mapping[str, Sequence[int]], *, confidence: float, power: float, margin: float
) -> pd.DataFrame:
    """Return how much less alike two models are than two seeds of one model, per measure and layer.

    `similarity`: rows of `couples` (columns model, seed, other_model, other_seed), of layers of equal number. The
    number of a seed and the next: the mean similarity of both models with their own next seed, minus the mean
    similarity of each with the next seed of the other; similarities over their null, (value − null)/(1 − null), because
    the nulls of two pairs differ. A run is in the numbers of two pairs, so seeds are judged by their jackknife
    (`seed_values`).
    Items are groups of sentences, by the jackknife's pseudo-values, so means are corrected for bias. (Of the held-out
    CCA and of neighbours they are the groups of one half: verdicts are conditional on directions and candidates.)
    p by Holm over the layers of a pair, kind of items and measure.

    Columns: model, other_model, of, measure, layer, between (the models' similarity), within (the seeds'), difference,
    low, high, low and high over seeds and sentences (`two_way_…`), p_holm, tests (of the family), detectable, word,
    reason, n (seeds).
    """
    equal = similarity[(similarity["layer"] == similarity["other_layer"]) & ~similarity["twin"]]
    rows: list[dict[str, Any]] = []
    for one, other in combinations(models, 2):
        seeds = [seed for seed in models[one] if seed in models[other]]
        for about, family in equal.groupby(FAMILY, sort=False):
            named = {"model": one, "other_model": other, **dict(zip(FAMILY, about, strict=True))}
            cells = [*_cells(family, one, other, seeds)]
            rows += (named | row for row in _judged(cells, confidence=confidence, power=power, margin=margin))
    return pd.DataFrame(rows)


def _judged(
    cells: Sequence[tuple[int, np.ndarray, np.ndarray]], *, confidence: float, power: float, margin: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a family of layers, given each layer's numbers between models and within them."""
    tests = [
        paired_t(list((within - between).mean(1)), confidence=confidence)._replace(n=max(2, len(between)))
        for _, between, within in cells  # two seeds are one pair
    ]
    family = in_family(tests, confidence=confidence, power=power)
    tested = sum(p is not None for p, _ in family)
    for (layer, between, within), test, (p, detectable) in zip(cells, tests, family, strict=True):
        both = two_way_interval(within - between, confidence=confidence)
        above = float(between.mean()), float(within.mean())  # of similarities over their null
        options: dict[str, Any] = {"confidence": confidence, "margin": margin, "above": above}
        verdict = judge(test, both, p_holm=p, detectable=detectable, **options)
        (low, high), (two_way_low, two_way_high) = test.interval or (None, None), both or (None, None)
        row = {"layer": layer, "between": between.mean(), "within": within.mean(), "n": test.n}
        row |= {"difference": test.mean, "low": low, "high": high, "tests": tested}
        row |= {"two_way_low": two_way_low, "two_way_high": two_way_high, "p_holm": p, "detectable": detectable}
        yield row | verdict._asdict()


def _cells(
    family: pd.DataFrame, one: str, other: str, seeds: Sequence[int]
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    """Yield per layer: its number, and the pseudo-values `[seeds, groups]` between models and within them.

    They are NaN if a pair of seeds lacks a number; a layer where every pair does is left out.
    """
    for layer, cell in family.groupby("layer"):
        known = {
            frozenset({(row["model"], row["seed"]), (row["other_model"], row["other_seed"])}): _pseudo(row)
            for row in cell.to_dict("records")
        }
        sides, used = [], []
        for seed, after in _pairs(seeds):
            apart = ((one, seed), (other, after)), ((one, after), (other, seed))
            own = [((name, seed), (name, after)) for name in (one, other)]
            values = [found for pair in (*apart, *own) if (found := known.get(frozenset(pair))) is not None]
            sides.append(((values[0] + values[1]) / 2, (values[2] + values[3]) / 2) if len(values) == 4 else None)
            used.append((seed, after))
        if there := [side for side in sides if side is not None]:
            missing = np.full_like(there[0], np.nan)  # of a pair that lacks a number: no mean of those that are left
            every = [missing if side is None else side for side in sides]
            between, within = (seed_values(np.stack(side), used) for side in zip(*every, strict=True))
            yield int(str(layer)), between, within


def _pseudo(row: Mapping[str, Any]) -> np.ndarray | None:
    """Return the jackknife's pseudo-values of a similarity over its null, by group of sentences; None without."""
    if row["without"] is None or not np.isfinite(row["adjusted"]):
        return None
    without = (np.asarray(row["without"], dtype=float) - row["null"]) / (1 - row["null"])
    return pseudo_values(row["adjusted"], without)
