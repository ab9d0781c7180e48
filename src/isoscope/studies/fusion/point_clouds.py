"""Views of point clouds: their principal planes during training, and their persistence diagrams."""

from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.form import where
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.snapshots import MOMENTS
from isoscope.studies.fusion.layers import SHARED, why_hatched

AXES = {
    "joint": "axis of the plane shared by all snapshots",
    "procrustes": "axis of each plane, turned to match the first",
    "sign": "principal component",
}
"""What the axes of aligned planes are, by alignment. Only principal components come in the order of their variance."""
CORNERS = " In a panel: range of the points along x × y; share of the variance along x + y (%)."


def clouds(planes: pd.DataFrame, frames: pd.DataFrame) -> pd.DataFrame:
    """Return the points of a run with the name of their snapshot and class; note: range and share of variance.

    Every cloud fills its panel: an untrained cloud is a hundred times smaller than a trained cloud.
    """
    frames = frames[frames["seed"] == planes["seed"].iloc[0]]
    when = {about["snapshot"]: _when(about) for about in frames.to_dict("records")}
    names = planes["class"].astype(str)
    return placed(
        planes.assign(**{"class": names.where(~names.str.lstrip("-").str.isdecimal(), "class " + names)}),
        frames,
        planes["snapshot"].map(when),
    )


def placed(planes: pd.DataFrame, frames: pd.DataFrame, panel: pd.Series) -> pd.DataFrame:
    """Return the points with a note and the gap of their frame; `panel`: name of each point's column of panels."""
    about = {(one["layer"], one["snapshot"]): one for one in frames.to_dict("records")}
    notes: dict[Any, str] = {}
    for place, own in planes.groupby(["layer", "snapshot"], sort=False):
        size = " × ".join(f"{span:.2g}" for span in own[["pc1", "pc2"]].max() - own[["pc1", "pc2"]].min())
        notes[place] = f"{size}; {100 * about[place]['explained_1']:.0f} + {100 * about[place]['explained_2']:.0f}"
    places = [*zip(planes["layer"], planes["snapshot"], strict=True)]
    flat = pd.Series([bool(about[place]["degenerate"]) for place in places], planes.index)
    found = planes.assign(panel=panel, gap=where(flat, SHARED), note=[notes[place] for place in places])
    found.loc[flat, ["pc1", "pc2"]] = np.nan
    return found.assign(note=found["note"].mask(flat)).sort_values(["label", "sentence"], kind="stable")


def axis_of(frames: pd.DataFrame) -> str:
    """Return what the axes of these frames are; see `AXES`."""
    together = "alignment" in frames and frames["snapshot"].nunique() > 1
    return AXES[frames["alignment"].iloc[0] if together else "sign"]


def _when(about: dict[Any, Any]) -> str:
    """Return `update 158`, with the epoch below it if the snapshot ends an epoch."""
    epoch, best = about.get("epoch", np.nan), about["snapshot"] == about["reference"]
    below = "\nchosen epoch" * best if pd.isna(epoch) else f"\nepoch {int(epoch)}{', chosen' * best}"
    return f"update {about['step']}{below}"


def _caption(planes: pd.DataFrame, frames: pd.DataFrame) -> str:
    order = " It is fitted to all of them, so x may have a smaller share of a snapshot's variance than y."
    n = f" n = {planes['sentence'].nunique()} sentences, seed {planes['seed'].iloc[0]}." if "seed" in planes else ""
    return (
        f"Feature dynamics of {planes['arm'].iloc[0]}: [CLS] by layer and snapshot. Rows: layers; columns: snapshots; "
        f"a dot is a sentence, its colour the class. x, y: first and second {axis_of(frames)}."
        + order * (axis_of(frames) == AXES["joint"])
        + CORNERS
        + n
        + why_hatched(frames)
    )


PLANE = partial(Scatter, x="pc1", y="pc2", series="class", rows="layer", columns="panel")
DYNAMICS = View(
    name="dynamics",
    needs=("planes", "frames"),
    by="arm",
    form=PLANE(points=clouds),
    caption=_caption,
    remakes="Li 2025 (fusion), Figures 2 to 4",
)


CALLED = {"random": "random-weights control", **MOMENTS, "last": "last snapshot"}
DEGREES = {0: "H0: components", 1: "H1: loops"}
LONGEST = 40
"""Maximum number of bars of a degree in a barcode, longest first."""
UNIT = "Distances: in units of the points' root mean squared distance from their mean."


def diagram(bars: pd.DataFrame) -> pd.DataFrame:
    """Return birth and death of every bar, of the first seed of each arm, in the order of moments."""
    bars = bars.assign(arm=bars["checkpoint"], seed=0) if "checkpoint" in bars else bars
    bars = bars[bars["seed"] == bars.groupby("arm")["seed"].transform("first")]
    return bars.assign(degree=bars["degree"].map(DEGREES))


def barcode(bars: pd.DataFrame) -> pd.DataFrame:
    """Return the longest bars of each degree, and their rank by length."""
    found = diagram(bars)
    length = (found["death"] - found["birth"]).astype(float)
    rank = length.groupby([found["arm"], found["moment"], found["degree"]]).rank(ascending=False, method="first")
    after = (found["degree"] == DEGREES[1]) * (LONGEST + 3)
    found = found.assign(place=rank + after, low=found["birth"], high=found["death"])
    return found[rank <= LONGEST].drop(columns="seed")


_BARS: dict[str, Any] = {"rows": "arm", "columns": "moment", "series": "degree", "names": CALLED}
DIAGRAM = Scatter(points=diagram, x="birth", y="death", labels=("Birth", "Death"), square="diagonal", **_BARS)
BARCODE = Intervals(points=barcode, x="death", y="place", labels=("Distance", "Bars by length"), **_BARS)
DIAGRAMS = View(
    name="bars",
    needs=("bars",),
    form=DIAGRAM,
    caption="Persistence diagrams of [CLS] at the last layer, point clouds scaled to equal size; first seed of each "
    f"arm. Points far above the diagonal persist long. {UNIT}",
)
BARCODES = View(
    name="barcodes",
    needs=("bars",),
    form=BARCODE,
    caption="The longest bars of the persistence diagrams above. A long bar is a feature that persists.",
)
