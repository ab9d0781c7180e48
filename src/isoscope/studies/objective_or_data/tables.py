"""Tables of what decides the profiles of the runs of several studies."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.studies.arms import StudyRuns
from isoscope.studies.dynamics.allocated_runs import ALLOCATED, allocated_runs
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.objective_or_data import objective_or_data
from isoscope.studies.dynamics.profiles import profiles

FILES = ALLOCATED


def tables(
    studies: Mapping[str, StudyRuns], *, confidence: float, permutations: int, **_: Any
) -> dict[str, pd.DataFrame]:
    """Return the tables `profiles`, `shares`, `told` and `left_out` (see `objective_or_data`) of several studies.

    Raises `InputError` for a study without an allocation, and as `objective_or_data`.
    """
    found = {}
    for name, study in studies.items():
        runs = allocated_runs(study.arms)
        if not runs:
            raise InputError(f"study {name!r}: no run has an allocation; give it settings: [allocated]")
        found[name] = profiles(runs, study.manifest, words(learned(runs, study.manifest)))
    decided = objective_or_data(found, confidence=confidence, permutations=permutations)
    every = pd.concat([table.assign(study=name) for name, table in found.items()], ignore_index=True)
    left_out = pd.DataFrame({"runs": list(decided.left_out)}, dtype=object)
    return {"profiles": every, "shares": decided.shares, "told": decided.told, "left_out": left_out}
