"""View of the allocation to attention heads: a map of layer × head per arm and stack, raw and normalised."""

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import floats
from isoscope.studies.dynamics.allocation_bars import STACK_NAMES

LABELS = {
    "raw": "Allocation (nats)",
    "sum-abs": "Share of the sum of magnitudes",
    "max-abs": "Allocation over the largest magnitude",
    "min-max": "0: helps most, 1: helps least or hurts most",
}


def heads_by_rank(heads: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the heads with their layer from 1, and the name of their arm and stack."""
    panel = heads["arm"] + "\n" + heads["stack"].map(STACK_NAMES).fillna(heads["stack"])
    return heads.assign(value=floats(heads["value"]), panel=panel, depth=heads["layer"] + 1)


def _limits(table: pd.DataFrame) -> tuple[float | None, float | None]:
    """Return the ends of the colours: those of the normalisation, or symmetrical about 0."""
    ends = {"min-max": (0.0, 1.0), "max-abs": (-1.0, 1.0)}
    return ends.get(table["normalisation"].iloc[0], (None, None))


def _label(table: pd.DataFrame) -> str:
    return LABELS[table["normalisation"].iloc[0]]


def _caption(heads: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    how = {
        "raw": ("in nats", f"in nats, as they are. {notes.SIGN}"),
        "sum-abs": ("as shares", f"over the sum of magnitudes of all heads of the model. {notes.SIGN}"),
        "max-abs": (
            "over the largest",
            f"over the largest magnitude among all heads of the model. {notes.SIGN}",
        ),
        "min-max": ("from most to least", "from 0 (the head that helps most in the model) to 1."),
    }
    name, what = how[heads["normalisation"].iloc[0]]
    return notes.joined(
        f"Which attention heads lower the loss, {name}? A head's rows of query, key and value and its columns of out, "
        f"summed over training, {what}",
        "Heads of a layer are sorted by allocation, since head 3 of one seed is not head 3 of another. Each rank is "
        "the mean over seeds. Sorting alone makes a gradient from left to right.",
        notes.seeds(learned),
        notes.shown(closed),
        notes.untrained(learned),
    )


HEADS = View(
    name="head_allocation",
    needs=("heads", "closed", "learned"),
    form=Matrix(
        points=heads_by_rank,
        x="rank",
        y="depth",
        columns="panel",
        labels=("Head, by rank in its layer", "Layer"),
        limits=_limits,
        bar=_label,
        digits=2,
    ),
    by="normalisation",
    caption=_caption,
    remakes="Vázquez et al. 2022, attention heads training dynamics",
)
