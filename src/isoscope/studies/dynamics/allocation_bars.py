"""View: the allocation summed over training by component and layer, an arm per row, its stacks side by side."""

from collections.abc import Iterator

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.statistics.findings import Untested
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, OUTSIDE, SHOWN, STACKS, floats, ordered
from isoscope.studies.dynamics.learning import NOT

QUANTITIES = {
    "nats": "nats",
    "per_parameter": "nats per million\nparameters",
    "share": "share of the\nchange of the loss",
}
LARGEST = 3
"""Components that a finding names."""
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


def bars(blocks: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the bars of the validation set, the training set beside them; what is in no layer is a panel."""
    quantity = QUANTITIES[blocks["quantity"].iloc[0]]
    keys = ["arm", "stack", "layer", "component"]
    training = blocks[blocks["set"] != SHOWN].groupby(keys, sort=False)["value"].mean().rename("training")
    shown = blocks[blocks["set"] == SHOWN].join(training, on=keys)
    outside = shown["layer"] == OUTSIDE
    several = outside & shown.duplicated(["arm", "layer", "component"], keep=False)
    name = (shown["component"] + " " + shown["stack"]).where(several, shown["component"])
    stack = shown["stack"].map(STACK_NAMES).fillna(shown["stack"]).mask(outside, "in no layer") + f"\n{quantity}"
    order = [(not out, STACKS.index(one)) for out, one in zip(outside, shown["stack"], strict=True)]
    names = {one: place for place, one in enumerate(ordered(shown["component"], COMPONENTS))}
    at = shown["component"].map(names)
    shown = shown.assign(name=name, panel=stack, layer=shown["layer"] + 1, order=order, at=at)
    return shown.drop(columns="n").sort_values(["order", "at"], kind="stable")


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
        "Left: what is in no layer, on its own scale. Others: components of each stack, a mark per layer, first layer "
        "dark. Scales are equal in all arms. Marks: mean over seeds with the 95 % t interval; strokes: training set.",
        notes.seeds(learned),
        notes.shown(closed),
        notes.untrained(learned),
    )


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
    form=Intervals(
        points=bars,
        x="value",
        y="name",
        series="layer",
        rows="arm",
        columns="panel",
        names={0: "in no layer"},
        beside={"training": "training set"},
    ),
    rows=rows,
    by="quantity",
    caption=_caption,
    findings=_largest,
    remakes="Vázquez et al. 2022, layer-wise contributions: LCA aggregated over all training steps",
)
