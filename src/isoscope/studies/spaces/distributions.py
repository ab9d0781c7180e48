"""View: the distributions of cosines and distances of two words of different sentences, by layer."""

import pandas as pd
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import MultipleLocator

from isoscope.platform.figures.style import SEQUENTIAL, WIDTH, hatched, layer_tick, multiples, style
from isoscope.studies.view import Table, View

KINDS = {"cosine": "Cosine", "distance": "Euclidean distance / mean"}


@style()
def distributions(table: pd.DataFrame) -> Figure:
    """Draw a row per model and a column per kind: share of pairs by value (across) and layer (up), over the largest."""
    models = list(dict.fromkeys(table["model"]))
    figure, panels = multiples(
        {name: f"{name}\nLayer" for name in models}, KINDS, (WIDTH, 1.7 * len(models) + 0.5), grid=None
    )
    for (model, kind), axes in panels.items():
        own = table[(table["model"] == model) & (table["measure"] == kind)].dropna(subset=["low", "high", "share"])
        if own.empty:
            hatched(axes, "no pair has a value")
            continue
        shares = own.pivot_table(index="layer", columns="low", values="share")  # the mean over seeds
        start, end = float(own["low"].min()), float(own["high"].max())
        reach = (start, end if end > start else start + 1.0, -0.5, len(shares) - 0.5)
        values = shares.to_numpy(dtype=float)
        axes.imshow(
            values / values.max(1, keepdims=True),
            cmap=SEQUENTIAL,
            vmin=0.0,
            vmax=1.0,
            aspect="auto",
            origin="lower",
            extent=reach,
            interpolation="none",
        )
        axes.xaxis.set_major_locator(MultipleLocator(0.5))
        axes.set_yticks(range(len(shares)), [*map(layer_tick, shares.index)])
    colours = ScalarMappable(Normalize(0.0, 1.0), SEQUENTIAL)
    figure.colorbar(colours, ax=[*panels.values()], label="Share of pairs, over the layer's largest")
    return figure


def _rows(table: pd.DataFrame) -> Table:
    """Return the trained models; in units, so that layers share an axis."""
    shown = table[~table["twin"]]
    unit = shown["unit"].where(shown["unit"] > 0)  # 0: all points are one
    return (shown.assign(**{name: (shown[name] / unit).round(6) for name in ("low", "high")}),)


VIEWS = (
    View(
        name="distributions",
        needs=("pairs",),
        rows=_rows,
        draw=distributions,
        caption="Distributions over random pairs of items of different sentences, by layer, each over its largest "
        "share. Two peaks: items fall into groups that have a direction of their own. A narrow peak off 0: all items "
        "share a direction.",
        remakes="Vázquez et al. 2021, distributions of cosines and distances",
    ),
)
