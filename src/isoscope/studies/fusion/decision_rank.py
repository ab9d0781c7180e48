"""SUFO's views: how many directions [CLS] spans, and how many of them the decision needs."""

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.snapshots import EVERY, at_ends, trained
from isoscope.studies.fusion.layers import why_hatched

COMPONENTS = {
    "kept": "Only the first k components",
    "dropped": "Without the first k components",
    "alone": "Only the k-th component",
}
SMALLEST = 1e-3
"""Lower end of a drawn spectrum, as a share of the largest singular value."""


def spectrum(values: pd.DataFrame) -> pd.DataFrame:
    """Return the spectra at the first and the chosen snapshot, without degenerate layers and means near 0."""
    table = at_ends(values)
    means = table.groupby(["arm", "moment", "layer", "component"])["value"].transform("mean")
    return table[~table["degenerate"].astype(bool) & (means >= SMALLEST)]


def accuracies(ranks: pd.DataFrame) -> pd.DataFrame:
    """Return accuracy over training by number of components, with that of the whole model beside it."""
    table = trained(ranks)
    whole = table[(table["components"] == "dropped") & (table["k"] == 0)]
    model = whole.groupby(["arm", "column"])["accuracy"].mean().rename("whole")
    return table[table["k"] > 0].join(model, on=["arm", "column"]).assign(least=0.0, most=1.0)


def _spectra_caption(values: pd.DataFrame) -> str:
    return (
        "Does [CLS] lose rank during training? Singular values over the largest, a line per layer. A steeper line: "
        f"fewer directions carry the variance. Values below {SMALLEST:g} are left out."
        + why_hatched(values, "Layers without a line")
    )


SPECTRA = Curves(
    points=spectrum,
    x="component",
    y="value",
    series="layer",
    rows="moment",
    columns="arm",
    labels=("Component", "value / largest"),
    scales=("log", "log"),
)
SINGULAR_VALUES = View(name="singular_values", needs=("singular_values",), form=SPECTRA, caption=_spectra_caption)
RANKS = View(
    name="ranks",
    needs=("ranks",),
    form=Curves(
        points=accuracies,
        x="column",
        y="accuracy",
        series="k",
        rows="components",
        columns="arm",
        labels=("Update", "accuracy"),
        names=COMPONENTS,
        beside={"whole": "whole model"},
    ),
    caption="How many principal components of [CLS] does the decision need? Score of the head on [CLS] rebuilt from k "
    "components, over training; dashed: from all components. " + EVERY,
)
