"""Views of sums over training: allocation by block and head; did the arms learn, and is all allocated?"""

from collections.abc import Iterator

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.numbers import written
from isoscope.platform.figures.text_form import Texts
from isoscope.platform.statistics.findings import Untested, by_arm
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, OUTSIDE, SHOWN, STACKS
from isoscope.studies.dynamics.learning import LEAST, NOT, SIGN, about_runs, closure_note

QUANTITIES = {
    "nats": ("nats", "in nats", "the allocation in nats", SIGN),
    "per_parameter": (
        "nats per million\nparameters",
        "per parameter",
        "the allocation per parameter, in nats per million",
        SIGN,
    ),
    "share": (
        "share of the\nchange of the loss",
        "as shares",
        "the share of the change of the loss; positive is a share of the decrease",
        "Positive helps. Negative hurts.",
    ),
}
"""Quantity of an allocation → its unit, its name, what it is, and what its sign means."""
NORMALISED = {
    "raw": ("Allocation (nats)", "in nats", f"in nats, as they are. {SIGN}", (None, None)),
    "sum-abs": (
        "Share of the sum of magnitudes",
        "as shares",
        f"over the sum of magnitudes of all heads of the model. {SIGN}",
        (None, None),
    ),
    "max-abs": (
        "Allocation over the largest magnitude",
        "over the largest",
        f"over the largest magnitude among all heads of the model. {SIGN}",
        (-1.0, 1.0),
    ),
    "min-max": (
        "0: helps most, 1: helps least or hurts most",
        "from most to least",
        "from 0 (the head that helps most in the model) to 1.",
        (0.0, 1.0),
    ),
}
"""Normalisation of heads → label of the colours, name, what it is, and the ends of the colours."""
LARGEST = 3
"""Components that a finding names."""
STACK_NAMES = {"enc": "encoder", "dec": "decoder", "cross": "cross-attention", "shared": "shared"}


