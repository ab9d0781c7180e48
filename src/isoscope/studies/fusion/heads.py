"""Views of attention heads: summaries over training and by head, and how well the heads of two runs agree."""

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.snapshots import EVERY, at_chosen, prepared, seeds_of, trained

SUMMARIES = {
    "entropy": "Entropy, 1 if uniform",
    "distance": "Distance (tokens)",
    "first": "Share on the first token",
    "last": "Share on the last token",
    "itself": "Share on itself",
}
LABELS = SUMMARIES | {
    "agreement": "Agreement with the chosen epoch",
    "between": "Agreement with the layer's other heads",
}
FEW = 30
"""Below this number of sentences, an agreement of heads is an illustration."""
PAIRS = 10
"""Of more pairs of arms, only those with the first arm are drawn."""
BETWEEN, CONTROLS = "Between two arms", "Between seeds, and with the random-weights control"
CONTROL = {"seeds": "two seeds of an arm", "random": "an arm and its random-weights control"}
DIFFER = {"arms": "two arms", "seeds": "two seeds", "random": "its random-weights control"}


def over_heads(attention: pd.DataFrame) -> pd.DataFrame:
    """Return the mean of each summary over a layer's heads, per run and update."""
    keys = ["arm", "seed", "layer", "column"]
    means = trained(attention).groupby(keys, sort=False)[[*SUMMARIES]].mean().reset_index()
    long = means.melt(keys, var_name="summary")
    most = (long["summary"] != "distance").map({True: 1.0, False: float("nan")})
    return long.assign(least=0.0, most=most)


def ranked(attention: pd.DataFrame) -> pd.DataFrame:
    """Return each run's heads at the chosen epoch, sorted by entropy within a layer, largest first.

    Heads of two seeds do not correspond, so ranks are averaged over seeds, not heads.
    """
    table = prepared(attention)
    notes = {arm: seeds_of(own) for arm, own in table.groupby("arm", sort=False)}
    found = at_chosen(table.assign(value=table["entropy"].astype(float)))
    rank = found.groupby(["arm", "seed", "layer"])["value"].rank(method="first", ascending=False, na_option="bottom")
    return found.assign(rank=rank.astype(int), note=found["arm"].map(notes))


def agreements(arm_heads: pd.DataFrame) -> pd.DataFrame:
    """Return the agreement of matched heads by pair of arms, and of the controls by arm."""
    between = arm_heads["differ"] == "arms"
    pair = (arm_heads["arm"] + " and " + arm_heads["other"]).where(between, arm_heads["arm"])
    panel = between.map({True: BETWEEN, False: CONTROLS})
    many = pair[between].nunique() > PAIRS
    first = (arm_heads[["arm", "other"]] == arm_heads["arm"].iloc[0]).any(axis=1)
    found = arm_heads.assign(pair=pair, panel=panel, value=arm_heads["agreement"], least=0.0, most=1.0)
    return found[~between | first] if many else found


def _agreement_caption(arm_heads: pd.DataFrame) -> str:
    n = int(arm_heads["n"].max())
    few = " With so few sentences it is an illustration." * (n < FEW)
    differ = {*arm_heads["differ"]}
    of_arms = "arms" in differ
    lead = "Do different arms learn the same heads?" if of_arms else "Do the heads of two models agree?"
    left = "two arms (left; of more than ten pairs, those with the first arm) with the controls (right): "
    controls = " and ".join(text for one, text in CONTROL.items() if one in differ)
    return (
        f"{lead} Agreement of best-matching heads at the chosen epoch, on n = {n} sentences.{few} "
        f"{f'Compare {left}' if of_arms else 'Shown: '}{controls}."
    )


CURVES = View(
    name="attention",
    needs=("attention",),
    form=Curves(
        points=over_heads,
        x="column",
        y="value",
        series="layer",
        rows="summary",
        columns="arm",
        labels=("Update", ""),
        names=SUMMARIES,
    ),
    caption="Where does attention go during training? A line per layer, dark (first) to light (last); mean over heads "
    "and seeds, band ± 1 sd. " + EVERY,
)
RANKED = Matrix(
    points=ranked,
    x="rank",
    y="layer",
    columns="arm",
    labels=("Head, by rank in its layer", "Layer"),
    bar=LABELS["entropy"],
    digits=2,
)
HEADS = View(
    name="heads",
    needs=("attention",),
    form=RANKED,
    caption="Entropy of each head's attention at the chosen epoch: 0 on a single token, 1 if uniform. Heads of a layer "
    "are sorted by entropy.",
)
AGREEMENT = View(
    name="arm_heads",
    needs=("arm_heads",),
    form=Profile(
        points=agreements,
        series="pair",
        dash="differ",
        columns="panel",
        labels=("Layer", "Agreement of matched heads"),
        names={BETWEEN: BETWEEN, CONTROLS: CONTROLS, **DIFFER},
    ),
    caption=_agreement_caption,
)
