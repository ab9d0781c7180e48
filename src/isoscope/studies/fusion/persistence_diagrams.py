"""Views of persistence diagrams and barcodes of [CLS] at the last layer, at a few moments of training."""

from typing import Any

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.snapshots import MOMENTS

CALLED = {"random": "random twin", **MOMENTS, "last": "last snapshot"}
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