def by_quantity(allocated: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Table:
    """Return blocks in long form, a row per quantity."""
    blocks = allocated[allocated["level"] == "block"]
    keys = ["arm", "set", "stack", "layer", "component", "parameters", "n"]
    parts = [
        blocks[keys].assign(quantity=one, value=blocks[one], low=blocks[f"low_{one}"], high=blocks[f"high_{one}"])
        for one in QUANTITIES
    ]
    return pd.concat(parts, ignore_index=True), closed, learned


def bars(blocks: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the bars of the validation set, the training set beside them; what is in no layer is a panel."""
    keys = ["arm", "stack", "layer", "component"]
    training = blocks[blocks["set"] != SHOWN].groupby(keys, sort=False)["value"].mean().rename("training")
    shown = blocks[blocks["set"] == SHOWN].join(training, on=keys)
    outside = shown["layer"] == OUTSIDE
    several = outside & shown.duplicated(["arm", "layer", "component"], keep=False)
    name = (shown["component"] + " " + shown["stack"]).where(several, shown["component"])
    stack = shown["stack"].replace(STACK_NAMES).mask(outside, "in no layer")
    order = shown["stack"].map(STACKS.index) - len(STACKS) * outside
    shown = shown.assign(name=name, panel=stack + "\n" + QUANTITIES[blocks["quantity"].iloc[0]][0], order=order)
    shown = shown.assign(layer=shown["layer"] + 1, at=shown["component"].map(COMPONENTS.index)).drop(columns="n")
    return shown.sort_values(["order", "at"], kind="stable")


def _bars_caption(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    _, name, what, sign = QUANTITIES[blocks["quantity"].iloc[0]]
    return (
        f"Which parts lower the loss, {name}? Allocation summed over training: {what}. {sign} "
        "Left: what is in no layer, on its own scale. Others: components of each stack, a mark per layer, first layer "
        "dark. Scales are equal in all arms. Marks: mean over seeds with the t interval; strokes: training set. "
        f"{about_runs(learned, closed)}"
    )


def _largest(blocks: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> Iterator[Untested]:
    """Yield the components with the largest shares of each arm that learned."""
    own = blocks[(blocks["set"] == SHOWN) & (blocks["quantity"] == "share")]
    for arm, rows_of in own[~own["arm"].isin(learned.loc[learned["word"] == NOT, "arm"])].groupby("arm", sort=False):
        sums = rows_of.groupby("component")["value"].sum().sort_values(key=abs, ascending=False)[:LARGEST]
        what = f"Largest shares of the decrease of the validation loss, {arm}, summed over layers and stacks"
        yield Untested(what, sums.to_dict(), int(rows_of["n"].min()))


def in_stacks(table: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a panel per arm and stack, and their layer from 1 as `depth`."""
    return table.assign(panel=table["arm"] + "\n" + table["stack"].replace(STACK_NAMES), depth=table["layer"] + 1)


def _heads_caption(heads: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    _, name, what, _ = NORMALISED[heads["normalisation"].iloc[0]]
    return (
        f"Which attention heads lower the loss, {name}? A head's rows of query, key and value and its columns of out, "
        f"summed over training, {what} "
        "Heads of a layer are sorted by allocation, since head 3 of one seed is not head 3 of another. Each rank is "
        f"the mean over seeds. Sorting alone makes a gradient from left to right. {about_runs(learned, closed)}"
    )


def _learning_findings(learned: pd.DataFrame) -> Iterator[Untested]:
    """Yield the losses beside that of the better counting model of each arm's objective."""
    counting = learned.assign(loss=learned[["unigram", "trigram"]].min(axis=1))
    what = "Loss at the end of training (nats)"
    yield Untested.of_seeds(what, learned, "loss", control="best n-gram model", controls=by_arm(counting, "loss"))


def closure(closed: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and set, with words for what is closed."""
    shares = [written(100 * share, ".0f") for share in closed["share_closed"]]
    return closed.assign(word=closed["total_closed"].map({True: "yes", False: "NO"}), share=shares)


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
    rows=by_quantity,
    by="quantity",
    caption=_bars_caption,
    findings=_largest,
    remakes="Vázquez et al. 2022, layer-wise contributions: LCA aggregated over all training steps",
)
HEADS = View(
    name="head_allocation",
    needs=("heads", "closed", "learned"),
    form=Matrix(
        points=in_stacks,
        x="rank",
        y="depth",
        columns="panel",
        labels=("Head, by rank in its layer", "Layer"),
        limits=lambda table: NORMALISED[table["normalisation"].iloc[0]][3],
        bar=lambda table: NORMALISED[table["normalisation"].iloc[0]][0],
        digits=2,
    ),
    by="normalisation",
    caption=_heads_caption,
    remakes="Vázquez et al. 2022, attention heads training dynamics",
)
LEARNED = View(
    name="learned",
    needs=("learned",),
    form=Texts(
        heads={"arm": "Arm", "seed": "Seed", "updates": "Updates", "parameters": "Parameters"}
        | {"loss": "Validation loss", "unigram": "Unigram", "trigram": "Trigram", "margin": "Margin"}
        | {"word": "Learned?"}
    ),
    caption="Did the arms learn? Loss at the end of training in nats per token, next to models that count tokens (a "
    f"masked model: unigrams without the end). Margin: unigram − loss. Trained: at least {LEAST:g} nats in every seed. "
    "A masked model has no trigram loss, because it predicts other tokens and reads both sides. Do not compare the "
    "losses of different objectives.",
    findings=_learning_findings,
)
CLOSED = View(
    name="closure",
    needs=("closed",),
    form=Texts(
        points=closure,
        heads={"arm": "Arm", "seed": "Seed", "set": "Set", "change": "Change of the loss", "gap": "Gap ΣA − ΔL"}
        | {"bound": "Bound", "word": "Closed in total", "intervals": "Intervals", "share": "Closed, %"}
        | {"worst": "Worst |gap| / bound"},
        digits=4,
    ),
    caption=lambda closed: (
        "Does the allocation sum to the change of the loss? Gap: sum of all allocations over training − change of the "
        "set's loss, in nats. An interval is closed if its gap is at most 0.005 nats or 1 % of the sum of magnitudes; "
        f"training as a whole, at most 0.005 nats or 0.5 % of the change. {closure_note(closed)}"
    ),
)
