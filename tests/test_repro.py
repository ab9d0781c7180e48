"""`isoscope repro` passes signals on to all its processes, and settings on to DVC as they are."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from dvc.utils.hydra import apply_overrides

from isoscope.platform.config.tree import read_yaml
from isoscope.platform.stages.repro import _handed_on, _quoted

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
        None,
        True,
    ],
)
def test_a_setting_reaches_params_yaml_through_dvc_unchanged(tmp_path: Path, value: Any) -> None:
    (tmp_path / "params.yaml").write_text("name: 0\n")
    apply_overrides(tmp_path / "params.yaml", [f"name={_quoted(value)}"])
    assert read_yaml(tmp_path, Path("params.yaml")) == {"name": value}
