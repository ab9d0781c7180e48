"""Records of a study and of its trials, which the mirror shows in MLflow."""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from optuna.trial import FrozenTrial, TrialState

from isoscope.base.paths import Project
from isoscope.platform.config.searching import Search
from isoscope.platform.config.tree import flatten
from isoscope.platform.runs.locks import Lease
from isoscope.platform.runs.provenance import environment, git_state
from isoscope.platform.runs.record import Record
from isoscope.platform.search.outcomes import PROVENANCE
from isoscope.platform.search.status import Status

_ENDS = {TrialState.COMPLETE: "FINISHED", TrialState.PRUNED: "KILLED", TrialState.FAIL: "FAILED"}


def digest(of: Mapping[str, Any], *, name: str, trial: FrozenTrial | None = None) -> str:
    """sha256 (hex) of a study, or of a trial of it: its number, and its start, since a number may come again."""
    about = trial and (trial.number, str(trial.datetime_start))
    text = json.dumps([of, name, about], sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


class Records:
    """The records of the study `name` with this identity, and of its trials."""

    def __init__(self, project: Project, search: Search, *, identity: Mapping[str, Any], name: str) -> None:
        self.project, self.search, self.identity, self.name = project, search, identity, name
        self.digest, self.git = digest(identity, name=name), git_state(project.folder)
        self.here = environment(device="cpu", threads=None, precision="fp32")

    @property
    def provenance(self) -> dict[str, Any]:
        """Sources and data of a trial that is run now."""
        return {"commit": self.git.commit, "dirty": self.git.dirty, "data": self.identity["inputs"].get("data")}

    def trial(self, trial: FrozenTrial) -> None:
        """Write the record of an ended trial: parameters, outcome, digests of its runs. Idempotent."""
        own = digest(self.identity, name=self.name, trial=trial)
        with Record(self.project.records / f"{own}.jsonl") as record:
            if record.before.end is not None:
                return
            provenance = trial.user_attrs[PROVENANCE]
            record.run(
                digest=own,
                stage="trial",
                study=f"search-{self.search.name}",
                arm=f"trial {trial.number}",
                params=trial.params,
                parent=self.digest,
                tags={
                    "optuna.state": trial.state.name,
                    "optuna.study": self.name,
                    "optuna.trial": str(trial.number),
                    "isoscope.runs": " ".join(provenance["digests"]),
                },
            )
            record.attempt(git=self.git, environment=self.here)
            metrics = dict(zip(self.search.objectives, trial.values or (), strict=False))
            metrics |= {f"constraint/{name}": value for name, value in trial.constraints.items()}
            for metric, value in {**metrics, "seconds": provenance["seconds"]}.items():
                record.metric(metric, value, step=0)
            record.end(_ENDS[trial.state], reason=trial.user_attrs.get("error"))

    @contextmanager
    def study(self, status: Callable[[], Status]) -> Iterator[None]:
        """Keep the record of the study; at its end it has the numbers of its `status`."""
        with (
            Lease(self.project.runs / self.digest, title=f"search {self.name}"),
            Record(self.project.records / f"{self.digest}.jsonl") as record,
        ):
            record.run(
                digest=self.digest,
                stage="search",
                study=f"search-{self.search.name}",
                arm=f"search {self.name}",
                params=flatten(self.search.model_dump(mode="json")),
                code=self.identity["code"],
                tags={"optuna.study": self.name},
            )
            record.attempt(git=self.git, environment=self.here)
            try:
                yield
                seen = status()
            except BaseException as error:
                record.end("FAILED", reason=f"{type(error).__name__}: {error}".splitlines()[0])
                raise
            best = next(iter(seen.best.values()), {}) if len(self.search.objectives) == 1 else {}
            counts = {"trials": seen.ended, "pruned": seen.pruned, "failed": seen.failed}
            for metric, value in (counts | {f"best/{name}": value for name, value in best.items()}).items():
                record.metric(metric, value, step=seen.ended)
            why = None if seen.done else "stopped before its budget was spent"
            record.end("FINISHED" if seen.done else "KILLED", reason=why)
