"""Records of a search for MLflow: a parent run for the study, a child run per trial."""

import time
from collections.abc import Mapping
from typing import Any

from optuna.trial import TrialState

from isoscope.config.searching import Search
from isoscope.config.tree import flatten
from isoscope.paths import Project
from isoscope.runs.provenance import Git
from isoscope.runs.record import Record
from isoscope.search.outcomes import PROVENANCE
from isoscope.search.running import Outcome
from isoscope.search.study import digest

ENDS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


def note_trial(
    project: Project,
    search: Search,
    outcome: Outcome,
    *,
    identity: Mapping[str, Any],
    name: str,
    git: Git,
    environment: Mapping[str, Any],
) -> None:
    """Write the record of a trial: parameters, outcome, digests of its runs. Idempotent."""
    own = digest(identity, name=name, trial=outcome.number)
    with Record(project.records / f"{own}.jsonl") as record:
        if record.before.end is not None:
            return
        facts, provenance = outcome.facts, outcome.facts.get(PROVENANCE, {})
        record.run(
            digest=own,
            stage="trial",
            study=f"search-{search.name}",
            arm=f"trial {outcome.number}",
            params=dict(outcome.params),
            parent=digest(identity, name=name),
            tags={
                "optuna.state": outcome.state.name,
                "optuna.study": name,
                "optuna.trial": str(outcome.number),
                "isoscope.runs": " ".join(provenance.get("digests", ())),
            },
        )
        record.attempt(git=git, environment=environment)
        for objective, value in zip(search.objectives, outcome.values or (), strict=False):
            record.metric(objective, value, step=0)
        for constraint, value in outcome.constraints.items():
            record.metric(f"constraint/{constraint}", value, step=0)
        record.metric("seconds", provenance.get("seconds", max(0.0, time.time() - outcome.began)), step=0)
        record.end(ENDS[outcome.state], reason=facts.get("error"))


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
