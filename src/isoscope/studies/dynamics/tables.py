"""Tables of a study of dynamics: loss change allocation by objective."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.studies.dynamics.allocated_runs import ALLOCATED, allocated_runs
from isoscope.studies.dynamics.hurting_counts import compared, hurting_counts, with_verdicts
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.sliced import SLICED, course, positive, sliced, synchronies
from isoscope.studies.dynamics.sums import allocated, closed, head_shares, profiles

FILES = (*ALLOCATED, *SLICED)
"""Files of a run that the tables read where they exist."""


def tables(studies: Mapping[str, StudyRuns], *, confidence: float, **_: Any) -> dict[str, pd.DataFrame]:
    """Return the tables of the runs that have an allocation or slices, by name; none if no run has either.

    - `learned` (`learning.learned`): did each arm learn?
    - `allocated`, `closed` (`sums`): sums over training; closure.
    - `course`, `synchrony`, `positive` (`sliced`): the allocation over time.
    - `heads` (`sums`): attention heads.
    - `profiles` (`sums`): each run's profile, to compare runs of several studies.
    - `hurting`, `hurting_published` (`hurting_counts`): how often parts hurt, and agreement with the published table.
    - `slices`, `slices_course` (`sliced`): which part learns which tokens, and when.

    A table without rows is left out. `confidence`: of the t intervals over seeds.
    """
    (study,) = studies.values()
    arms, manifest = study.arms, study.manifest
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
