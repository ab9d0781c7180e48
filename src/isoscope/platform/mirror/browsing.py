"""What a person sees in MLflow: a run's experiment, name and description, and the pages' addresses.

A training run is named by the parameters that differ from its study's settings, as committed in git.
"""

import hashlib
import json
import subprocess
from collections.abc import Iterable, Mapping
from copy import deepcopy
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote, urlencode

from isoscope.base import built_in
from isoscope.base.errors import InputError
from isoscope.base.paths import INDEX, PARAMS, overlay, processed
from isoscope.platform.config.tree import (
    NOT_IN_DIGEST,
    Tree,
    as_text,
    differing,
    flatten,
    merge,
    parse_yaml,
    read_yaml,
)
from isoscope.platform.runs.lines import FAILED, FINISHED, KILLED, PLUGIN, RUNNING, SEARCH, TRAIN, Run, RunRecord

EXPERIMENT = "isoscope.experiment"
"""Tag of an experiment: its name here, which stays when a person renames the experiment in MLflow's page."""
NOTE = "mlflow.note.content"
READS = "reads"
ARM_AND_SETTING = "isoscope.arm_and_setting"
"""Tag of training runs, equal for runs that differ in their seed only."""
CHANGED = "isoscope.changed"
"""Tag of a training run: the parameters that differ from its study's settings."""
UNCHANGED = "nothing"
"""Value of this tag for a run with the study's settings."""
ORDER = "isoscope.order"
"""Tag of a run by which the pages list runs: finished runs, then running, then failed and killed runs."""
ORDERS = {FINISHED: "1 finished", RUNNING: "2 running", FAILED: "3 failed", KILLED: "3 killed"}
COMMAND = "isoscope.command"
"""Tag of a run that no stage of a project makes: the command that does."""
COMMANDS = {"extract": "states", "measure": "states"}
"""Stage of a run → the command that makes it, if its name differs."""
_VIEW = "by-arm-and-setting"
VIEW_TAG = f"mlflow.sharedViewState.{_VIEW}"
"""Tag of an experiment with a view of the table of runs. An address names the view by `viewStateShareKey`."""
_NAME_COLUMN = "attributes.`Run Name`"
_COLUMNS = {"params.": 8, "metrics.": 4}
"""How many columns of each kind a view has at most."""
MOST = 4
"""Parameters in a name or a column; a run of another profile differs in dozens."""
_ORDERED = {"orderByKey": f"tags.`{ORDER}`", "orderByAsc": "true"}


def view(columns: Iterable[str]) -> str:
    """Return the view of a table of runs: means over seeds, and the `columns`, by MLflow's names for them.

    Runs of an earlier setting or code have a group of their own: a mean must not mix them.
    """
    given = [*columns]
    parts = [[name for name in given if name.startswith(kind)][:most] for kind, most in _COLUMNS.items()]
    state = {
        **_ORDERED,
        "groupBy": {"aggregateFunction": "average", "groupByKeys": [{"mode": "tag", "groupByData": ARM_AND_SETTING}]},
        "selectedColumns": [name for part in parts for name in part],
        # MLflow's own 190 pixels cut the names of groups.
        "columnOrder": [_NAME_COLUMN],
        "columnWidths": {_NAME_COLUMN: 460},
    }
    return json.dumps(state)


def columns(view: str | None) -> list[str]:
    """Return the columns that a view shows, by MLflow's names for them."""
    try:
        shown = json.loads(view or "{}").get("selectedColumns") or []
        return [name for name in shown if name.startswith(tuple(_COLUMNS))]
    except (ValueError, AttributeError, TypeError):
        return []


def column(kind: str, name: str) -> str:
    """Return MLflow's name for a column of `params` or `metrics`."""
    return f"{kind}.`{name}`"


def experiment(record: RunRecord, run: Run) -> str:
    """Return the name of the experiment, which holds comparable runs.

    - A study's training runs are in `<study>`; whatever reads them is in `<study>/inside`.
    - A search has its own, with its trials and the training runs that it has begun. A training run that a study has
      published is the study's.
    - A run without study is in the experiment of its stage.
    """
    if searched(record, run):
        return run.tags[SEARCH]
    if run.study is None:
        return run.stage
    return run.study if run.stage in (TRAIN, "search", "trial") else f"{run.study}/inside"


def experiments(record: RunRecord, run: Run) -> set[str]:
    """Return the names of the experiments that may hold a run: also by earlier versions, or before it was published."""
    study = run.study or run.stage
    return {experiment(record, run), study, f"{study}/inside", *filter(None, [run.tags.get(SEARCH)])}


def searched(record: RunRecord, run: Run) -> bool:
    """Return whether a search has begun a training run that no study has published: its arm is none of the study."""
    output = record.end and record.end.output
    return SEARCH in run.tags and (output is None or Path(output).parts[0] != "models")


def reads(run: Run) -> str | None:
    """Return the digests of what a run has read, runs first, if it is no training run."""
    if run.stage == TRAIN:
        return None
    return " ".join(sorted(set(run.inputs.values()), key=lambda digest: (len(digest) != 64, digest)))


