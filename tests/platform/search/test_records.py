"""The record of a trial is that of this trial, and its overlay has every choice."""

from datetime import datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from optuna.distributions import FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.searching import Dimension
from isoscope.platform.config.tree import parse_yaml
from isoscope.platform.runs.lines import RunRecord
from isoscope.platform.runs.record import read
from isoscope.platform.search.records import Records, digest
from isoscope.platform.stages.search import overlay

ROOT = Path(__file__).parents[3]
IDENTITY: dict[str, Any] = {"inputs": {"data": "d"}, "code": "c"}


def trial(rate: float, minute: int, value: float | None) -> FrozenTrial:
    state = TrialState.FAIL if value is None else TrialState.COMPLETE
    found = create_trial(
        state=state,
        values=None if value is None else [value],
        params={"rate": rate},
        distributions={"rate": FloatDistribution(0, 1)},
        user_attrs={"provenance": {"digests": ["f" * 64], "seconds": 3}, "error": "no package"},
    )
    found.number, found.datetime_start = 0, datetime(2026, 1, 1, 12, minute)
    return found


def test_a_number_that_comes_again_is_another_trial_and_the_same_start_is_the_same(tmp_path: Path) -> None:
    """A failed search is forgotten, or its storage moved away; its first trial then has the number 0 again."""
    project, search = Project(tmp_path, tmp_path), SimpleNamespace(name="s", objectives={"accuracy": "maximise"})
    records = Records(project, search, identity=IDENTITY, name="s")  # type: ignore[arg-type]

    def told(one: FrozenTrial) -> RunRecord:
        records.trial(one)
        return read(project.records / f"{digest(IDENTITY, name='s', trial=one)}.jsonl")

    failed, again = told(trial(0.1, 1, None)), told(trial(0.2, 2, 0.9))
    assert (failed.status, again.status) == ("FAILED", "FINISHED")
    assert again.run is not None
    assert again.run.params == {"rate": 0.2}
    assert {one.name: one.value for one in again.metrics}["accuracy"] == 0.9
    assert told(trial(0.2, 2, 0.9)) == again
    assert len([*project.records.glob("*.jsonl")]) == 2


@pytest.mark.parametrize("epochs", [4, 8])
def test_a_choice_that_the_settings_of_the_search_have_is_in_the_overlay(epochs: int) -> None:
    """The arm that adopts it trains without these settings."""
    configuration = Configuration(ROOT)
    assert configuration.root.search is not None
    assert configuration.below("fusion", ("quick",))["training"]["epochs"] == 4
    space = {"training.epochs": Dimension(choices=(4, 8)), "training.learning_rate": Dimension(low=1e-4, high=1e-2)}
    search = configuration.root.search.model_copy(update={"space": space})
    chosen = {"training.epochs": epochs, "training.learning_rate": 3e-4}
    assert parse_yaml(overlay(configuration, search, chosen), "overlay")["training"] == {
        "epochs": epochs,
        "learning_rate": 3e-4,
    }
