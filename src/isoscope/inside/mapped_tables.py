"""How well a linear map carries one space to another: fitted, chosen and tested on different sentences."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from isoscope.geometry.alignment import LinearMap, best_ridge, error, identity, procrustes, r2_by_dimension, retrieval
from isoscope.geometry.moments import Floats
from isoscope.inside.compared_items import ComparedItems
from isoscope.inside.word_space import Space

FITTED, CHOSEN = 12, 16
"""Of the 20 groups of sentences, the first 12 fit the maps, the next 4 choose ridge's strength."""
STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
MOST = 1000
"""Items of the test, each of another sentence."""


def maps_table(one: Space, other: Space, on: ComparedItems, *, seed: int) -> pd.DataFrame:
    """Return how near each map brings the last layer of a space to that of another, in both directions.

    Columns: back (whether the map leads from `other` to `one`), map (none, between equal widths; procrustes; ridge),
    strength (of ridge), error (squared, per dimension), r2 (mean over dimensions), retrieval_forward, retrieval_back
    (CSLS), cosine_forward, cosine_back, n (items of the test), n_fitted.
    """
    x, y = (on.points(space, space.layers[-1]) for space in (one, other))
    tested = on.sample(len(on.lengths), seed=seed)
    tested = tested[on.groups[tested] >= CHOSEN][:MOST]
    ways = {False: (x, y), True: (y, x)}
    rows = [{"back": back, **row} for back, way in ways.items() for row in _rows(*way, on.groups, tested)]
    return pd.DataFrame(rows).astype({"strength": float})


def _rows(x: Floats, y: Floats, groups: np.ndarray, tested: np.ndarray) -> Iterator[dict[str, Any]]:
    fitted, chosen = groups < FITTED, (groups >= FITTED) & (groups < CHOSEN)
    strength, best = best_ridge((x[fitted], y[fitted]), (x[chosen], y[chosen]), STRENGTHS)
    maps: dict[str, LinearMap] = {"none": identity(x.shape[1])} if x.shape[1] == y.shape[1] else {}
    maps |= {"procrustes": procrustes(x[fitted], y[fitted]), "ridge": best}
    for name, one in maps.items():
        found, target = one.of(x[tested]), y[tested]
        near, plain = retrieval(found, target), retrieval(found, target, neighbours=None)
        yield {
            "map": name,
            "strength": strength if name == "ridge" else None,
            "error": error(found, target),
            "r2": float(np.nanmean(r2_by_dimension(found, target))),
            "retrieval_forward": near.forward,
            "retrieval_back": near.back,
            "cosine_forward": plain.forward,
            "cosine_back": plain.back,
            "n": len(tested),
            "n_fitted": int(fitted.sum()),
        }
