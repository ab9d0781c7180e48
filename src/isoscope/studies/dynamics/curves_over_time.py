"""Draw the allocation over time, the positive part of it, and the synchrony of layers."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from isoscope.platform.figures.style import ARM_COLOURS, INK, WIDTH, legend_below, look, multiples, style, wrapped
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, STACKS, floats, ordered
from isoscope.studies.dynamics.bars import STACK_NAMES
from isoscope.studies.dynamics.learning import NOT
from isoscope.studies.view import Table, View

QUANTITIES = {"cumulative": "nats since the start", "rate": "nats per update"}
LINEAR = 0.01
"""Share of the largest rate of all arms: rates are drawn on a logarithmic scale beyond it, on a linear scale within."""
FLAT = 0.02
"""Values below this share of an axis look like 0."""
PANELS = {"emb": "Word table", "component": "Other components", "stack": "Layers of a stack"}
_LINES: dict[str, Any] = {"markersize": 2.4, "linewidth": 1.2}


def rows(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Table:
    """Return the course in long form, a row per quantity, which the figures are made by."""
    keys = ["arm", "grouping", "group", "start", "update", "n"]
    parts = [
        course[keys].assign(quantity=name, value=floats(course[name]), sd=floats(course[f"sd_{name}"]))
        for name in QUANTITIES
    ]
    return pd.concat(parts, ignore_index=True), closed, learned


def looks_of(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return colour, marker and dash by name: with more names than colours, the dash tells equal colours apart."""
    return {
        name: look(at) | {"linestyle": "solid" if at < len(ARM_COLOURS) else (0, (3, 1.5))}
        for at, name in enumerate(names)
    }


