"""The pictures of the results pages: views of the report, drawn from the per-run data."""

from collections.abc import Callable, Mapping
from typing import cast

import pandas as pd
import search_tables
from matplotlib.figure import Figure
from per_run import stored

from isoscope.platform.search.search_figures import front, shown_points, trial_rows
from isoscope.studies.dynamics.allocation_views import HEADS
from isoscope.studies.fusion.layers import profile
from isoscope.studies.spaces.contextuality_views import CONTEXTS

OBJECTIVES = {"masked-additive": "MLM", "causal-additive": "CLM", "translation-additive": "MT"}
CONTEXT = {"avg_sim": "AvgSim", "self_sim": "SelfSim", "intra_sim": "IntraSim, as published"}


def heads() -> Figure:
    """Draw each attention head's share of what all heads of a model lower the loss by; heads of a layer by rank."""
    table = stored("dynamics/own/heads.parquet").query("normalisation == 'sum-abs'").replace({"arm": OBJECTIVES})
    keys = ["arm", "stack", "layer", "rank", "normalisation"]
    return cast(Figure, HEADS.form(table.groupby(keys, sort=False)["value"].mean().reset_index()))


def contexts() -> Figure:
    """Draw the published measures of one space by layer: models of captions, beside models of random weights."""
    stored_rows = {"contextuality": stored("spaces/captions/contextuality.parquet")}
    rows = pd.concat([table for view in CONTEXTS for table in view.table(stored_rows)], ignore_index=True)
    return profile([*CONTEXT], CONTEXT, "pseudo-sentences")(rows[rows["figure"].isin(CONTEXT)])


def trials() -> pd.DataFrame:
    """Return the finished trials of the search, the suggested one chosen."""
    study = search_tables.study()
    return shown_points(study, trial_rows(study, search_tables.suggested()))


def found() -> Figure:
    """Draw accuracy against a₁ of all trials of the search, with the Pareto front."""
    return front(search_tables.study(), trials(), search_tables.A_1, search_tables.ACCURACY)


PICTURES: Mapping[str, Callable[[], Figure]] = {
    "dynamics/heads": heads,
    "spaces/contexts": contexts,
    "search/front": found,
}
