"""Draw the measures of plugins over training. `layers.LAYERS` maps them by layer, beside random weights."""

import pandas as pd
from matplotlib.figure import Figure

from isoscope.platform.figures.snapshots import EVERY, line_and_band
from isoscope.states.shown_metrics import added
from isoscope.studies.fusion.layers import CALLED, geometry_curves, why_hatched
from isoscope.studies.view import Table, View


def _of_plugins(geometry: pd.DataFrame) -> Table:
    """Return the rows of plugins' measures, with the figure's name: measure and kind of representation."""
    own = geometry[added(geometry)]
    return (own.assign(own=own["measure"] + "-" + own["vectors"]),)


def _drawn_own(geometry: pd.DataFrame) -> Figure:
    return geometry_curves(geometry, [*dict.fromkeys(geometry["figure"])], vectors=geometry["vectors"].iloc[0])


def _own_caption(geometry: pd.DataFrame) -> str:
    measure, vectors = (geometry[name].iloc[0] for name in ("measure", "vectors"))
    return (
        f"The measure {measure} of {CALLED[vectors]} over training. {line_and_band(geometry)}; dashed: noise at the "
        f"same n and d. {EVERY}{why_hatched(geometry)}"
    )


OWN = View(
    name="own",
    needs=("geometry",),
    rows=_of_plugins,
    by="own",
    draw=_drawn_own,
    caption=_own_caption,
)
