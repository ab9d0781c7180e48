"""Every layer of one space against every layer of another: similarities with null and interval, as a table."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.pair_grid import PARTIAL, PairSide, pair_similarities
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes, Similarity
from isoscope.geometry.similarity_grid import Side, Values, similarities
from isoscope.platform.statistics.delete_a_group import delete_a_group
from isoscope.states.compared_items import ComparedItems
from isoscope.states.word_space import Space

MOST_LACKING = 0.05


class Sampling(NamedTuple):
    """How many draws a cell has, and which: `items` of as many sentences for RSA and neighbours."""

    permutations: int
    items: int
    neighbours: int
    components: int | None
    confidence: float
    seed: int


def similarity_table(one: Space, other: Space, on: Sequence[ComparedItems], sampling: Sampling) -> pd.DataFrame:
    """Return a row per pair of layers, measure and kind of items.

    Columns: layer and other_layer (see `WordStates`), of (see `ComparedItems`), measure, value, low, high (jackknife
    over groups of sentences), without (values without each group), null, null_sd (sentences exchanged), adjusted
    ((value − null)/(1 − null)), n (items, in two halves for cca_held_out and neighbours), d and other_d, and why, if
    there is no value.
    """
    rows: list[dict[str, Any]] = []
    for items in on:
        theirs = {layer: _Layer(other, items, sampling, layer, 1) for layer in items.layers(other)}
        for layer in items.layers(one):
            own = _Layer(one, items, sampling, layer, 0)
            for there, second in theirs.items():
                about = {"layer": layer, "other_layer": there, "of": items.of, "d": own.width, "other_d": second.width}
                rows += (about | row for row in _cell(own, second, items, sampling))
    return pd.DataFrame(rows)


def equal_layers(
    one: Space, other: Space, on: ComparedItems, sampling: Sampling, names: Collection[str], *, last: bool = False
) -> pd.DataFrame:
    """Return the rows of `similarity_table` of layers with equal number, for measures from cross-products.

    `last`: of the first space's last layer only.
    """
    chosen = [measure for measure in measures(sampling) if measure.name in names]
    rows: list[dict[str, Any]] = []
    for layer in [*on.layers(one)][-1 if last else 0 :]:
        if layer in other.layers:
            first, second = (Side(on.points(space, layer), on.groups) for space in (one, other))
            rows += ({"layer": layer, "of": on.of} | row for row in _of_products(first, second, chosen, on, sampling))
    return pd.DataFrame(rows)


class _Layer:
    """A layer of a space, prepared for all measures. `seed`: of the first space and of the second, see `Neighbours`."""

    def __init__(self, space: Space, on: ComparedItems, sampling: Sampling, layer: int, seed: int) -> None:
        points = on.points(space, layer)
        self.width, self.items = points.shape[1], on.sample(sampling.items, seed=sampling.seed)
        self.empty = not points.any()
        if self.empty:
            return
        self.side = Side(points, on.groups)
        near = Neighbours(k=sampling.neighbours)
        options: dict[str, Any] = {"groups": on.groups[self.items], "seed": seed}
        self.pairs = PairSide(points[self.items], RSA(), near, on.controls(self.items), **options)


def measures(sampling: Sampling) -> list[Similarity | HeldOutCCA]:
    """Return the measures from cross-products, in the order of the table."""
    options: dict[str, Any] = {"components": sampling.components}
    return [
        *(CKA(), Procrustes(), CCA(**options), SVCCA(), PWCCA(**options), PWCCA(side="other", **options)),
        HeldOutCCA(**options),
    ]


def _cell(one: _Layer, other: _Layer, on: ComparedItems, sampling: Sampling) -> Iterator[dict[str, Any]]:
    if one.empty or other.empty:
        for name in (*(measure.name for measure in measures(sampling)), RSA.name, PARTIAL, Neighbours.name):
            nothing = Values(float("nan"), np.empty(0), np.empty(0), "a layer has no variance within a form")
            yield {"measure": name, "n": len(on.groups)} | _values(nothing, sampling)
        return
    yield from _of_products(one.side, other.side, measures(sampling), on, sampling)
    places = [on.places_of(one.items, seed=sampling.seed, draw=draw) for draw in range(sampling.permutations)]
    options: dict[str, Any] = {"groups": on.groups[one.items], "permutations": places}
    pairs = pair_similarities(one.pairs, other.pairs, RSA(), Neighbours(k=sampling.neighbours), **options)
    for name, values in pairs.items():
        yield {"measure": name, "n": len(one.items)} | _values(values, sampling)


def _of_products(
    one: Side, other: Side, chosen: Sequence[Similarity | HeldOutCCA], on: ComparedItems, sampling: Sampling
) -> Iterator[dict[str, Any]]:
    """Yield a row per measure from cross-products."""
    places = [on.places(seed=sampling.seed, draw=draw) for draw in range(sampling.permutations)]
    found = similarities(one, other, chosen, groups=on.groups, permutations=places)
    for name, values in found.items():
        yield {"measure": name, "n": len(on.groups)} | _values(values, sampling)


def _values(found: Values, sampling: Sampling) -> dict[str, Any]:
    low, high = delete_a_group(found.value, found.without, confidence=sampling.confidence) or (None, None)
    null = float(found.null.mean()) if len(found.null) else float("nan")
    sd = float(found.null.std(ddof=1)) if len(found.null) > 1 else float("nan")
    adjusted = (found.value - null) / (1 - null) if null < 1 else float("nan")  # all sentences are alike
    return {
        "value": found.value,
        "low": low,
        "high": high,
        "null": null,
        "null_sd": sd,
        "adjusted": adjusted,
        "why": found.why,
        "without": found.without,
    }


def check_complete(table: pd.DataFrame) -> None:
    """Raise `InputError` if more than `MOST_LACKING` of the cells with a value have no interval or no null."""
    known = table[table["value"].notna()]
    share = float(known[["low", "null"]].isna().any(axis=1).mean()) if len(known) else 0.0
    if share > MOST_LACKING:
        raise InputError(f"similarity: {share:.0%} of the cells have no interval or no null; give more text")
