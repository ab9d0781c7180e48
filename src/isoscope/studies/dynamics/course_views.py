"""Views of the allocation over time: by part, by slice of tokens, its positive part, and synchrony of layers."""

from functools import partial

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import in_order, where
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.numbers import count
from isoscope.platform.figures.snapshots import band
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, STACKS
from isoscope.studies.dynamics.allocation_views import STACK_NAMES
from isoscope.studies.dynamics.learning import NOT, SIGN, about_runs, shown
from isoscope.studies.dynamics.sliced import LEAST
from isoscope.studies.dynamics.sums import EVERY

QUANTITIES = {
    "cumulative": ("nats since the start", "in total", "the sum of the allocations since the start, in nats"),
    "rate": (
        "nats per update",
        "per update",
        "the allocation of each interval over its length, in nats per update; the scale is linear up to its first mark "
        "and logarithmic beyond",
    ),
}
"""Quantity → its unit, its name, and what it is."""
FLAT = 0.02
"""Values below this share of an axis look like 0."""
PANELS = {"emb": "Word table", "component": "Other components", "stack": "Layers of a stack"}
LOSS, HALF = "loss of the slice", "half of the change"
BANDS = ("frequent", "middle", "rare")
CALLED = {
    "unigram": "a unigram predicts it",
    "bigram": "the token before predicts it",
    "context": "only more context predicts it",
}


def course_of(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame, *, quantity: str) -> Table:
    """Return the course of a quantity in long form."""
    keys = ["arm", "grouping", "group", "start", "update", "n"]
    return course[keys].assign(quantity=quantity, value=course[quantity], sd=course[f"sd_{quantity}"]), closed, learned


