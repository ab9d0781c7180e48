"""The pictures of the results pages: views of the report, drawn from the per-run data."""

from collections.abc import Callable, Iterator, Mapping
from typing import cast

import pandas as pd
import scratch_tables
import search_tables
from matplotlib.figure import Figure
from per_run import HERE, stored

from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.search.search_figures import front, shown_points, trial_rows
from isoscope.studies import curves
from isoscope.studies.arms.views import TRAINING
from isoscope.studies.dynamics.allocation_views import HEADS
from isoscope.studies.fusion.embedding_block import COSINE_MAPS, DIMENSIONS, MAP
from isoscope.studies.fusion.layers import profile
from isoscope.studies.fusion.point_clouds import DYNAMICS
from isoscope.studies.fusion.probing_scores import PHASES
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
    return profile([*CONTEXT], CONTEXT, "pseudo-sentences")(rows[rows["metric"].isin(CONTEXT)])


def trials() -> pd.DataFrame:
    """Return the finished trials of the search, the suggested one chosen."""
    study = search_tables.study()
    return shown_points(study, trial_rows(study, search_tables.suggested()))


def found() -> Figure:
    """Draw accuracy against a₁ of all trials of the search, with the Pareto front."""
    return front(search_tables.study(), trials(), search_tables.A_1, search_tables.ACCURACY)


LI = (TRAINING, DYNAMICS, MAP, PHASES, COSINE_MAPS, DIMENSIONS)
"""Views that make Figures 1 to 8 of Li 2025 (fusion) again."""


def published() -> Iterator[tuple[str, Figure]]:
    """Yield the published figures of fusions, each with its name, from one study."""
    points = stored("scratch/runs.csv").query("seed.notna()").assign(study="fusion").astype({"seed": int})
    tables = {"bands": curves.bands(points), "seeds": curves.seeds(points)}
    tables |= {file.stem: pd.read_parquet(file) for file in (HERE / "scratch/figures").glob("*.parquet")}
    for one in pictures(LI, tables):
        yield f"scratch/{one.name}", one.figure()


def separability() -> Figure:
    """Draw the separability of the label in [CLS] of three layers by epoch: an arm each, mean over seeds ± 1 sd."""
    form = Curves(
        x="epoch",
        y="separability",
        columns="layer",
        labels=("Epoch", "Accuracy of a linear probe"),
        scales=("linear", "linear"),
        beside={"chance": "chance: the largest class"},
    )
    return cast(Figure, form(scratch_tables.course().query("layer in (2, 4, 6)")))


def drawn(page: str) -> Iterator[tuple[str, Figure]]:
    """Yield the pictures of a page, each with its name `<page>/<picture>`."""
    if page == "scratch":
        yield from published()
    for name, draw in PICTURES.items():
        if name.startswith(f"{page}/"):
            yield name, draw()


PICTURES: Mapping[str, Callable[[], Figure]] = {
    "dynamics/heads": heads,
    "spaces/contexts": contexts,
    "search/front": found,
    "scratch/separability": separability,
}