def arm_and_setting(run: Run, changes: str = "") -> str | None:
    """Return a training run's arm with a digest of what its seeds have in common: parameters, code, plugins and inputs.

    `changes`: the parameters that differ from the study's settings, in words.
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
    named = run.arm if changes in ("", UNCHANGED) else f"{run.arm} {changes}"
    return f"{named}, setting {digest[:4]}"


def description(record: RunRecord, run: Run) -> str:
    """Return a run's description in Markdown: digest, command, and its place in the report."""
    named = " ".join(str(part) for part in (run.study or run.task, run.arm) if part)
    seed = "" if run.seed is None else f" --seed {run.seed}"
    if COMMAND in run.tags:
        return f"Reproduce: `{run.tags[COMMAND]}`\n\nDigest: `{run.digest}`"
    match run.stage:
        case "search" | "trial":
            command, place = "isoscope search run", "search"
        case "train" if searched(record, run):
            command, place = "isoscope search run", f"run-{run.digest}"
        case "prepare":
            command, place = f"isoscope prepare {run.task}", "data"
        case "compare":
            command, place = f"isoscope compare {run.study}", f"comparison-{run.study}"
        case _:
            command = f"isoscope {COMMANDS.get(run.stage, run.stage)} {named}{seed}"
            place = f"run-{run.digest}" if run.stage == TRAIN else f"study-{run.study}"
    lines = [
        f"Reproduce: `{command}`",
        f"Report: `{INDEX.as_posix()}#{place}`",  # no link: MLflow's pages cannot open a file of the project
        f"Digest: `{run.digest}`",
    ]
    if run.stage == TRAIN and not searched(record, run):
        lines.append("Add `-S name=value` to the command for each parameter that is not as in `params.yaml`.")
    return "\n\n".join(lines)


def has_arms(experiment: str) -> bool:
    """Return whether an experiment, by its name, holds the training runs of a study, which are grouped by arm."""
    return "/" not in experiment and not experiment.startswith("search-")


def runs_page(server: str, known: str, *, search: str | None = None, grouped: bool = True) -> str:
    """Return the address of an experiment's table of runs: those that a `search` finds, or all, `grouped` by arm.

    `known`: the experiment's id. Failed and killed runs come last. Without `runs` and the type, MLflow 3 shows its
    overview of traces and drops the rest.
    """
    # An address with an order of its own would drop the view's groups.
    table = {"viewStateShareKey": _VIEW} if grouped else _ORDERED
    what = table if search is None else {"searchFilter": search}
    query = urlencode({"workflowType": "machine_learning", **what}, quote_via=quote, safe="")
    return f"{server}/#/experiments/{quote(known, safe='')}/runs?{query}"


def changed(folder: Path, run: Run) -> dict[str, Any]:
    """Return the parameters of a training run, by dotted name, that differ from its study's settings in `folder`.

    The settings are params.yaml with the study's and the arm's overlays, as committed; without git, as they are now.
    Empty if the study has no such settings any more.
    """
    if run.stage != TRAIN or run.study is None:
        return {}
    try:
        settings = _settings(folder, run)
        return differing(run.params, flatten(settings | {"objective": _decided(folder, settings)}))
    except (InputError, AttributeError, KeyError, TypeError):  # another project's run, or settings invalid by now
        return {}


def written(changes: Mapping[str, Any]) -> str:
    """Return changed parameters for a name: `learning_rate=0.0003`, each name as short as it is clear."""
    names = {name: _short(name, changes) for name in changes}
    texts = [f"{names[name]}={as_text(value)}" for name, value in changes.items()]
    more = [f"and {len(texts) - MOST} more"] if len(texts) > MOST else []
    return " ".join([*texts[:MOST], *more])


def _short(name: str, among: Mapping[str, Any]) -> str:
    last = name.rpartition(".")[2]
    alone = sum(other.rpartition(".")[2] == last for other in among) == 1
    return last if alone and last != "kind" else ".".join(name.split(".")[-2:])


def _settings(folder: Path, run: Run) -> Tree:
    tree = deepcopy(_committed(folder, PARAMS))
    study = tree["studies"][run.study]
    settings = [("settings", name) for name in study.get("settings") or ()]
    for axis, value in (("task", study["task"]), *settings, *run.axes.items()):
        merge(tree, _committed(folder, overlay(axis, str(value))))
    return tree | {"task": study["task"]}


def _decided(folder: Path, settings: Tree) -> Tree:
    """Return the section `objective` with what the study's prepared task decides, as the run has it."""
    objective: Tree = settings["objective"]
    try:
        manifest = json.loads((folder / processed(settings["task"]) / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        manifest = {}
    given = built_in.load(built_in.GIVEN, "train")
    return objective | given.decided(SimpleNamespace(**objective), manifest)


@cache
def _committed(folder: Path, file: Path) -> Tree:
    command = ["git", "show", f"HEAD:./{file.as_posix()}"]
    try:
        shown = subprocess.run(command, cwd=folder, capture_output=True, text=True, encoding="utf-8", check=False)
    except (OSError, UnicodeDecodeError):
        return read_yaml(folder, file)
    tree = parse_yaml(shown.stdout, str(file)) if shown.returncode == 0 else read_yaml(folder, file)
    return tree if isinstance(tree, dict) else {}