def over_time(course: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the course in rows of panels: the word table on its own scale, the other components, the stacks."""
    course = course[course["n"] == course.groupby("arm")["n"].transform("max")]  # as `figures.snapshots.common`
    course = in_order(course, "group", [*COMPONENTS, *STACKS])
    kind = course["grouping"].mask(course["group"] == "emb", "emb")
    stack = "stack: " + course["group"].replace(STACK_NAMES)
    low, high = band(course["value"], course["sd"])
    panel = kind.map(PANELS) + "\n" + QUANTITIES[course["quantity"].iloc[0]][0]
    found = course.assign(group=course["group"].mask(kind == "stack", stack), panel=panel, kind=kind)
    return in_order(found.assign(low=low, high=high, seeds=found["n"]), "kind", PANELS).drop(columns="n")


def _time_caption(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    _, name, what = QUANTITIES[course["quantity"].iloc[0]]
    several = "Line: mean over seeds; band: ± 1 sd. " * bool(course["n"].max() > 1)
    return (
        f"When does each part lower the loss, {name}? Curves show {what}, at the interval's end. {SIGN} "
        "Top: the word table on its own scale. Middle: the other components, summed over layers and stacks. Bottom: "
        f"the layers of each stack. {several}{about_runs(learned, closed)}"
    )


def synchrony(synchronies: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the observed share of common peaks by run and estimator, with its name."""
    names = [
        f"{row.arm} {row.seed}, {row.estimator} ({row.points})" + f", {row.word}" * (row.word == NOT)
        for row in synchronies.itertuples()
    ]
    return synchronies.assign(name=names).drop(columns="seed")


def _positive_caption(positive: pd.DataFrame) -> str:
    estimators = dict(zip(positive["arm"], positive["estimator"], strict=True))
    top = positive["value"].max()
    return (
        "When do parts hurt? Positive allocation to each component, summed over layers and stacks; 0 where it helps. "
        "The published figure shows the interval [0, 1]"
        + f"; here no value is above {top:.2g}, so the lines would lie on 0" * bool(top < FLAT)
        + ". Points: the largest value over the seeds and over log-spaced spans of updates. Estimator: "
        + ", ".join(map(": ".join, estimators.items()))
        + ". Ours are nats per token; the unit of the published values is not known."
    )


def slice_curves(course: pd.DataFrame, slices: pd.DataFrame) -> pd.DataFrame:
    """Return the share of a slice's change by component, and the loss; a mark where half of the change is reached."""
    keys = ["frequency", "context"]
    facts = slices[slices["component"] == EVERY].set_index(keys)
    texts = [f"{100 * one.tokens:.0f} %: {one.before:.2f} → {one.after:.2f}" for one in facts.itertuples()]
    found = course.reset_index(drop=True).join(facts.assign(note=texts)["note"], on=keys)
    reached = found[(found["component"] == EVERY) & (found["share"] >= 0.5)].groupby(keys)["update"].idxmin()
    mark = where(found.index.to_series().isin(reached), HALF)
    return in_order(found.assign(component=found["component"].replace(EVERY, LOSS), mark=mark), "component", ORDER)


ORDER = (*COMPONENTS, LOSS)


def _slices_caption(course: pd.DataFrame, slices: pd.DataFrame) -> str:
    own = slices[slices["component"] == EVERY]
    beyond = own["open"].sum()
    closed = f"{beyond} of {own['intervals'].sum()} intervals of slices are open."
    return (
        f"{own['arm'].iloc[0]}: which part learns which tokens, and when? Predicted validation tokens by frequency "
        "(rows) and by the shortest context that predicts them in the training split (columns). Coloured: the "
        "allocation to each component since the start, as a share of the change of the slice's loss; their last points "
        "sum to 1. The loss: its change so far. Ring: half of it is reached. In a panel: share of "
        "all predicted tokens, and the slice's loss in nats per token at the start and at the end. A slice whose loss "
        f"changes by less than {LEAST:g} nats has no curves. Mean over n = {count(own['n'].max(), 'seed')}. "
        f"{closed if beyond else 'All intervals are closed.'}"
    )


def _over_time(quantity: str, scale: str) -> View:
    """Return the view of a quantity, with the scale of its y-axis."""
    return View(
        name="allocation_over_time",
        needs=("course", "closed", "learned"),
        form=Curves(
            points=over_time,
            x="update",
            y="value",
            series="group",
            rows="panel",
            columns="arm",
            labels=("Update", ""),
            scales=("steps", scale),
        ),
        rows=partial(course_of, quantity=quantity),
        by="quantity",
        caption=_time_caption,
        remakes="Vázquez et al. 2022, learning dynamics over time",
    )


OVER_TIME = (_over_time("cumulative", "linear"), _over_time("rate", "symlog"))
SYNCHRONY = View(
    name="synchrony",
    needs=("synchrony", "closed"),
    form=Intervals(
        points=synchrony,
        x="observed",
        y="name",
        labels=("Share of peaks that two layers have in common", ""),
        beside={"by_chance": "shuffled peaks, mean"},
    ),
    caption=lambda synchronies, closed: (
        "Do layers learn at the same times? A row: arm, seed, estimator (points). A peak: an interval or update with a "
        "lower allocation per update than both neighbours. Share: mean over pairs of layers of common peaks over all "
        "peaks of the two. Shuffled: each layer's peaks within blocks of 10 points, 500 times, so that trends stay and "
        "coincidence is lost. Layers share each update and its sentences, and a fluctuation of those is enough for "
        "common peaks; so there is no p. The minibatch estimator is another quantity, which sums to no change of a "
        f"loss. {shown(closed)}"
    ),
    remakes="Lan et al. 2019, learning is synchronised across layers",
)
POSITIVE = View(
    name="positive_part",
    needs=("positive",),
    form=Curves(
        points=lambda positive: in_order(positive, "component", COMPONENTS),
        x="update",
        y="value",
        series="component",
        columns="arm",
        labels=("Update", "Positive part (nats)"),
    ),
    caption=_positive_caption,
    remakes="Vázquez et al. 2022, overview of the MLM training process on the interval [0, 1]",
)
SLICES = View(
    name="slices",
    needs=("slices_course", "slices"),
    form=Curves(
        points=slice_curves,
        x="update",
        y="share",
        series="component",
        rows="frequency",
        columns="context",
        labels=("Update", "share of the change"),
        names={band: band for band in BANDS} | CALLED,
    ),
    by="arm",
    caption=_slices_caption,
)
