"""Views of the allocation over time, the positive part of it, and the synchrony of layers."""

from functools import partial

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.snapshots import band
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, STACKS, floats
from isoscope.studies.dynamics.allocation_bars import STACK_NAMES
from isoscope.studies.dynamics.learning import NOT

QUANTITIES = {"cumulative": "nats since the start", "rate": "nats per update"}
FLAT = 0.02
"""Values below this share of an axis look like 0."""
PANELS = {"emb": "Word table", "component": "Other components", "stack": "Layers of a stack"}


def rows(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame, *, quantity: str) -> Table:
    """Return the course of a quantity in long form, which the figure is made by."""
    keys = ["arm", "grouping", "group", "start", "update", "n"]
    part = course[keys].assign(quantity=quantity, value=floats(course[quantity]), sd=floats(course[f"sd_{quantity}"]))
    return part, closed, learned


def over_time(course: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the course in rows of panels: the word table on its own scale, the other components, the stacks."""
    course = course[course["n"] == course.groupby("arm")["n"].transform("max")]  # as `figures.snapshots.common`
    words, component = course["group"] == "emb", course["grouping"] == "component"
    panel = pd.Series("stack", course.index).mask(component, "component").mask(component & words, "emb")
    group = course["group"].where(component, "stack: " + course["group"].map(STACK_NAMES).fillna(course["group"]))
    order = [[*COMPONENTS, *STACKS].index(one) for one in course["group"]]
    low, high = band(course["value"], course["sd"])
    unit = QUANTITIES[course["quantity"].iloc[0]]
    found = course.assign(group=group, panel=panel.map(PANELS) + f"\n{unit}", order=order, low=low, high=high)
    found = found.assign(row=panel.map([*PANELS].index)).rename(columns={"n": "seeds"})
    return found.sort_values(["row", "order"], kind="stable")


def _time_caption(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    how = {
        "cumulative": ("in total", "the sum of the allocations since the start, in nats"),
        "rate": (
            "per update",
            "the allocation of each interval over its length, in nats per update; the scale is linear up to its first "
            "mark and logarithmic beyond",
        ),
    }
    name, what = how[course["quantity"].iloc[0]]
    return notes.joined(
        f"When does each part lower the loss, {name}? Curves show {what}, at the interval's end.",
        notes.SIGN,
        "Top: the word table on its own scale. Middle: the other components, summed over layers and stacks. Bottom: "
        "the layers of each stack. " + ("Line: mean over seeds; band: ± 1 sd." if course["n"].max() > 1 else ""),
        notes.seeds(learned),
        notes.shown(closed),
        notes.untrained(learned),
    )


def synchrony(synchronies: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the observed share of common peaks by run and estimator, with its name."""
    names = [
        f"{row.arm} {row.seed}, {row.estimator} ({row.points})" + f", {row.word}" * (row.word == NOT)
        for row in synchronies.itertuples()
    ]
    return synchronies.assign(name=names).drop(columns="seed")


def _synchrony_caption(synchronies: pd.DataFrame, closed: pd.DataFrame) -> str:
    return notes.joined(
        "Do layers learn at the same times? A row: arm, seed, estimator (points). A peak: an interval or update with a "
        "lower allocation per update than both neighbours. Share: mean over pairs of layers of common peaks over all "
        "peaks of the two. Shuffled: each layer's peaks within blocks of 10 points, 500 times, so that trends stay and "
        "coincidence is lost. Layers share each update and its sentences, and a fluctuation of those is enough for "
        "common peaks; so there is no p. The minibatch estimator is another quantity, which sums to no change of a "
        "loss.",
        notes.shown(closed),
    )


def positive_part(positive: pd.DataFrame) -> pd.DataFrame:
    """Return the positive allocation to each component over time, components in order."""
    found = positive.assign(value=floats(positive["value"]), order=positive["component"].map(COMPONENTS.index))
    return found.sort_values("order", kind="stable")


def _positive_caption(positive: pd.DataFrame) -> str:
    estimators = ", ".join(f"{arm}: {estimator}" for arm, estimator in _estimators(positive).items())
    top = float(floats(positive["value"]).max())
    flat = f"; here no value is above {top:.2g}, so the lines would lie on 0" if top < FLAT else ""
    return (
        "When do parts hurt? Positive allocation to each component, summed over layers and stacks; 0 where it helps. "
        f"The published figure shows the interval [0, 1]{flat}. Points: the largest "
        f"value over the seeds and over log-spaced spans of updates. Estimator: {estimators}. Ours are nats per token; "
        "the unit of the published values is not known."
    )


def _estimators(positive: pd.DataFrame) -> dict[str, str]:
    return dict(zip(positive["arm"], positive["estimator"], strict=True))


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
        rows=partial(rows, quantity=quantity),
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
    caption=_synchrony_caption,
    remakes="Lan et al. 2019, learning is synchronised across layers",
)
POSITIVE = View(
    name="positive_part",
    needs=("positive",),
    form=Curves(
        points=positive_part,
        x="update",
        y="value",
        series="component",
        columns="arm",
        labels=("Update", "Positive part (nats)"),
    ),
    caption=_positive_caption,
    remakes="Vázquez et al. 2022, overview of the MLM training process on the interval [0, 1]",
)
