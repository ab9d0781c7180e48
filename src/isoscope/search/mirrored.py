"""Records of a search for MLflow: a parent run for the study, a child run per trial."""

from collections.abc import Mapping
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from isoscope.config.searching import Search
from isoscope.config.tree import flatten
from isoscope.paths import Project
from isoscope.runs.provenance import Git
from isoscope.runs.record import Record
from isoscope.search.outcomes import PROVENANCE
from isoscope.search.study import digest

ENDS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


def note_trial(
    project: Project,
    search: Search,
    trial: FrozenTrial,
    *,
    identity: Mapping[str, Any],
    name: str,
    git: Git,
    environment: Mapping[str, Any],
) -> None:
    """Write the record of an ended trial: parameters, outcome, digests of its runs. Idempotent."""
    own = digest(identity, name=name, trial=trial.number)
    with Record(project.records / f"{own}.jsonl") as record:
        if record.before.end is not None:
            return
        provenance = trial.user_attrs[PROVENANCE]
        record.run(
            digest=own,
            stage="trial",
            study=f"search-{search.name}",
            arm=f"trial {trial.number}",
            params=trial.params,
            parent=digest(identity, name=name),
            tags={
                "optuna.state": trial.state.name,
                "optuna.study": name,
                "optuna.trial": str(trial.number),
                "isoscope.runs": " ".join(provenance["digests"]),
            },
        )
        record.attempt(git=git, environment=environment)
        metrics = dict(zip(search.objectives, trial.values or (), strict=False))
        metrics |= {f"constraint/{name}": value for name, value in trial.constraints.items()}
        for metric, value in {**metrics, "seconds": provenance["seconds"]}.items():
            record.metric(metric, value, step=0)
        record.end(ENDS[trial.state], reason=trial.user_attrs.get("error"))


def begin_study(
    record: Record, search: Search, *, identity: Mapping[str, Any], name: str, git: Git, environment: Mapping[str, Any]
) -> None:
    """Start or continue the record of a study."""
    record.run(
        digest=digest(identity, name=name),
        stage="search",
        study=f"search-{search.name}",
        arm=f"search {name}",
        params=flatten(search.model_dump(mode="json")),
        code=identity["code"],
        tags={"optuna.study": name},
    )
    record.attempt(git=git, environment=environment)
