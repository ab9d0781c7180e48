"""Choose the metrics inside the models by which a study's arms are compared."""

from collections.abc import Callable, Mapping

import pandas as pd

from isoscope import plugins

GEOMETRY = (
    *("linear_separability", "silhouette", "fisher_ratio", "clusters_ami_label", "arch_score"),
    *("avg_sim", "a_1", "a_1_centred", "effective_rank", "isoscore_unbiased", "two_nn_at_n"),
)
CHOSEN: tuple[tuple[str, str, str, str, Callable[[pd.DataFrame], pd.Series]], ...] = (
    ("geometry", "", "figure", "value", lambda rows: _compared(rows) & (rows["vectors"] == "first")),
    ("probing", "probe: ", "task", "score", lambda rows: rows["vectors"] != "mean"),
    ("cosines", "tokens' cosine: ", "pairs", "cosine", lambda rows: rows["part"] == "normed"),
    ("neighbours", "tokens' neighbours: ", "neighbours", "rate", lambda rows: rows["part"] == "normed"),
    ("decoding", "read back: ", "read", "rate", lambda rows: rows["part"] == "normed"),
)
"""Table, prefix of its metrics' names, columns of name and value, and the rows that are compared."""


def chosen_figures(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the metrics that arms are compared by, at each run's chosen epoch: arm, seed, figure, value.

    For [CLS] at the last layer: geometry and probe scores. For the embedding block's tokens: mean cosine, neighbours
    and decodability.
    """
    parts = []
    for name, called, figure, value, chosen in CHOSEN:
        if name in tables and len(table := tables[name]):
            rows = table[table["best"] & chosen(table)]
            rows = rows[rows["layer"] == rows["layer"].max()] if "layer" in rows else rows
            parts.append(rows[["arm", "seed"]].assign(figure=called + rows[figure], value=rows[value]))
    return pd.concat(parts, ignore_index=True)


def _compared(geometry: pd.DataFrame) -> pd.Series:
    """Return which rows of the measures are compared: those of `GEOMETRY`, and all of measures of plugins."""
    return geometry["figure"].isin(GEOMETRY) | geometry["measure"].isin(plugins.MEASURES.keys())