@style()
def allocation_over_time(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Figure:
    """Draw a column per arm; rows: the word table on its own scale, the other components, the stacks."""
    quantity = course["quantity"].iloc[0]
    course = course[course["n"] == course.groupby("arm")["n"].transform("max")]  # as `figures.snapshots.common`
    arms = list(dict.fromkeys(course["arm"]))
    components = ordered(course.loc[course["grouping"] == "component", "group"], COMPONENTS)
    stacks = ordered(course.loc[course["grouping"] == "stack", "group"], STACKS)
    looks = {"component": looks_of(components), "stack": looks_of(stacks)}
    labels = {name: f"{called}\n{QUANTITIES[quantity]}" for name, called in PANELS.items()}
    titles = {arm: wrapped(arm, (WIDTH - 1) / len(arms), size=8.5) for arm in arms}
    thresholds = {panel: _linear(_rows_of(course, panel)) for panel in PANELS}
    figure, panels = multiples(labels, titles, (WIDTH, 5.6), across="Update", sharex="col", sharey="row")
    for (panel, arm), axes in panels.items():
        grouping = "stack" if panel == "stack" else "component"
        own = _rows_of(course[course["arm"] == arm], panel)
        for group, line in own.groupby("group", sort=False):
            _curve(axes, line.sort_values("update"), looks[grouping][str(group)])
        update_axis(axes, own)
        if quantity == "rate":
            axes.set_yscale("symlog", linthresh=thresholds[panel], linscale=0.8)
            axes.yaxis.set_major_formatter(lambda rate, _: f"{rate:.0e}".replace("-", "−") if rate else "0")
            axes.yaxis.set_minor_formatter(NullFormatter())
        else:
            axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.axhline(0.0, color=INK, linewidth=0.7)
    handles = [Line2D([], [], label=name, **_LINES | line) for name, line in looks["component"].items()]
    if len(stacks) > 1:
        handles += [
            Line2D([], [], label=f"stack: {STACK_NAMES.get(name, name)}", **_LINES | line)
            for name, line in looks["stack"].items()
        ]
    legend_below(figure, handles, columns=6)
    return figure


def _rows_of(course: pd.DataFrame, panel: str) -> pd.DataFrame:
    """Return the rows that a row of panels shows."""
    if panel == "stack":
        return course[course["grouping"] == "stack"]
    table = course["group"] == "emb"
    return course[(course["grouping"] == "component") & (table if panel == "emb" else ~table)]


def _linear(own: pd.DataFrame) -> float:
    """Return the end of the linear part of a scale: a power of ten, the same in all arms."""
    largest = float(own["value"].abs().max()) if len(own) else 0.0
    return float(10.0 ** math.floor(math.log10(LINEAR * largest))) if largest else 1.0


def _curve(axes: Axes, line: pd.DataFrame, drawn: dict[str, Any]) -> None:
    """Draw a mean over seeds with a band of ± 1 sd, by the intervals' last updates."""
    every = max(1, len(line) // 7)
    axes.plot(line["update"], line["value"], **_LINES | drawn | {"markevery": every})
    spread = line["sd"].fillna(0.0)
    band: dict[str, Any] = {"color": drawn["color"], "alpha": 0.14, "linewidth": 0}
    axes.fill_between(line["update"], line["value"] - spread, line["value"] + spread, **band)


def update_axis(axes: Axes, own: pd.DataFrame) -> None:
    axes.set_xscale("log")
    axes.set_xlim(0.9, 1.15 * max(float(own["update"].max()) if len(own) else 1.0, 2.0))
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.xaxis.set_major_formatter(lambda update, _: f"{update:,.0f}")
    axes.xaxis.set_minor_formatter(NullFormatter())


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


def _time_spoken(course: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    own = course[course["grouping"] == "component"]
    last = own[own["update"] == own.groupby("arm")["update"].transform("max")]
    parts = [
        f"{arm}: " + ", ".join(f"{row.group} {row.value:.3g}" for row in found.itertuples())
        for arm, found in last.groupby("arm", sort=False)
    ]
    return f"Values at the last update, {QUANTITIES[course['quantity'].iloc[0]]}. {'; '.join(parts)}."


@style()
def synchrony_intervals(synchronies: pd.DataFrame, closed: pd.DataFrame) -> Figure:
    """Draw a row per run and estimator: the observed share of common peaks, and the mean of shuffled peaks."""
    rows_of = synchronies.to_dict("records")
    figure = Figure(figsize=(WIDTH, 0.26 * len(rows_of) + 0.9), layout=ConstrainedLayoutEngine(w_pad=0.15))
    axes = figure.subplots()
    for place, row in enumerate(rows_of):
        axes.plot(row["by_chance"], place, "|", color=INK, markersize=8, zorder=2)
        axes.plot(row["observed"], place, "o", color=ARM_COLOURS[0], markersize=5, zorder=3)
    labels = [f"{row['arm']} {row['seed']}, {row['estimator']} ({row['points']})" for row in rows_of]
    axes.set_yticks(range(len(rows_of)), labels, fontsize=7.5)
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(rows_of)), [row["word"] if row["word"] == NOT else "" for row in rows_of], fontsize=7.5)
    right.tick_params(length=0)
    right.spines[:].set_visible(False)
    axes.set_ylim(len(rows_of) - 0.4, -0.6)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("Share of peaks that two layers have in common", fontsize=8)
    axes.grid(visible=True, axis="x")
    handles = [
        Line2D([], [], color=ARM_COLOURS[0], marker="o", linestyle="", label="observed"),
        Line2D([], [], color=INK, marker="|", linestyle="", markersize=8, label="shuffled peaks, mean"),
    ]
    legend_below(figure, handles, columns=2)
    return figure


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


def _synchrony_spoken(synchronies: pd.DataFrame, closed: pd.DataFrame) -> str:
    found = [
        f"{row.arm} seed {row.seed}, {row.estimator}: {row.observed:.2f} against {row.by_chance:.2f} by chance"
        + f", {row.word}" * (row.word == NOT)
        for row in synchronies.itertuples()
    ]
    return f"Share of common peaks. {'; '.join(found)}."


@style()
def positive_part(positive: pd.DataFrame) -> Figure:
    """Draw the positive allocation to each component over time: a column per arm, from 0 to 1, and on its own scale."""
    arms = list(dict.fromkeys(positive["arm"]))
    components = ordered(positive["component"], COMPONENTS)
    looks = looks_of(components)
    labels = {"published": "positive part\nnats, 0 to 1", "own": "positive part\nnats, own scale"}
    titles = {arm: wrapped(arm, (WIDTH - 1) / len(arms), size=8.5) for arm in arms}
    figure, panels = multiples(labels, titles, (WIDTH, 3.7), across="Update", sharex="col", sharey="row")
    for (panel, arm), axes in panels.items():
        own = positive[positive["arm"] == arm]
        for component, line in own.groupby("component", sort=False):
            ordered_line = line.sort_values("update")
            every = max(1, len(ordered_line) // 7)
            drawn = _LINES | looks[str(component)] | {"markevery": every}
            axes.plot(ordered_line["update"], floats(ordered_line["value"]), **drawn)
        update_axis(axes, own)
        if panel == "published":
            axes.set_ylim(-0.02, 1.02)
    first = panels["own", arms[0]]  # panels of a row share their scale
    first.set_ylim(bottom=0.0)
    first.yaxis.set_major_locator(MaxNLocator(5))
    legend_below(figure, [Line2D([], [], label=name, **_LINES | line) for name, line in looks.items()], columns=6)
    return figure


def _positive_caption(positive: pd.DataFrame) -> str:
    estimators = ", ".join(f"{arm}: {estimator}" for arm, estimator in _estimators(positive).items())
    top = float(floats(positive["value"]).max())
    flat = f": no value is above {top:.2g}, so its lines lie on 0" if top < FLAT else ""
    return (
        "When do parts hurt? Positive allocation to each component, summed over layers and stacks; 0 where it helps. "
        f"Top: on the interval [0, 1], like the published figure{flat}. Bottom: on its own scale. Points: the largest "
        f"value over the seeds and over log-spaced spans of updates. Estimator: {estimators}. Ours are nats per token; "
        "the unit of the published values is not known."
    )


def _estimators(positive: pd.DataFrame) -> dict[str, str]:
    return dict(zip(positive["arm"], positive["estimator"], strict=True))


def _positive_spoken(positive: pd.DataFrame) -> str:
    largest = positive.loc[
        positive.assign(value=floats(positive["value"])).groupby("arm", sort=False)["value"].idxmax()
    ]
    parts = [
        f"{row.arm}: {row.value:.3g} nats, {row.component}, by update {row.update}" for row in largest.itertuples()
    ]
    return f"Largest positive allocation. {'; '.join(parts)}."


OVER_TIME = View(
    name="allocation_over_time",
    needs=("course", "closed", "learned"),
    draw=allocation_over_time,
    rows=rows,
    by="quantity",
    caption=_time_caption,
    spoken=_time_spoken,
    remakes="Vázquez et al. 2022, learning dynamics over time",
)
SYNCHRONY = View(
    name="synchrony",
    needs=("synchrony", "closed"),
    draw=synchrony_intervals,
    caption=_synchrony_caption,
    spoken=_synchrony_spoken,
    remakes="Lan et al. 2019, learning is synchronised across layers",
)
POSITIVE = View(
    name="positive_part",
    needs=("positive",),
    draw=positive_part,
    caption=_positive_caption,
    spoken=_positive_spoken,
    remakes="Vázquez et al. 2022, overview of the MLM training process on the interval [0, 1]",
)
