"""Write the results of a search: table of trials, best trial as an overlay, importances, figures."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import optuna
import pandas as pd
import pyarrow as pa

from isoscope.config.load import Configuration
from isoscope.config.searching import Search
from isoscope.config.tree import difference, dump_yaml
from isoscope.data.parquet import write_parquet
from isoscope.errors import InputError
from isoscope.figures.search_figures import pictures
from isoscope.sealing import replacing, write_text
from isoscope.search import space
from isoscope.search.outcomes import LEAST, front, importances, knee, saved_by_pruning
from isoscope.search.study import BASE, OpenStudy, StoredTrials
from isoscope.search.trials_table import rebuilt, trials_table

STUDY, TRIALS, IMPORTANCES, BEST, FIGURES = (
    *("study.json", "trials.parquet", "importances.parquet"),
    *("best.yaml", "figures"),
)


def kept(folder: Path) -> StoredTrials | None:
    """Trials stored in a results folder, as in a fresh clone after `dvc pull`; None if there are none.

    Raises `InputError` if the files are damaged.
    """
    if not (folder / STUDY).is_file():
        return None
    try:
        known = json.loads((folder / STUDY).read_text("utf-8"))
        if not known["counts"]:
            return None
        identity, default = known["identity"], known["default"]
        trials = rebuilt(pd.read_parquet(folder / TRIALS))
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException) as error:
        raise InputError(
            f"{folder}: not a results folder of isoscope search ({error}); delete it, or restore it with dvc pull"
        ) from None
    return StoredTrials(identity, trials, default)


def chosen_trial(study: optuna.Study) -> int | None:
    """Number of the best trial of a study, or of the suggested trial of its Pareto front."""
    found = knee(front(study), study.directions)
    return None if found is None else found.number


def overlay(configuration: Configuration, search: Search, params: Mapping[str, Any]) -> str:
    """The choices of a trial as an overlay: laid over the study, it gives the parameters of the trial."""
    chosen = space.chosen(search, params)
    tree = configuration.cell(search.study, search.arm, chosen, search.settings).tree
    return dump_yaml(difference(configuration.below(search.study, search.settings), tree))


def write_results(
    one: OpenStudy, configuration: Configuration, folder: Path, *, identity: Mapping[str, Any], digest: str
) -> Path:
    """Write trials, importances, best trial and figures of a study to a folder; replace its content."""
    study, search = one.study, one.search
    table, number = trials_table(study), chosen_trial(study)
    found = importances(study)
    params = None if number is None else study.trials[number].params
    facts = {
        "name": study.study_name,
        "experiment": search.study,
        "objectives": search.objectives,
        "constraints": {
            name: f"{constraint.better}d, at most {constraint.margin} worse than the default"
            for name, constraint in search.constraints.items()
        },
        "default": study.user_attrs.get(BASE),
        "counts": {str(state): int(count) for state, count in table["state"].value_counts().items()},
        "best": number if len(search.objectives) == 1 else None,
        "front": [trial.number for trial in front(study)] if len(search.objectives) > 1 else [],
        "knee": number if len(search.objectives) > 1 else None,
        "saved": saved_by_pruning(study)._asdict(),
        "best_params": params,
        "digest": digest,
        "identity": identity,
    }
    folder.parent.mkdir(parents=True, exist_ok=True)
    with replacing(folder, "table") as fresh:
        write_parquet(table, fresh / TRIALS)
        write_parquet(found, fresh / IMPORTANCES)
        write_text(fresh / STUDY, json.dumps(facts, indent=1) + "\n", "table")
        if params is not None:
            write_text(fresh / BEST, overlay(configuration, search, params), "table")
        (fresh / FIGURES).mkdir()
        source = {"Source": f"isoscope digest {digest}"}
        for name, _, _, svg in pictures(study, found, chosen=number, least=LEAST, metadata=source):
            write_text(fresh / FIGURES / f"{name}.svg", svg, "table")
    return folder
