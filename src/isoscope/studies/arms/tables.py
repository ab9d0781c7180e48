"""Tables of every study: learning curves, confusion counts, what its objectives declare; and what its runs scored."""

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from isoscope.platform.config.declared import declares
from isoscope.platform.outputs import Output, table_of_metrics
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.studies.arms.scores_on_test import baselines_of_runs, baselines_on_test, confusion, results
from isoscope.studies.curves import bands, curves, seeds
from isoscope.studies.transformed import together

LAYERS = ["metric", "arm", "layer", "step", "mean", "sd", "n"]


def study_runs(outputs: Iterable[Output], manifest: Mapping[str, Any], stores: Mapping[str, Any]) -> StudyRuns:
    """Return the runs of a study, reference arm first, with their scores on the test split and those of baselines.

    `manifest`: of its task. `stores`: see `StudyRuns`. Raises `InputError` as `results` and `baselines_on_test`.
    """
    found = results(outputs, int(manifest["splits"]["test"]["rows"]), manifest)
    return StudyRuns(found, manifest, stores, baselines_on_test(manifest) | baselines_of_runs(found))


def tables(studies: Mapping[str, StudyRuns], **_: Any) -> dict[str, pd.DataFrame]:
    """Return `bands` and `seeds` of learning curves, `confusion` of classifiers, `metrics` that objectives declare.

    `layers` is for `dvc plots`: without rows, unless the study's own kind has that table. `transformed`: measures of
    hidden states after transforms, if there are any.
    """
    (study,) = studies.values()
    found = [run.output for runs in study.arms.values() for run in runs.values()]
    points, transformed = curves([output.folder for output in found]), together(study.stores.get("measures", {}))
    return {
        "bands": bands(points),
        "confusion": confusion([output for output in found if declares(output.objective, "TARGET") == "label"]),
        "seeds": seeds(points),
        "metrics": table_of_metrics(found),
        "layers": pd.DataFrame(columns=LAYERS),
        **({"transformed": transformed} if len(transformed) else {}),
    }
