"""Metrics of checkpoints by layer, each compared with its twin with random weights, as a `Profile`."""

from collections.abc import Sequence
from functools import partial

import numpy as np
import pandas as pd

from isoscope.platform.config.declared import title
from isoscope.platform.figures.form import where
from isoscope.platform.figures.line_form import Profile
from isoscope.studies.fusion.layers import NOISE, SHARED

W = -0.25
"""Place of the word table alone on an axis of relative depth."""
TRAINED, TWIN = "checkpoint", "random twin"


def by_depth(geometry: pd.DataFrame, *_: pd.DataFrame, metrics: Sequence[str]) -> pd.DataFrame:
    """Return these metrics by layer, as far as they were measured; of checkpoints of different depth, by depth.

    Without `metrics`, all metrics of the table, by their titles. Depth: layer / number of layers. Layer −1 is the word
    table alone.
    """
    if not metrics:
        geometry = geometry.assign(figure=geometry["figure"].map(title))
        metrics = list(geometry["figure"].unique())
    table = geometry[geometry["figure"].isin(metrics)].drop(columns="note", errors="ignore")
    depth = table.groupby("checkpoint")["layer"].transform("max")
    relative = depth.nunique() > 1
    at = (table["layer"] / depth).where(table["layer"] >= 0, W) if relative else table["layer"]
    twin = np.where(table["step"].isna(), TWIN, TRAINED)
    bounds = {end: pd.to_numeric(table[end]).where(twin == TRAINED) for end in ("low", "high")}
    order = table["figure"].map({name: place for place, name in enumerate(metrics)})
    return table.assign(at=at, weights=twin, gap=where(table["degenerate"], SHARED), order=order, **bounds).sort_values(
        "order", kind="stable"
    )


def profile(metrics: Sequence[str], titles: dict[str, str] | None = None, beside: str = NOISE) -> Profile:
    """Return the form of a panel per metric; dotted: the random twin; dashed: `baseline`, named by `beside`."""
    return Profile(
        points=partial(by_depth, metrics=metrics),
        x="at",
        series="checkpoint",
        dash="weights",
        columns="figure",
        names={TRAINED: TRAINED, TWIN: TWIN} | (titles or {name: title(name) for name in metrics}),
        beside={"baseline": beside, "chance": "chance: the largest class"},
    )
