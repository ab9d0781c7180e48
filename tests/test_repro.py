"""`isoscope repro` passes signals on to all its processes, and settings on to DVC as they are."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.hydra import apply_overrides

from isoscope.base.errors import InputError
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import flatten, read_yaml
from isoscope.platform.stages.repro import _handed_on, _quoted, exit_code, located

# As DVC and its stage: the one ignores SIGINT and waits, the other ends by it.
# Short sleeps: a signal that comes just before a sleep begins does not wake it.
CHILD = """
STAGE = "import time; print('ready', flush=True); [time.sleep(0.1) for _ in range(6000)]"
import signal, subprocess, sys
stage = subprocess.Popen([sys.executable, "-c", STAGE])
signal.signal(signal.SIGINT, signal.SIG_IGN)
stage.wait()
sys.exit(5)
"""


def test_sigint_to_this_process_alone_ends_the_stage() -> None:
    with subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, process_group=0) as child:
        assert child.stdout is not None
        with _handed_on(child):
            assert child.stdout.readline() == b"ready\n"
            os.kill(os.getpid(), signal.SIGINT)
            assert child.wait(60) == 5
            os.kill(os.getpid(), signal.SIGINT)  # comes too late, and does no harm
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    "of_dvc, ours", [(0, 0), (1, 1), (254, 2), (255, 1), (253, 1), (251, 1), (252, 130), (141, 141), (-15, 143)]
)
def test_it_ends_with_the_codes_of_all_commands(of_dvc: int, ours: int) -> None:
    assert exit_code(of_dvc) == ours


def test_a_setting_that_an_overlay_of_a_study_sets_needs_its_file() -> None:
    """DVC would change params.yaml alone, and the overlay would keep its value."""
    project = Path(__file__).parents[1]
    configuration = Configuration(project)
    name = "training.epochs"
    used = {one for study in configuration.root.studies.values() for one in study.settings}
    files = [f"variants/settings/{one}.yaml" for one in used]
    setting = [file for file in files if name in flatten(read_yaml(project, Path(file)))]
    assert setting
    with pytest.raises(
        InputError, match=rf"^-S {name}: set in several files; choose -S params\.yaml:{name}=… or "
    ) as error:
        located([f"{name}=3"], configuration)
    assert [file for file in setting if f"{file}:{name}=…" not in str(error.value)] == []
    assert located(["report.title=x"], configuration) == ["report.title=x"]


@pytest.mark.parametrize(
    "value",
    [
        "",
        "x, y=z",
        "it's",
        'a "b"',
        "C:\\dir",
        "end\\",
        'both \\" of them',
        "1e-3",
        "null",
        "é",
        1e-3,
        [1, 2],
        ["a, b", {"c": "d"}],
        {"kind": "linear", "warmup": 0.1, "epochs": None, "of": {"text": 'a "b"', "empty": {}}},
        None,
        True,
    ],
)
def test_a_setting_reaches_params_yaml_through_dvc_unchanged(tmp_path: Path, value: Any) -> None:
    (tmp_path / "params.yaml").write_text("name: 0\n")
    apply_overrides(tmp_path / "params.yaml", [f"name={_quoted(value)}"])
    assert read_yaml(tmp_path, Path("params.yaml")) == {"name": value}
