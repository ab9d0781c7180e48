"""Another node of a cluster reads the same configuration, or an error names the node."""

import copy
from pathlib import Path

import pytest

from isoscope.base.errors import InputError
from isoscope.base.paths import Project
from isoscope.platform.config.load import Configuration
from isoscope.platform.stages.study_cells import Setup

ROOT = Path(__file__).parents[3]


def sent(**changed: object) -> Setup:
    """Return the value as it arrives on a node (`copy` works like a pickle)."""
    configuration = Configuration(ROOT, ["training.epochs=2", "studies.fusion.seeds=[7]"])
    found = copy.copy(Setup(configuration, Project(ROOT, ROOT), "train"))
    assert "configuration" not in vars(found)
    vars(found).update(changed)
    return found


def test_a_node_reads_the_same_configuration() -> None:
    configuration = sent().configuration
    assert configuration.study("fusion").seeds == (7,)
    assert configuration.cell("fusion", "conv2d").cell.training.epochs == 2


def test_other_code_on_a_node_is_refused() -> None:
    with pytest.raises(InputError, match=r"^node \S+: its isoscope has other code; install the same version"):
        _ = sent(code="other").configuration


def test_a_wrong_overlay_on_a_node_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^node \S+: .*none.py.*no such file"):
        _ = sent(plugins=[tmp_path / "none.py"]).configuration


def test_a_missing_project_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^node \S+: no project at .* at the same path"):
        _ = sent(project=Project(tmp_path, tmp_path)).configuration
