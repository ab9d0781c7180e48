"""Draw the allocation summed over training: bars by component and layer, an arm per row, its stacks side by side."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from isoscope.platform.figures.style import INK, WIDTH, legend_below, shade, style
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, OUTSIDE, SHOWN, STACKS, floats, ordered
from isoscope.studies.dynamics.learning import NOT
from isoscope.studies.findings import Untested
from isoscope.studies.view import Table, View

QUANTITIES = {
    "nats": "nats",
    "per_parameter": "nats per million\nparameters",
    "share": "share of the\nchange of the loss",
}
LARGEST = 3
"""Components that a finding names."""
_WIDTHS = (1.25, 1.0, 1.0, 1.0)
"""Of the panel of what is in no layer, and of up to three stacks."""
STACK_NAMES = {"enc": "encoder", "dec": "decoder", "cross": "cross-attention", "shared": "shared"}


def rows(allocated: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Table:
    """Return blocks in long form, a row per quantity, which the figures are made by."""
    blocks = allocated[allocated["level"] == "block"]
    keys = ["arm", "set", "stack", "layer", "component", "parameters", "n"]
    parts = [
        blocks[keys].assign(
            quantity=quantity,
            value=floats(blocks[quantity]),
            low=floats(blocks[f"low_{quantity}"]),
            high=floats(blocks[f"high_{quantity}"]),
        )
        for quantity in QUANTITIES
    ]
    return pd.concat(parts, ignore_index=True), closed, learned


@style()
def allocation_bars(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Figure:
    """Draw a row per arm: what is in no layer on its own scale, then each stack; a bar per layer of each component.

    Bars: validation set, with the t interval over seeds; dots: training set. Scales are the same for all arms.
    """
    label = QUANTITIES[blocks["quantity"].iloc[0]]
    arms = list(dict.fromkeys(blocks["arm"]))
    layers = sorted(set(blocks["layer"]) - {OUTSIDE})
    figure = Figure(figsize=(WIDTH, 1.75 * len(arms) + 0.5), layout="constrained")
    grid = figure.add_gridspec(len(arms), 4, width_ratios=_WIDTHS)
    outside, inside = [], []
    for row, arm in enumerate(arms):
        own = blocks[blocks["arm"] == arm]
        axes = figure.add_subplot(grid[row, 0])
        _bars(axes, own[own["layer"] == OUTSIDE], [OUTSIDE])
        axes.set_title(arm, fontsize=8.5)
        axes.set_ylabel(label, fontsize=8)
        outside.append(axes)
        stacks = ordered(own.loc[own["layer"] != OUTSIDE, "stack"], STACKS)
        for place, stack in enumerate(stacks):
            axes = figure.add_subplot(grid[row, 1:] if len(stacks) == 1 else grid[row, 1 + place])
            _bars(axes, own[(own["stack"] == stack) & (own["layer"] != OUTSIDE)], layers)
            axes.set_title(STACK_NAMES.get(stack, stack), fontsize=8.5, fontweight="normal")
            axes.tick_params(labelleft=place == 0)
            inside.append(axes)
    for panels in (outside, inside):
        _same_scale(panels)
    handles: list[Any] = [
        Patch(facecolor=shade(at, len(layers))["color"], label=f"layer {layer + 1}") for at, layer in enumerate(layers)
    ]
    handles.append(Axes.plot(inside[0], [], [], "o", color=INK, markersize=2.6, label="training set")[0])
    legend_below(figure, handles, columns=8)
    return figure


def _bars(axes: Axes, own: pd.DataFrame, layers: Sequence[int]) -> None:
    """Draw the bars of a panel: components from left to right, in each the layers from dark to light."""
    blocks = sorted(
        set(zip(own["component"], own["stack"], strict=True)),
        key=lambda block: (COMPONENTS.index(block[0]), STACKS.index(block[1])),
    )
    several = len(set(own["component"])) < len(blocks)  # outside the layers, such as the positions of both stacks
    width = 0.8 / len(layers)
    for at, layer in enumerate(layers):
        colour = shade(at, len(layers))["color"] if layer != OUTSIDE else "#7a7a7a"
        for name, found in own[own["layer"] == layer].groupby("set", sort=False):
            found = found.assign(block=list(zip(found["component"], found["stack"], strict=True)))
            places = found["block"].map(blocks.index).to_numpy(dtype=float) + (at - (len(layers) - 1) / 2) * width
            if name != SHOWN:
                axes.plot(places, found["value"], "o", color=INK, markersize=2.2, zorder=4)
                continue
            axes.bar(places, found["value"], width, color=colour, zorder=2)
            if found["low"].notna().any():
                axes.vlines(places, found["low"], found["high"], color=INK, linewidth=0.9, zorder=3)
    axes.axhline(0.0, color=INK, linewidth=0.8)
    axes.grid(visible=True, axis="y")
    names = [f"{component} {stack}" if several else component for component, stack in blocks]
    axes.set_xticks(range(len(names)), names, rotation=40, ha="right", rotation_mode="anchor")
    axes.tick_params(axis="x", labelsize=7, length=0, pad=2)
    axes.tick_params(axis="y", labelsize=7)
    axes.set_xlim(-0.6, len(names) - 0.4)


def _same_scale(panels: Sequence[Axes]) -> None:
    limits = [axes.get_ylim() for axes in panels]
    for axes in panels:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))


def _caption(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    called = {
        "nats": ("in nats", "the allocation in nats"),
        "per_parameter": ("per parameter", "the allocation per parameter, in nats per million"),
        "share": ("as shares", "the share of the change of the loss; positive is a share of the decrease"),
    }
    quantity = blocks["quantity"].iloc[0]
    name, what = called[quantity]
    sign = "Positive helps. Negative hurts." if quantity == "share" else notes.SIGN
    return notes.joined(
        f"Which parts lower the loss, {name}? Allocation summed over training: {what}.",
        sign,
        "Left: what is in no layer, on its own scale. Others: components of each stack, a bar per layer, first layer "
        "dark. Scales are equal in all arms. Bars: mean over seeds with the 95 % t interval.",
        notes.seeds(learned),
        notes.shown(closed),
        notes.untrained(learned),
    )


def _spoken(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    own = blocks[blocks["set"] == SHOWN]
    parts = []
    for arm, rows_of in own.groupby("arm", sort=False):
        order = rows_of["value"].abs().sort_values(ascending=False).index[:4]
        largest = [
            f"{row.component}{f' of layer {row.layer + 1}' * (row.layer != OUTSIDE)} ({row.stack}) {row.value:.3g}"
            for row in rows_of.loc[order].itertuples()
        ]
        parts.append(f"{arm}: {', '.join(largest)}")
    return f"The largest values. {'; '.join(parts)}."


def _largest(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Iterator[Untested]:
    """Yield the components with the largest shares of each arm that learned."""
    own = blocks[(blocks["set"] == SHOWN) & (blocks["quantity"] == "share")]
    for arm, rows_of in own[~own["arm"].isin(learned.loc[learned["word"] == NOT, "arm"])].groupby("arm", sort=False):
        sums = rows_of.groupby("component")["value"].sum().sort_values(key=abs, ascending=False)
        shares = {str(name): float(value) for name, value in sums[:LARGEST].items()}
        what = f"Largest shares of the decrease of the validation loss, {arm}, summed over layers and stacks"
        yield Untested(what, shares, int(rows_of["n"].min()))


BARS = View(
    name="allocation",
    needs=("allocated", "closed", "learned"),
    draw=allocation_bars,
    rows=rows,
    by="quantity",
    caption=_caption,
    spoken=_spoken,
    findings=_largest,
    remakes="Vázquez et al. 2022, layer-wise contributions: LCA aggregated over all training steps",
)
