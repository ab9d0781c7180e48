"""Views of cosines between tokens after the embedding block."""

import numpy as np
import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.snapshots import MOMENTS, at_ends

PARTS = {
    "word": "Word embedding",
    "position": "Position embedding",
    "fused": "Fused",
    "normed": "Fused, normalised",
}
PAIRS = {
    "all": "all pairs",
    "same position": "same position,\nother word",
    "same word": "same word,\nother position",
    "neither": "neither, not\nneighbours",
}


def pairs(maps: pd.DataFrame) -> pd.DataFrame:
    """Return a row per arm and pair of tokens."""
    found = []
    for arm, rows in maps.groupby("arm", sort=False)["cosines"]:
        matrix = np.stack(list(rows)).astype(float)
        one, other = np.indices(matrix.shape)
        found.append(pd.DataFrame({"one": one.ravel(), "other": other.ravel(), "cosine": matrix.ravel(), "arm": arm}))
    return with_means(pd.concat(found, ignore_index=True), "arm")


def with_means(table: pd.DataFrame, by: str) -> pd.DataFrame:
    """Note the mean cosine off the diagonal."""
    means = table[table["one"] != table["other"]].groupby(by)["cosine"].mean()
    texts = {name: f"mean {mean + 0.0:.2f}".replace("-", "−") for name, mean in means.dropna().items()}
    return table.assign(note=[texts.get(name, "no number") for name in table[by]])


PAIRED = Matrix(
    points=pairs,
    x="one",
    y="other",
    columns="arm",
    value="cosine",
    labels=("Token", "Token"),
    limits=(-1.0, 1.0),
    bar="Cosine of two tokens (mean: off the diagonal)",
)
COSINE_MAPS = View(
    name="cosines",
    needs=("cosine_maps",),
    by="moment",
    form=PAIRED,
    caption="Cosines between the same tokens in each arm after the embedding block ({}), colours from −1 to 1.",
    called=MOMENTS,
    remakes="Li 2025 (fusion), Figure 7",
)
COSINES = View(
    name="cosines",
    needs=("cosines",),
    form=Intervals(
        points=at_ends,
        x="cosine",
        y="pairs",
        columns="part",
        series="arm",
        fill="moment",
        labels=("Mean cosine", ""),
        names=PARTS | PAIRS,
    ),
    caption="Mean cosine by kind of pair, in each part of the embedding block. Hollow: first snapshot; filled: chosen "
    "epoch.",
)
