"""Runs that no follower mirrors."""

from pathlib import Path

import pytest

from isoscope.platform.runs.run import FOLLOWED, Run
from own_runs import make


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A training run that has not begun."""
    monkeypatch.setenv(FOLLOWED, "1")
    return make(tmp_path)
