"""How well a linear map carries one space to another: fitted, chosen and tested on different sentences."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.geometry.alignment import LinearMap, best_ridge, error, identity, procrustes, r2_by_dimension, retrieval
from isoscope.geometry.moments import Floats
from isoscope.platform.statistics.delete_a_group import delete_a_group
from isoscope.states.compared_items import ComparedItems
from isoscope.states.word_space import Space

FITTED, CHOSEN = 12, 16
"""Of the 20 groups of sentences, the first 12 fit the maps, the next 4 choose ridge's strength."""
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
MOST, GROUPS = 1000, 20
"""Items of the test, each of another sentence; groups of them, for the jackknife."""
NOTHING = ("error", "r2", "low", "high", "null", "retrieval_forward", "retrieval_back", "cosine_forward", "cosine_back")


def maps_table(one: Space, other: Space, on: ComparedItems, *, seed: int, confidence: float) -> pd.DataFrame:
    """Return how near each map brings the last layer of a space to that of another, in both directions.

    Columns: of (the kind of items), back (whether the map leads from `other` to `one`), map (none, between equal
    widths; procrustes; ridge), strength (of ridge), error (squared, per dimension), r2 (mean over dimensions), low and
    high (of r2: a jackknife over groups of the test's sentences), null (r2 of a map that was fitted with sentences
    exchanged for others of their length), retrieval_forward, retrieval_back (CSLS), cosine_forward, cosine_back, n
    (items of the test), n_fitted, why (a cell is empty).
    """
    x, y = (on.points(space, space.layers[-1]) for space in (one, other))
    tested = on.sample(len(on.lengths), seed=seed)
    tested = tested[on.groups[tested] >= CHOSEN][:MOST]
    exchanged = on.places(seed=seed, draw=0)
    rows: list[dict[str, Any]] = []
    for back, (source, target) in {False: (x, y), True: (y, x)}.items():
        about = {"of": on.of, "back": back, "n": len(tested), "n_fitted": int((on.groups < FITTED).sum())}
        try:
            if not (source.var() and target.var()):
                raise InputError("all points are one")
            maps = _maps(source, target, on.groups)
            null = _maps(source, target[exchanged], on.groups)
            rows += (about | row for row in _measured(source[tested], target[tested], maps, null, confidence))
        except InputError as reason:  # a layer without variance
            rows.append(about | dict.fromkeys(NOTHING) | {"map": "procrustes", "strength": None, "why": str(reason)})
    return pd.DataFrame(rows).astype(dict.fromkeys((*NOTHING, "strength"), float))


def _maps(x: Floats, y: Floats, groups: Indices) -> dict[str, tuple[LinearMap, float | None]]:
    """Return the maps with ridge's strength; `groups` of the items say which fit them and which choose the strength."""
    fitted, chosen = groups < FITTED, (groups >= FITTED) & (groups < CHOSEN)
    strength, best = best_ridge((x[fitted], y[fitted]), (x[chosen], y[chosen]), STRENGTHS)
    none: dict[str, tuple[LinearMap, float | None]] = {}
    if x.shape[1] == y.shape[1]:
        none["none"] = identity(x.shape[1]), None
    return none | {"procrustes": (procrustes(x[fitted], y[fitted]), None), "ridge": (best, strength)}


def _measured(
    x: Floats,
    y: Floats,
    maps: dict[str, tuple[LinearMap, float | None]],
    null: dict[str, tuple[LinearMap, float | None]],
    confidence: float,
) -> Iterator[dict[str, Any]]:
    group = np.arange(len(x)) % GROUPS
    for name, (one, strength) in maps.items():
        found = one.of(x)
        without = np.array([_r2(found[group != number], y[group != number]) for number in range(GROUPS)])
        low, high = delete_a_group(_r2(found, y), without, confidence=confidence) or (None, None)
        near, plain = retrieval(found, y), retrieval(found, y, neighbours=None)
        yield {
            "map": name,
            "strength": strength,
            "error": error(found, y),
            "r2": _r2(found, y),
            "low": low,
            "high": high,
            "null": None if name == "none" else _r2(null[name][0].of(x), y),
            "retrieval_forward": near.forward,
            "retrieval_back": near.back,
            "cosine_forward": plain.forward,
            "cosine_back": plain.back,
            "why": None,
        }


def _r2(found: Floats, target: Floats) -> float:
    return float(np.nanmean(r2_by_dimension(found, target)))
