"""The measures of plugins over training. `layers.LAYERS` maps them by layer, beside random weights."""

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.snapshots import EVERY, line_and_band
from isoscope.states.shown_metrics import added
from isoscope.studies.fusion.layers import CALLED, CURVES, why_hatched


def _of_plugins(geometry: pd.DataFrame) -> Table:
    """Return the rows of plugins' measures, with the figure's name: measure and kind of representation."""
    own = geometry[added(geometry)]
    return (own.assign(own=own["measure"] + "-" + own["vectors"]),)


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
    form=CURVES.form,
    caption=_own_caption,
)
