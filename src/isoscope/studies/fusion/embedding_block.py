"""Views of tokens after the embedding block: their map, the evidence behind it, cosines, outlying dimensions."""

from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import where
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.snapshots import MOMENTS, at_chosen, at_ends, prepared
from isoscope.states.shown_metrics import LEAVES

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


def leaves_block(table: pd.DataFrame) -> pd.Series:
    """Return which rows are of tokens as they leave the embedding block: of the first of `LEAVES` that is there."""
    rank = table["part"].map({part: place for place, part in enumerate(LEAVES)})
    return rank == rank.groupby(table["checkpoint" if "checkpoint" in table else "arm"]).transform("min")


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
    caption="Cosines between the same tokens after the embedding block ({}), first seeds, colours from −1 to 1.",
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


PANELS = {
    "same word": "Neighbours:\nthe same word",
    "same position": "Neighbours:\nthe same position",
    "word": "Decoded linearly:\nthe word",
    "position": "Decoded linearly:\nthe position",
}
TOKEN_TABLES = {"word": "Word", "position": "Position"}
NAMED = 6
"""How many outlying dimensions of a panel are named, farthest first; the rest are counted."""


def evidence(neighbours: pd.DataFrame, decoding: pd.DataFrame) -> pd.DataFrame:
    """Return, for tokens after the embedding block, the share of alike neighbours and the share decoded."""
    both = [
        neighbours.assign(kind=neighbours["neighbours"]),
        decoding.assign(kind=decoding["read"], chance=decoding["control"]),
    ]
    return at_ends(pd.concat([part[leaves_block(part)] for part in both])).assign(least=0.0, most=1.0)


def dimensions(table: pd.DataFrame) -> pd.DataFrame:
    """Return each dimension's mean ± sd over tokens, of the first run of each arm: dimensions of seeds differ."""
    table = at_ends(table)
    table = table[table["seed"] == table.groupby("arm")["seed"].transform("first")]
    low, high = (table["mean"] + sign * table["sd"] for sign in (-1, 1))
    table = table.assign(low=low, high=high, mark=where(table["outlier"], "outlier"))
    notes = {place: _outliers(rows) for place, rows in table.groupby(["arm", "moment"], sort=False)}
    return table.assign(note=[notes[place] for place in zip(table["arm"], table["moment"], strict=True)])


def _outliers(rows: pd.DataFrame) -> str:
    """Return the number of outliers, and the dimensions that are farthest from the median."""
    far = rows[rows["outlier"].astype(bool)]
    farthest = (far["mean"] - rows["mean"].median()).abs().nlargest(NAMED).index
    named = ", ".join(map(str, far.loc[farthest, "dimension"]))
    return f"n = {rows['n'].iloc[0]} tokens, " + (f"outliers: {len(far)} ({named})" if len(far) else "no outlier")


def by_layer(decoding: pd.DataFrame) -> Table:
    """Return the rows at the chosen snapshot with a column `layer`: 0 after the embedding block."""
    part = decoding["part"].astype(str)
    layer = part.str.extract(r"^layer (\d+)$")[0].where(~leaves_block(decoding), "0")
    return (decoding.assign(layer=layer)[layer.notna()].astype({"layer": int}),)


def read_back(decoding: pd.DataFrame) -> pd.DataFrame:
    """Return the share of tokens that a linear map reads at the chosen epoch, by layer."""
    return at_chosen(prepared(decoding)).assign(least=0.0, most=1.0)


_plane = partial(Scatter, columns="arm", shade="position", square="equal", names={"position": "Position"})
MAP = View(
    name="map",
    needs=("map",),
    by="moment",
    form=_plane(x="x", y="y", labels=("t-SNE", "t-SNE")),
    caption=(
        "Tokens of all arms after the embedding block, first seeds, in a t-SNE map ({}). Only an illustration: "
        "distances between groups mean nothing; the next figures are evidence."
    ),
    called=MOMENTS,
    remakes="Li 2025 (fusion), Figure 5",
)
PCA = View(
    name="pca",
    needs=("map",),
    by="moment",
    form=_plane(x="pc1", y="pc2", labels=("First component", "Second component")),
    caption="The same tokens in their first two principal components ({}). Distances are meaningful here.",
    called=MOMENTS,
)
EVIDENCE = View(
    name="evidence",
    needs=("neighbours", "decoding"),
    form=Intervals(
        points=evidence,
        x="rate",
        y="arm",
        columns="kind",
        fill="moment",
        labels=("Share of tokens", ""),
        names=PANELS,
        beside={"chance": "chance"},
        limits=(-0.03, 1.03),
    ),
    caption="Do tokens keep their word and position after the embedding block? Share of nearest neighbours in the full "
    "space with the same word or position; share that a linear map decodes. Strokes: chance.",
)
DIMENSIONS = View(
    name="dimensions",
    needs=("dimensions",),
    form=Curves(
        points=dimensions,
        x="dimension",
        y="mean",
        rows="arm",
        columns="moment",
        labels=("Hidden dimension", "Mean ± sd"),
        scales=("linear", "linear"),
    ),
    caption="Which hidden dimensions are outliers? Mean ± sd of each dimension over tokens after the embedding block, "
    "first seed of each arm; rings: outliers, the farthest with their number.",
    remakes="Li 2025 (fusion), Figure 8",
)
READ_BACK = View(
    name="read_back",
    needs=("decoding",),
    rows=by_layer,
    form=Profile(
        points=read_back,
        y="rate",
        columns="read",
        labels=("Layer", "Share of tokens"),
        names=TOKEN_TABLES,
        beside={"control": "fitted on shuffled pairs"},
    ),
    caption=(
        "Share of tokens whose word and whose position a linear map reads from their vector, at the chosen epoch, by "
        "layer (0: after the embedding block). Mean over seeds ± 1 sd; sentences are held out. Dashed: a map fitted on "
        "shuffled pairs."
    ),
)
