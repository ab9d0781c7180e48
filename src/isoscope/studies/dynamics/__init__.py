"""Studies of training dynamics (Vázquez et al. 2022): loss change allocation by objective, as tables and views."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.studies.arms import Arms
from isoscope.studies.dynamics import bars, curves_over_time, head_maps, hurting_figures, slice_curves, summaries
from isoscope.studies.dynamics.allocated_runs import ALLOCATED, allocated_runs
from isoscope.studies.dynamics.head_shares import head_shares
from isoscope.studies.dynamics.hurting_counts import compared, hurting_counts
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.over_time import course, positive, synchronies
from isoscope.studies.dynamics.profiles import profiles
from isoscope.studies.dynamics.published_ranks import with_verdicts
from isoscope.studies.dynamics.sliced import SLICED, sliced
from isoscope.studies.dynamics.totals import allocated, closed
from isoscope.studies.view import under

__all__ = ["FILES", "VIEWS", "tables"]

VIEWS = (
    *under("Did the models learn?", summaries.LEARNED),
    *under("Which parts lower the loss?", bars.BARS, head_maps.HEADS),
    *under("When do they lower it?", curves_over_time.OVER_TIME, curves_over_time.SYNCHRONY),
    *under(
        "When do parts hurt?",
        hurting_figures.HURTING,
        hurting_figures.MAPS,
        curves_over_time.POSITIVE,
        hurting_figures.COMPARED,
    ),
    *under("Which parts learn which tokens?", slice_curves.VIEW),
    *under("Is the whole change of the loss allocated?", summaries.CLOSED),
)
FILES = (*ALLOCATED, *SLICED)
"""Files of a run that the tables read where they exist."""


def tables(arms: Arms, *, manifest: Mapping[str, Any], confidence: float, **_: Any) -> dict[str, pd.DataFrame]:
    """Return the tables of the runs that have an allocation or slices, by name; none if no run has either.

    - `learned` (`learning.learned`): did each arm learn?
    - `allocated`, `closed` (`totals`): sums over training; closure.
    - `course`, `synchrony`, `positive` (`over_time`): the allocation over time.
    - `heads` (`head_shares`): attention heads.
    - `profiles` (`profiles.profiles`): each run's profile, for `objective_or_data`, which compares several studies.
    - `hurting`, `hurting_published` (`hurting_counts`): how often parts hurt, and agreement with the published table.
    - `slices`, `slices_course` (`sliced`): which part learns which tokens, and when.

    A table without rows is left out. `confidence`: of the t intervals over seeds.
    """
    slices = sliced(arms, confidence)
    runs = allocated_runs(arms)
    if not runs:
        return slices
    learning = learned(runs, manifest)
    word = words(learning)
    counts = hurting_counts(runs)
    found = {
        "learned": learning,
        "allocated": allocated(runs, confidence),
        "closed": closed(runs),
        "course": course(runs),
        "synchrony": synchronies(runs, word),
        "positive": positive(runs),
        "heads": head_shares(runs),
        "profiles": profiles(runs, manifest, word),
        "hurting": counts,
        "hurting_published": with_verdicts(compared(counts, runs, word), confidence),
    }
    return {name: table for name, table in found.items() if len(table)} | slices
