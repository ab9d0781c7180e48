"""Every layer of one space against every layer of another, on the same items, as a table.

Each similarity has its null and interval.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import placed
from isoscope.geometry.moments import Ints, centre
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
from isoscope.states.compared_items import BY_FORM, ComparedItems
from isoscope.states.word_space import Space

MOST_LACKING = 0.05
FEWEST = 3
"""Items that have distances to compare."""
TOO_FEW = f"fewer than {FEWEST} words of different forms, in sentences of equal length"


def similarity_table(one: Space, other: Space, on: Sequence[ComparedItems], settings: SpaceSettings) -> pd.DataFrame:
    """Return a row per pair of layers, measure and kind of items.

    Columns: layer and other_layer (see `WordStates`), of (see `ComparedItems`), measure, value, low, high (jackknife
    over groups of sentences), without (values without each group), null, null_sd (sentences exchanged), adjusted
    ((value − null)/(1 − null)), n (items, in two halves for cca_held_out and neighbours), d and other_d, and why, if
    there is no value.
    """
    rows: list[dict[str, Any]] = []
    for items in on:
        chosen = items.sample_for_pairs(settings.items, one, other, seed=settings.seed)
        theirs = {layer: PreparedLayer(other, items, chosen, settings, layer, 1) for layer in items.layers(other)}
        for layer in items.layers(one):
            own = PreparedLayer(one, items, chosen, settings, layer, 0)
            for there, second in theirs.items():
                about = {"layer": layer, "other_layer": there, "of": items.of, "d": own.width, "other_d": second.width}
                rows += (about | row for row in layer_similarities(own, second, items, settings))
    return pd.DataFrame(rows)


def equal_layers(
    one: Space, other: Space, on: ComparedItems, settings: SpaceSettings, names: Collection[str]
) -> pd.DataFrame:
    """Return the rows of `similarity_table` of layers with equal number, for measures from cross-products."""
    chosen = [measure for measure in measures(settings) if measure.name in names]
    rows: list[dict[str, Any]] = []
    for layer in on.layers(one):
        if layer in other.layers:
            first, second = (
                Side(placed(on.points(space, layer), settings.device), on.groups, on.centred) for space in (one, other)
            )
            rows += ({"layer": layer, "of": on.of} | row for row in _of_products(first, second, chosen, on, settings))
    return pd.DataFrame(rows)


class PreparedLayer:
    """A layer of a space on the device, prepared for all measures.

    `items`: those whose distances are compared. `seed`: of the first space and of the second, see `Neighbours`.
    """

    def __init__(
        self, space: Space, on: ComparedItems, items: Ints, settings: SpaceSettings, layer: int, seed: int
    ) -> None:
        points = on.points(space, layer)
        self.width, self.items = points.shape[1], items
        self.empty = not centre(points).any()
        if self.empty:
            return
        points = placed(points, settings.device)
        self.side = Side(points, on.groups, on.centred)
        near = Neighbours(k=settings.neighbours)
        options: dict[str, Any] = {"groups": on.groups[self.items], "seed": seed}
        enough = len(items) >= FEWEST
        self.pairs = PairSide(points[items], RSA(), near, on.controls(items), **options) if enough else None


def measures(settings: SpaceSettings) -> list[Similarity | HeldOutCCA]:
    """Return the measures from cross-products, in the order of the table."""
    options: dict[str, Any] = {"components": settings.components}
    return [
        *(CKA(), Procrustes(), CCA(**options), SVCCA(), PWCCA(**options), PWCCA(side="other", **options)),
        HeldOutCCA(**options),
    ]


def layer_similarities(
    one: PreparedLayer, other: PreparedLayer, on: ComparedItems, settings: SpaceSettings
) -> Iterator[dict[str, Any]]:
    """Yield the rows of `similarity_table` of a pair of layers, without the columns that name them."""
    if one.empty or other.empty:
        names = (*(measure.name for measure in measures(settings)), RSA.name, PARTIAL, Neighbours.name)
        equal = "a layer has no variance within a form" if on.of == BY_FORM else "all points of a layer are one"
        nothing = missing(equal)
        yield from _rows(dict.fromkeys(names, nothing), len(on.groups), settings)
        return
    yield from _of_products(one.side, other.side, measures(settings), on, settings)
    places = [on.places_of(one.items, seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    options: dict[str, Any] = {"groups": on.groups[one.items], "permutations": places}
    found: Mapping[str, Values] = dict.fromkeys((RSA.name, PARTIAL, Neighbours.name), missing(TOO_FEW))
    if one.pairs and other.pairs:
        found = pair_similarities(one.pairs, other.pairs, **options)
    yield from _rows(found, len(one.items), settings)


def _of_products(
    one: Side, other: Side, chosen: Sequence[Similarity | HeldOutCCA], on: ComparedItems, settings: SpaceSettings
) -> Iterator[dict[str, Any]]:
    """Yield a row per measure from cross-products."""
    places = [on.places(seed=settings.seed, draw=draw) for draw in range(settings.permutations)]
    found = similarities(one, other, chosen, groups=on.groups, permutations=places)
    yield from _rows(found, len(on.groups), settings)


def _rows(found: Mapping[str, Values], n: int, settings: SpaceSettings) -> Iterator[dict[str, Any]]:
    """Yield a row per measure, of `n` items."""
    for name, of in found.items():
        low, high = delete_a_group(of.value, of.without, confidence=settings.confidence) or (None, None)
        null = float(of.null.mean()) if len(of.null) else float("nan")
        yield {
            "measure": name,
            "n": n,
            "value": of.value,
            "low": low,
            "high": high,
            "null": null,
            "null_sd": float(of.null.std(ddof=1)) if len(of.null) > 1 else float("nan"),
            "adjusted": (of.value - null) / (1 - null) if null < 1 else float("nan"),  # else all sentences are alike
            "why": of.why,
            "without": of.without,
        }


def check_complete(table: pd.DataFrame) -> None:
    """Raise `InputError` if more than `MOST_LACKING` of the cells with a value have no interval or no null."""
    known = table[table["value"].notna()]
    share = float(known[["low", "null"]].isna().any(axis=1).mean()) if len(known) else 0.0
    if share > MOST_LACKING:
        raise InputError(f"similarity: {share:.0%} of the cells have no interval or no null; give more text")
