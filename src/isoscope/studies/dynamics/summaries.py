"""Tables of the runs as figures: whether each arm learned, and how well its allocation closes."""

from collections.abc import Iterator
from itertools import pairwise

import pandas as pd
from matplotlib.figure import Figure

from isoscope.base.view import View
from isoscope.platform.figures.numbers import score, signed
from isoscope.platform.figures.text_table import text_table
from isoscope.platform.statistics.findings import Untested, by_arm
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.learning import LEAST


def parts_of(arms: list[str]) -> list[int]:
    """Return where another arm begins."""
    return [place for place, (one, other) in enumerate(pairwise(arms), start=1) if one != other]


def learning_table(learned: pd.DataFrame) -> Figure:
    """Draw a row per run: last validation loss, counting models, margin, verdict."""
    rows = [
        (
            *(row["arm"], str(row["seed"]), f"{row['updates']:,}", f"{row['parameters']:,}"),
            *(score(row[name]) for name in ("loss", "unigram", "trigram")),
            *(signed(row["margin"]), row["word"]),
        )
        for row in learned.to_dict("records")
    ]
    head = ("Arm", "Seed", "Updates", "Parameters", "Validation loss", "Unigram", "Trigram", "Margin", "Learned?")
    return text_table(head, rows, widths=(26, 6, 9, 12, 11, 9, 9, 9, 14), parts=parts_of(list(learned["arm"])))


def _learning_caption(learned: pd.DataFrame) -> str:
    return (
        "Did the arms learn? Loss at the end of training in nats per token, next to models that count tokens (a masked "
        f"model: unigrams without the end). Margin: unigram − loss. Trained: at least {LEAST:g} nats in every seed. A "
        "masked model has no trigram loss, because it predicts other tokens and reads both sides. Do not compare the "
        "losses of different objectives."
    )


def closure_table(closed: pd.DataFrame) -> Figure:
    """Draw a row per run and set: change of the loss, ΣA − ΔL, closed intervals."""
    rows = [
        (
            *(row["arm"], str(row["seed"]), row["set"], signed(row["change"])),
            *(signed(row["gap"], 4), score(row["bound"], 4), "yes" if row["total_closed"] else "NO"),
            *(str(row["intervals"]), f"{100 * row['share_closed']:.0f} %", score(row["worst"], 2)),
        )
        for row in closed.to_dict("records")
    ]
    head = ["Arm", "Seed", "Set", "Change of the loss", "Gap ΣA − ΔL", "Bound"]
    head += ["Closed in total", "Intervals", "Closed", "Worst |gap| / bound"]
    widths = (24, 6, 12, 10, 10, 9, 9, 12, 9, 12)
    return text_table(head, rows, widths=widths, left=3, parts=parts_of(list(closed["arm"])))


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


# A table: a run's loss, its models that count, and a verdict differ in unit, and a person reads them in a row.
LEARNED = View(
    "learned",
    ("learned",),
    learning_table,
    _learning_caption,
    findings=_learning_findings,
)
# A table: "closed or not" is a word about each run and set, beside numbers that differ a thousandfold.
CLOSED = View("closure", ("closed",), closure_table, _closure_caption)
