"""Draw which part of a model learns which tokens, and when: small multiples of frequency and context, by component."""

from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.style import BOXED, INK, WIDTH, hatched, legend_below, multiples, style
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, floats, ordered
from isoscope.studies.dynamics.curves_over_time import looks_of, update_axis
from isoscope.studies.dynamics.sliced import LEAST
from isoscope.studies.dynamics.totals import EVERY
from isoscope.studies.view import View

_LINES: dict[str, Any] = {"markersize": 2.4, "linewidth": 1.1}
BANDS = ("frequent", "middle", "rare")
CALLED = {
    "unigram": "a unigram predicts it",
    "bigram": "the token before predicts it",
    "context": "only more context predicts it",
}


@style()
def slice_curves(course: pd.DataFrame, slices: pd.DataFrame) -> Figure:
    """Draw an arm: a row per band of frequency, a column per context; a curve per component, black for the loss."""
    components = ordered(set(course["component"]) - {EVERY}, COMPONENTS)
    loss: dict[str, Any] = {"color": INK, "marker": "", "linewidth": 1.8}
    looks = looks_of(components) | {EVERY: loss}
    bands = ordered(slices["frequency"], BANDS)
    rows = {band: f"{band}\nshare of the change" for band in bands}
    size = (WIDTH, 1.6 * len(bands) + 0.5)
    figure, panels = multiples(rows, CALLED, size, across="Update", sharex=True, sharey=True)
    facts = slices[slices["component"] == EVERY].set_index(["frequency", "context"])
    for key, axes in panels.items():
        if key not in facts.index:
            hatched(axes, "no tokens")
            continue
        own = course[(course["frequency"] == key[0]) & (course["context"] == key[1])]
        for component, line in own.groupby("component", sort=False):
            line = line.sort_values("update")
            drawn = _LINES | looks[str(component)] | {"markevery": max(1, len(line) // 7)}
            axes.plot(line["update"], floats(line["share"]), **drawn)
        about = facts.loc[key]
        if about["half"] == about["half"]:
            axes.axvline(about["half"], color=INK, linewidth=0.8, linestyle=(0, (2, 2)))
        text = f"{100 * about['tokens']:.0f} %: {about['before']:.2f} → {about['after']:.2f}"
        axes.text(0.03, 0.96, text, transform=axes.transAxes, ha="left", va="top", fontsize=6.5, **BOXED)
        update_axis(axes, course)
        axes.axhline(0.0, color=INK, linewidth=0.7)
    handles = [Line2D([], [], label=name, **_LINES | looks[name]) for name in components]
    handles.append(Line2D([], [], label="loss of the slice", **_LINES | looks[EVERY]))
    legend_below(figure, handles, columns=7)
    return figure


def _caption(course: pd.DataFrame, slices: pd.DataFrame) -> str:
    own = slices[slices["component"] == EVERY]
    intervals, beyond, n = int(own["intervals"].sum()), int(own["open"].sum()), int(own["n"].max())
    closed = f"{beyond} of {intervals} intervals of slices are open." if beyond else "All intervals are closed."
    return notes.joined(
        f"{own['arm'].iloc[0]}: which part learns which tokens, and when? Predicted validation tokens by frequency "
        "(rows) and by the shortest context that predicts them in the training split (columns). Coloured: the "
        "allocation to each component since the start, as a share of the change of the slice's loss; their last points "
        "sum to 1. Black: the change of the slice's loss so far. Dashed: half of it is reached. In a panel: share of "
        "all predicted tokens, and the slice's loss in nats per token at the start and at the end. A slice whose loss "
        f"changes by less than {LEAST:g} nats has no curves.",
        f"Mean over n = {n} seed{'s' * (n != 1)}.",
        closed,
    )


def _spoken(course: pd.DataFrame, slices: pd.DataFrame) -> str:
    parts = []
    for (frequency, context), own in slices.groupby(["frequency", "context"], sort=False):
        shares = own[(own["component"] != EVERY) & own["share"].notna()].sort_values("share", ascending=False)
        top = ", ".join(f"{row.component} {100 * row.share:.0f} %" for row in shares.head(3).itertuples())
        half = own["half"].iloc[0]
        when = f", half by update {half:.0f}" if half == half else ""
        parts.append(f"{frequency}, {CALLED[str(context)]}{when}: {top or 'no change'}")
    return f"Largest shares of each slice's change of the loss. {'; '.join(parts)}."


VIEW = View(
    name="slices",
    needs=("slices_course", "slices"),
    draw=slice_curves,
    by="arm",
    caption=_caption,
    spoken=_spoken,
)
