"""View: which part of a model learns which tokens, and when: small multiples of frequency and context, by component."""

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.form import where
from isoscope.platform.figures.line_form import Curves
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, floats
from isoscope.studies.dynamics.sliced import LEAST
from isoscope.studies.dynamics.totals import EVERY

LOSS, HALF = "loss of the slice", "half of the change"
BANDS = ("frequent", "middle", "rare")
CALLED = {
    "unigram": "a unigram predicts it",
    "bigram": "the token before predicts it",
    "context": "only more context predicts it",
}


def slice_curves(course: pd.DataFrame, slices: pd.DataFrame) -> pd.DataFrame:
    """Return the share of a slice's change by component, and the loss; a mark where half of the change is reached."""
    facts = slices[slices["component"] == EVERY].set_index(["frequency", "context"])
    keys = [*zip(course["frequency"], course["context"], strict=True)]
    texts = {
        key: f"{100 * about['tokens']:.0f} %: {about['before']:.2f} → {about['after']:.2f}"
        for key, about in facts.to_dict("index").items()
    }
    half = pd.Series([facts["half"].get(key, float("nan")) for key in keys], course.index)
    mark = where((course["component"] == EVERY) & (course["update"] == half), HALF)
    component = course["component"].replace(EVERY, LOSS)
    order = [[*COMPONENTS, LOSS].index(one) for one in component]
    found = course.assign(component=component, order=order, note=[texts.get(key) for key in keys], mark=mark)
    return found.assign(share=floats(found["share"])).sort_values("order", kind="stable")


def _caption(course: pd.DataFrame, slices: pd.DataFrame) -> str:
    own = slices[slices["component"] == EVERY]
    intervals, beyond, n = int(own["intervals"].sum()), int(own["open"].sum()), int(own["n"].max())
    closed = f"{beyond} of {intervals} intervals of slices are open." if beyond else "All intervals are closed."
    return notes.joined(
        f"{own['arm'].iloc[0]}: which part learns which tokens, and when? Predicted validation tokens by frequency "
        "(rows) and by the shortest context that predicts them in the training split (columns). Coloured: the "
        "allocation to each component since the start, as a share of the change of the slice's loss; their last points "
        "sum to 1. The loss: its change so far. Ring: half of it is reached. In a panel: share of "
        "all predicted tokens, and the slice's loss in nats per token at the start and at the end. A slice whose loss "
        f"changes by less than {LEAST:g} nats has no curves.",
        f"Mean over n = {n} seed{'s' * (n != 1)}.",
        closed,
    )


VIEW = View(
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
    caption=_caption,
)
