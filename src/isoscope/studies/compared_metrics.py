"""The metrics that arms are compared by, at each run's chosen epoch."""

from collections.abc import Callable, Mapping

import pandas as pd

from isoscope.states.shown_metrics import COMPARED, added


def _measured(geometry: pd.DataFrame) -> pd.DataFrame:
    """Return [CLS] rows of the compared metrics, and of a plugin's measure every kind of representation."""
    own, first = added(geometry), geometry["vectors"] == "first"
    of = (" of " + geometry["vectors"]).where(own & ~first, "")
    return geometry.assign(figure=geometry["figure"] + of)[own | (geometry["figure"].isin(COMPARED) & first)]


def _leaving(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["part"] == "normed"]


CHOSEN: dict[str, tuple[str, str, str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "geometry": ("", "figure", "value", _measured),
    "probing": ("probe: ", "task", "score", lambda rows: rows[rows["vectors"] != "mean"]),
    "cosines": ("tokens' cosine: ", "pairs", "cosine", _leaving),
    "neighbours": ("tokens' neighbours: ", "neighbours", "rate", _leaving),
    "decoding": ("read back: ", "read", "rate", _leaving),
}
"""Table → prefix of its metrics' names, columns of name and value, and the rows that are compared."""


def chosen_figures(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the metrics that arms are compared by, at each run's chosen epoch: arm, seed, figure, value.

    At the last layer: geometry of [CLS], probe scores, and the measures of plugins. For the embedding block's tokens:
    mean cosine, neighbours and decodability.
    """
    parts = []
    for name, (called, figure, value, chosen) in CHOSEN.items():
        if name in tables and len(table := tables[name]):
            rows = chosen(table)
            rows = rows[rows["best"]]
            rows = rows[rows["layer"] == rows["layer"].max()] if "layer" in rows else rows
            parts.append(rows[["arm", "seed"]].assign(figure=called + rows[figure], value=rows[value]))
    return pd.concat(parts, ignore_index=True)
