"""Tables of a study of penalties on anisotropy: curves, final averages, differences, published numbers beside ours."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.platform.runs.output_files import CONFIG
from isoscope.studies.curves import averages, compared, curves, thinned
from isoscope.studies.isotropy.doses import Dose, at_equal, dose, references
from isoscope.studies.isotropy.reproduction import Known, known_values, reproduction
from isoscope.studies.isotropy.views import COMPARED, FORCE, TASK_METRICS, TRADED
from isoscope.studies.transformed import compared as after_transforms
from isoscope.studies.transformed import together

Source = Callable[[Mapping[str, Any]], Mapping[str, Any] | None]


def tables(
    studies: Mapping[str, StudyRuns],
    *,
    confidence: float,
    power: float,
    margin: float,
    last: float,
    tolerance: float,
    source: Source,
    **_: Any,
) -> dict[str, pd.DataFrame]:
    """Return averages, courses, doses, published numbers, and differences between arms, also at matched effect.

    If the study has measures after transforms (`states: true`), `transforms` compares arms after them.

    - `last`: share of the last updates and evaluations in the averages.
    - `tolerance`: as for `known_values`.
    - `source`: contents of a run's config.yaml → source of its data, None if they are not here.

    Raises `InputError` if the runs of an arm have different doses.
    """
    (study,) = studies.values()
    folders = {arm: [run.output.folder for run in runs.values()] for arm, runs in study.arms.items()}
    configs = {arm: [read_yaml(folder, Path(CONFIG)) for folder in of_arm] for arm, of_arm in folders.items()}
    known = {arm: _known(runs, source, last=last, tolerance=tolerance) for arm, runs in configs.items()}
    doses = {arm: _dose(runs, folders[arm][0].parent) for arm, runs in configs.items()}
    against = references(doses)
    course = curves([folder for of_arm in folders.values() for folder in of_arm])
    means = averages(course, last=last)
    options: dict[str, Any] = {"confidence": confidence, "power": power}
    found = {
        "averages": means,
        "courses": thinned(course),
        "doses": pd.DataFrame([(arm, *one) for arm, one in doses.items()], columns=["arm", *Dose._fields]),
        "published": reproduction(means, known, **options),
    }
    traded: dict[str, Any] = {"anisotropy": list(TRADED), "force": FORCE, "metrics": list(TASK_METRICS)}
    found["differences"] = compared(means, COMPARED, against=against, **options)
    found["equal"] = at_equal(means, doses, **traded, **options)
    if len(transformed := together(study.stores.get("measures", {}))):
        found["transforms"] = after_transforms(transformed, against, margin=margin, **options)
    return found


def points(tables: Mapping[str, pd.DataFrame]) -> dict[str, float]:
    """Return the study's own metrics, for MLflow: each arm's averages at the end of training, mean over its seeds."""
    means = tables["averages"].groupby(["arm", "metric"], sort=False)["value"].mean(skipna=False)
    return {f"end/{metric}/{arm}": float(value) for (arm, metric), value in means.dropna().items()}


def _dose(runs: list[dict[str, Any]], where: Path) -> Dose:
    found = {dose(run) for run in runs}
    if len(found) > 1:
        raise InputError(f"{where}: its seeds have different weights or shares of train; run: isoscope repro")
    return found.pop()


def _known(runs: list[dict[str, Any]], source: Source, *, last: float, tolerance: float) -> dict[str, Known] | str:
    """Return the published values of an arm's runs, or why there are none.

    The settings are those that the runs were trained with; params.yaml may have changed since.
    """
    found = [known_values(run, source(run), last=last, tolerance=tolerance) for run in runs]
    return found[0] if all(one == found[0] for one in found) else "its runs were trained with different settings"
