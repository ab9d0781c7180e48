"""Tables of the runs: whether each arm learned, and how well its allocation closes."""

from collections.abc import Iterator

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.numbers import written
from isoscope.platform.figures.text_form import Texts
from isoscope.platform.statistics.findings import Untested, by_arm
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.learning import LEAST


def _learning_caption(learned: pd.DataFrame) -> str:
    return (
        "Did the arms learn? Loss at the end of training in nats per token, next to models that count tokens (a masked "
        f"model: unigrams without the end). Margin: unigram − loss. Trained: at least {LEAST:g} nats in every seed. A "
        "masked model has no trigram loss, because it predicts other tokens and reads both sides. Do not compare the "
        "losses of different objectives."
    )


def closure(closed: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run and set, with words for what is closed."""
    shares = [written(100 * share, ".0f") for share in closed["share_closed"]]
    return closed.assign(word=closed["total_closed"].map({True: "yes", False: "NO"}), share=shares)


def _closure_caption(closed: pd.DataFrame) -> str:
    return notes.joined(
        "Does the allocation sum to the change of the loss? Gap: sum of all allocations over training − change of the "
        "set's loss, in nats. An interval is closed if its gap is at most 0.005 nats or 1 % of the sum of magnitudes; "
        "training as a whole, at most 0.005 nats or 0.5 % of the change.",
        notes.closure_note(closed),
    )


def _learning_findings(learned: pd.DataFrame) -> Iterator[Untested]:
    """Yield the losses beside that of the better counting model of each arm's objective."""
    counting = learned.assign(loss=learned[["unigram", "trigram"]].min(axis=1))
    what = "Loss at the end of training (nats)"
    yield Untested.of_seeds(what, learned, "loss", control="best n-gram model", controls=by_arm(counting, "loss"))


LEARNED = View(
    name="learned",
    needs=("learned",),
    form=Texts(
        heads={
            "arm": "Arm",
            "seed": "Seed",
            "updates": "Updates",
            "parameters": "Parameters",
            "loss": "Validation loss",
        }
        | {"unigram": "Unigram", "trigram": "Trigram", "margin": "Margin", "word": "Learned?"}
    ),
    caption=_learning_caption,
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
    caption=_closure_caption,
)
