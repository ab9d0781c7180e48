"""Views of `isoscope geometry`, in the order of the page: measures by kind of vectors, other analyses, and tables."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View, under
from isoscope.platform.config.declared import title
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.numbers import NOTHING, score
from isoscope.platform.figures.text_form import Texts
from isoscope.states.choices import GIVEN, SENTENCE
from isoscope.states.shown_metrics import PROFILES
from isoscope.studies import transformed
from isoscope.studies.fusion.embedding_block import PARTS
from isoscope.studies.fusion.layers import NOISE, by_depth
from isoscope.studies.geometry.checkpoint_views import (
    ATTENTION,
    BLOCK,
    KINDS,
    LEARNING,
    PLANES,
    PROBING,
    SPECTRUM,
    TASKS,
    TOPOLOGY,
    as_measured,
    group,
    heads,
    sizes,
)
from isoscope.studies.spaces.contextuality_views import COUNTS
from isoscope.studies.spaces.similarity_views import MAPS_BETWEEN, SIMILARITY

FARTHEST = 8
"""How many outlying dimensions of a checkpoint are named."""
SIZE = {"n": "n", "d": "d"}


def last_layer(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each checkpoint's last layer."""
    return table[table["layer"] == table.groupby("checkpoint")["layer"].transform("max")]


def beside_twin(table: pd.DataFrame, *keys: str, value: str = "value") -> pd.DataFrame:
    """Return the checkpoints' rows, with the random-weights control's `value` in a column `twin`."""
    keys = ("checkpoint", *keys)
    random = table[table["step"].isna()].rename(columns={value: "twin"})
    return table[table["step"].notna()].merge(random[[*keys, "twin"]], on=keys, how="left")


def _measured(geometry: pd.DataFrame) -> Table:
    found = beside_twin(last_layer(geometry), "vectors", "metric")
    bounds = [
        f"[{score(low)}, {score(high)}]" if pd.notna(low) else NOTHING
        for low, high in zip(found["low"], found["high"], strict=True)
    ]
    found = found.assign(title=found["metric"].map(title), bounds=bounds)
    return (found.sort_values(["vectors", "metric"], key=lambda names: pd.factorize(names)[0]),)


def _probed(probing: pd.DataFrame) -> Table:
    return (beside_twin(last_layer(as_measured(probing)), "vectors", "metric").replace({"metric": TASKS}),)


