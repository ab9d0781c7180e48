"""Every layer of one space against every layer of another: similarities with null and interval, as a table."""

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes, Similarity
from isoscope.geometry.similarity_grid import (
    PARTIAL,
    PairSide,
    Side,
    Values,
    missing,
    pair_similarities,
    similarities,
)
from isoscope.platform.statistics.delete_a_group import delete_a_group
from isoscope.states.choices import SpaceSettings
from isoscope.states.compared_items import ComparedItems
from isoscope.states.word_space import Space

MOST_LACKING = 0.05


def similarity_table(one: Space, other: Space, on: Sequence[ComparedItems], settings: SpaceSettings) -> pd.DataFrame:
    """Return a row per pair of layers, measure and kind of items.

    Columns: layer and other_layer (see `WordStates`), of (see `ComparedItems`), measure, value, low, high (jackknife
    over groups of sentences), without (values without each group), null, null_sd (sentences exchanged), adjusted
    ((value − null)/(1 − null)), n (items, in two halves for cca_held_out and neighbours), d and other_d, and why, if
    there is no value.
    """
    rows: list[dict[str, Any]] = []
    for items in on:
        theirs = {layer: _Layer(other, items, settings, layer, 1) for layer in items.layers(other)}
        for layer in items.layers(one):
            own = _Layer(one, items, settings, layer, 0)
            for there, second in theirs.items():
                about = {"layer": layer, "other_layer": there, "of": items.of, "d": own.width, "other_d": second.width}
                rows += (about | row for row in _cell(own, second, items, settings))
    return pd.DataFrame(rows)


def equal_layers(
    one: Space, other: Space, on: ComparedItems, settings: SpaceSettings, names: Collection[str], *, last: bool = False
) -> pd.DataFrame:
    """Return the rows of `similarity_table` of layers with equal number, for measures from cross-products.

    `last`: of the first space's last layer only.
    """
    chosen = [measure for measure in measures(settings) if measure.name in names]
    rows: list[dict[str, Any]] = []
    for layer in [*on.layers(one)][-1 if last else 0 :]:
        if layer in other.layers:
            first, second = (Side(on.points(space, layer), on.groups) for space in (one, other))
            rows += ({"layer": layer, "of": on.of} | row for row in _of_products(first, second, chosen, on, settings))
    return pd.DataFrame(rows)


class _Layer:
    """A layer of a space, prepared for all measures. `seed`: of the first space and of the second, see `Neighbours`."""

    def __init__(self, space: Space, on: ComparedItems, settings: SpaceSettings, layer: int, seed: int) -> None:
        points = on.points(space, layer)
        self.width, self.items = points.shape[1], on.sample(settings.items, seed=settings.seed)
        self.empty = not points.any()
        if self.empty:
            return
        self.side = Side(points, on.groups)
        near = Neighbours(k=settings.neighbours)
        options: dict[str, Any] = {"groups": on.groups[self.items], "seed": seed}
        self.pairs = PairSide(points[self.items], RSA(), near, on.controls(self.items), **options)


def measures(settings: SpaceSettings) -> list[Similarity | HeldOutCCA]:
    """Return the measures from cross-products, in the order of the table."""
    options: dict[str, Any] = {"components": settings.components}
    return [
        *(CKA(), Procrustes(), CCA(**options), SVCCA(), PWCCA(**options), PWCCA(side="other", **options)),
        HeldOutCCA(**options),
    ]


def _cell(one: _Layer, other: _Layer, on: ComparedItems, settings: SpaceSettings) -> Iterator[dict[str, Any]]:
    if one.empty or other.empty:
        for name in (*(measure.name for measure in measures(settings)), RSA.name, PARTIAL, Neighbours.name):
            nothing = missing("a layer has no variance within a form")
            yield {"measure": name, "n": len(on.groups)} | _values(nothing, settings)
        return
    yield from _of_products(one.side, other.side, measures(settings), on, settings)
    places = [on.places_of(one.items, seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    options: dict[str, Any] = {"groups": on.groups[one.items], "permutations": places}
    for name, values in pair_similarities(one.pairs, other.pairs, **options).items():
        yield {"measure": name, "n": len(one.items)} | _values(values, settings)


def _of_products(
    one: Side, other: Side, chosen: Sequence[Similarity | HeldOutCCA], on: ComparedItems, settings: SpaceSettings
) -> Iterator[dict[str, Any]]:
    """Yield a row per measure from cross-products."""
    places = [on.places(seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    found = similarities(one, other, chosen, groups=on.groups, permutations=places)
    for name, values in found.items():
        yield {"measure": name, "n": len(on.groups)} | _values(values, settings)


def _values(found: Values, settings: SpaceSettings) -> dict[str, Any]:
    low, high = delete_a_group(found.value, found.without, confidence=settings.confidence) or (None, None)
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
