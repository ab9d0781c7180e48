"""The project for fault injection: two classes, one tiny layer, seconds to train."""

import kit
import pytest

from pipeline_project import Project, make


@pytest.fixture(scope="session")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with its data prepared; copied, never changed."""
    project = make(tmp_path_factory.mktemp("faults") / "prepared")
    project.edit("params.yaml", "epochs: 4", "epochs: 2")
    project.edit("params.yaml", "checkpoint_every: 200", "checkpoint_every: 5")
    project.commit("States every five steps")
    project.isoscope("prepare", "tiny")
    return project


@pytest.fixture(scope="session")
def exhaustive(pytestconfig: pytest.Config) -> bool:
    """Whether to strike everywhere (`make faults`) or at a few places of each kind."""
    return bool(pytestconfig.getoption("--exhaustive"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the number of injected faults per command; the passed tests survived all of them."""
    for strike, count in sorted(kit.strikes().items()):
        terminalreporter.write_line(f"struck {count:4} x {strike}")