def _outliers(dimensions: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for (checkpoint, snapshot), own in dimensions.groupby(["checkpoint", "snapshot"], sort=False):
        far = own[own["outlier"].astype(bool)]
        far = far.assign(far=(far["mean"] - own["mean"].median()).abs()).nlargest(FARTHEST, "far")
        named = [f"{int(one)} ({score(mean)})" for one, mean in zip(far["dimension"], far["mean"], strict=True)]
        who = checkpoint if own["step"].notna().all() else f"{checkpoint}, {snapshot}"
        counts = int(own["outlier"].sum()), ", ".join(named) or "none"
        rows.append((who, *counts, float(own["kurtosis"].median()), int(own["n"].iloc[0]), len(own)))
    return pd.DataFrame(rows, columns=["who", "count", "farthest", "kurtosis", "n", "d"])


PROBED = View(
    name="probed",
    needs=("probing",),
    rows=_probed,
    form=Texts(
        heads={"metric": "Task", "vectors": "Vectors", "checkpoint": "Checkpoint", "value": "Accuracy"}
        | {"twin": "Random-weights control", "chance": "Chance", "baseline": "Control", "selectivity": "Selectivity"}
        | {"compression": "Code", **SIZE}
    ),
    caption="What does a linear probe read at the last layer? Compare accuracy with the random-weights control and "
    "with chance.",
)
BASELINES = View(
    name="baselines",
    needs=("baselines",),
    form=Texts(
        points=lambda table: table.replace({"task": TASKS}),
        heads={"baseline": "Baseline", "task": "Task", "checkpoint": "Checkpoint", "score": "Accuracy"}
        | {"chance": "Chance", **SIZE},
    ),
    caption="Baselines on the same folds, without an encoder. TF-IDF counts only in these sentences: there is no "
    "training split.",
)
PAIRS = View(
    name="pairs",
    needs=("cosines",),
    form=Texts(
        points=lambda table: beside_twin(table, "part", "pairs", value="cosine").replace({"part": PARTS}),
        heads={"checkpoint": "Checkpoint", "part": "Part", "pairs": "Pairs", "cosine": "Mean cosine"}
        | {"twin": "Random-weights control", "n": "n (pairs)"},
    ),
    caption="How similar are tokens of different sentences? Mean cosine by kind of pair; compare with the "
    "random-weights control.",
)
OUTLIERS = View(
    name="outliers",
    needs=("dimensions",),
    form=Texts(
        points=_outliers,
        heads={"who": "Checkpoint", "count": "Outliers", "farthest": "Farthest (mean)", "kurtosis": "Median kurtosis"}
        | SIZE,
    ),
    caption="Which hidden dimensions are outliers? Their mean or sd is more than 6 median absolute deviations (scaled "
    "to an sd) from the median.",
)
FLATNESS = View(
    name="flatness",
    needs=("spectrum",),
    form=Texts(
        points=lambda table: table.assign(
            who=table["checkpoint"] + np.where(table["best"].astype(bool), "", ", random"),
            part=table["part"].map(PARTS),
        ),
        heads={"who": "Checkpoint", "part": "Part", "flatness": "Flatness", "flatness_permuted": "permuted"}
        | {"dead": "Near-dead", "dead_permuted": "permuted", **SIZE},
    ),
    caption="Spectral flatness and share of near-dead frequencies. Compare each with its value after the hidden axes "
    "are permuted.",
)
DISTANCES = View(
    name="distances",
    needs=("distances",),
    rows=lambda table: (table[table["moment"] == "random"],),
    form=Texts(
        points=lambda table: table.assign(degree="H" + table["degree"].astype(str)),
        heads={"checkpoint": "Checkpoint", "vectors": "Vectors", "degree": "Degree", "bottleneck": "Bottleneck"}
        | {"wasserstein": "1-Wasserstein", "n": "n"},
    ),
    caption="How far is a checkpoint's persistence diagram from its random-weights control's?",
)
MEASURED = View(
    name="measured",
    needs=("geometry",),
    rows=_measured,
    form=Texts(
        heads={"title": "Metric", "vectors": "Vectors", "checkpoint": "Checkpoint", "value": "Value"}
        | {"bounds": "Interval", "twin": "Random-weights control", "baseline": "Noise", **SIZE}
    ),
    caption="All metrics at the last layer. Compare a value with those of the random-weights control and of noise. "
    "Values at all layers: geometry.csv, geometry.parquet.",
)
TRANSFORMED = transformed.view(
    rows=lambda table: transformed.at_the_end(table.assign(arm=table["checkpoint"])),
)


def _given(name: str, metrics: Sequence[str]) -> View:
    """Return the view of these metrics of given vectors: they have a single layer, so a row per file."""
    return replace(
        group(name, metrics, GIVEN),
        form=Intervals(
            points=partial(by_depth, metrics=metrics),
            x="value",
            y="checkpoint",
            columns="metric",
            names={metric: title(metric) for metric in metrics},
            beside={"baseline": NOISE},
        ),
        caption=lambda table: (
            f"{name} of {KINDS[GIVEN]}. Compare each dot with isotropic noise (stroke). Lines: intervals over "
            f"subsamples, of clusters over rows. n = {sizes(table, 'n')}, d = {sizes(table, 'd')}."
        ),
    )


GROUPS = PROFILES | {"Further measures": ()}
SECTIONS: dict[str, tuple[View, ...]] = {
    "planes": (PLANES,),
    "probing": (PROBING, LEARNING, PROBED, BASELINES),
    "attention": (ATTENTION, *map(heads, ("entropy", "first"))),
    "embedding": (*BLOCK, PAIRS, OUTLIERS),
    "spectrum": (*SPECTRUM, FLATNESS),
    "topology": (*TOPOLOGY, DISTANCES),
    "spaces": (*(replace(view, name="spaces") for view in (SIMILARITY, MAPS_BETWEEN)), COUNTS),
    "transformed": (TRANSFORMED,),
    "measured": (MEASURED,),
}
TITLES = {
    "planes": "Do sentences separate in their principal plane?",
    "probing": "What can a linear probe read?",
    "attention": "Where does attention go?",
    "embedding": "How similar are tokens after the embedding block?",
    "spectrum": "How is variance spread over directions and frequencies?",
    "topology": "Which components and loops persist?",
    "spaces": "Which layers of two checkpoints are alike?",
    "transformed": "What does a transform of the vectors change?",
    "measured": "What are all metrics at the last layer?",
}
VIEWS = (
    *(
        replace(group(name, metrics, kind), question=f"How does the geometry of {called} change by layer?")
        for kind, called in KINDS.items()
        if kind != GIVEN and not kind.endswith(SENTENCE)  # of the last layer only: in the tables
        for name, metrics in GROUPS.items()
    ),
    *under("What is the geometry of the given vectors?", *(_given(name, of) for name, of in GROUPS.items())),
    *(view for key, views in SECTIONS.items() for view in under(TITLES[key], *views)),
)
