"""What a person sees in MLflow: which experiment holds a run, its name and description, and the pages' addresses."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote, urlencode

from isoscope.config.tree import NOT_IN_DIGEST
from isoscope.paths import INDEX
from isoscope.runs.field_checks import SEARCH
from isoscope.runs.lines import PLUGIN, TRAIN, Run, RunRecord

EXPERIMENT = "isoscope.experiment"
"""Tag of an experiment: its name here, which stays when a person renames the experiment in MLflow's page."""
NOTE = "mlflow.note.content"
READS = "reads"
ARM_AND_SETTING = "isoscope.arm_and_setting"
"""Tag of training runs, equal for runs that differ in their seed only."""
_VIEW = "by-arm-and-setting"
# A view of the table of runs, with means over seeds. Runs of an earlier setting or code have a group of their own: a
# mean must not mix them. MLflow keeps views in tags of the experiment, and an address names one by `viewStateShareKey`.
# Of the chosen epoch; MLflow shows the last value of a metric, so those of validation would be of another epoch.
_SHOWN = ("test/accuracy", "test/bleu", "test/loss")
EXPERIMENT_TAGS = {
    f"mlflow.sharedViewState.{_VIEW}": json.dumps(
        {
            "groupBy": {
                "aggregateFunction": "average",
                "groupByKeys": [{"mode": "tag", "groupByData": ARM_AND_SETTING}],
            },
            "selectedColumns": [f"metrics.`{name}`" for name in _SHOWN],
        }
    ),
}


def experiment(record: RunRecord, run: Run) -> str:
    """Return the name of the experiment, which holds comparable runs.

    - A study's training runs are in `<study>`; whatever reads them is in `<study>/inside`.
    - A search has its own, with its trials and the training runs that it has begun. A training run that a study has
      published is the study's.
    - A run without study is in the experiment of its stage.
    """
    begun_by = run.tags.get(SEARCH)
    if begun_by is not None and (record.end is None or not _published(record.end.output)):
        return begun_by
    if run.study is None:
        return run.stage
    return run.study if run.stage in (TRAIN, "search", "trial") else f"{run.study}/inside"


def experiments(record: RunRecord, run: Run) -> set[str]:
    """Return the names of the experiments that may hold a run: also by earlier versions, or before it was published."""
    study = run.study or run.stage
    return {experiment(record, run), study, f"{study}/inside", *filter(None, [run.tags.get(SEARCH)])}


def _published(output: str | None) -> bool:
    return output is not None and Path(output).parts[0] == "models"


def reads(run: Run) -> str | None:
    """Return the digests of what a run has read, runs first, if it is no training run."""
    if run.stage == TRAIN:
        return None
    return " ".join(sorted(set(run.inputs.values()), key=lambda digest: (len(digest) != 64, digest)))


def arm_and_setting(run: Run) -> str | None:
    """Return a training run's arm with a digest of what its seeds have in common: parameters, code, plugins and inputs.

    A model that it starts from is left out: it may be another for each seed.
    """
    if run.stage != TRAIN or run.arm is None:
        return None
    common = (
        {name: value for name, value in run.params.items() if name not in NOT_IN_DIGEST},
        run.code,
        {name: value for name, value in run.tags.items() if name.startswith(PLUGIN)},
        {path: digest for path, digest in run.inputs.items() if Path(path).parts[0] != "models"},
    )
    digest = hashlib.sha256(json.dumps(common, sort_keys=True, default=str).encode()).hexdigest()
    return f"{run.arm}, setting {digest[:4]}"


def description(run: Run) -> str:
    """Return a run's description in Markdown: digest, command, and its place in the report."""
    named = " ".join(str(part) for part in (run.study or run.task, run.arm) if part)
    seed = "" if run.seed is None else f" --seed {run.seed}"
    match run.stage:
        case "search" | "trial":
            command, place = "isoscope search run", "search"
        case "prepare":
            command, place = f"isoscope prepare {run.task}", "data"
        case "compare":
            command, place = f"isoscope compare {run.study}", f"comparison-{run.study}"
        case _:
            command = f"isoscope {run.stage} {named}{seed}"
            place = f"run-{run.digest}" if run.stage == TRAIN else f"study-{run.study}"
    lines = [
        f"Reproduce: `{command}`",
        f"Report: `{INDEX.as_posix()}#{place}`",  # no link: MLflow's pages cannot open a file of the project
        f"Digest: `{run.digest}`",
    ]
    if run.stage == TRAIN:
        lines.append("Add `-S name=value` to the command for each parameter that is not as in `params.yaml`.")
    return "\n\n".join(lines)


def has_arms(experiment: str) -> bool:
    """Return whether an experiment, by its name, holds the training runs of a study, which are grouped by arm."""
    return "/" not in experiment and not experiment.startswith("search-")


def runs_page(server: str, known: str, *, search: str | None = None, grouped: bool = True) -> str:
    """Return the address of an experiment's table of runs: those that a `search` finds, or all, `grouped` by arm.

    `known`: the experiment's id. Without `runs` and the type, MLflow 3 shows its overview of traces and drops the rest.
    """
    view: Mapping[str, str] = {"viewStateShareKey": _VIEW} if grouped else {}
    what = view if search is None else {"searchFilter": search}
    query = urlencode({"workflowType": "machine_learning", **what}, quote_via=quote, safe="")
    return f"{server}/#/experiments/{quote(known, safe='')}/runs?{query}"
