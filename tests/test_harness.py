"""The test harness keeps its promises, tested on a small suite run by a separate pytest."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from pipeline_project import left, wait_for

ROOT = Path(__file__).parents[1]

SUITE = """
import os, warnings
import pytest

def test_passes():
    assert os.environ["OMP_NUM_THREADS"] == "1"

@pytest.mark.parametrize("engine", ["one", "two"])
@pytest.mark.skipif(True, reason="no such engine")
def test_marked(engine): ...

def test_in_its_body():
    pytest.skip("no server at hand")

@pytest.mark.xfail(reason="known", strict=True)
def test_expected_failure():
    raise AssertionError

def test_inherits_nothing():
    inherited = {"MLFLOW_RUN_ID", "ISOSCOPE_HUB", "DVC_STAGE", "RANK", "GIT_DIR"} & set(os.environ)
    assert not inherited
    assert os.environ["HF_HUB_OFFLINE"] == "1"
"""
MODULE = "import pytest\npytest.importorskip('no_such_library')\ndef test_never(): ...\n"


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """A folder with this project's harness, its pytest settings, and tests that skip in all three ways."""
    (tmp_path / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    tests = tmp_path / "tests"
    tests.mkdir()
    for name in ("conftest.py", "end_with_tests.py"):
        (tests / name).write_bytes((ROOT / "tests" / name).read_bytes())
    (tests / "test_some.py").write_text(SUITE)
    (tests / "test_module.py").write_text(MODULE)
    return tmp_path


def run_pytest(folder: Path, *options: str, **extra: str) -> tuple[int, str]:
    """Run a separate pytest in `folder`, in a shell full of other tools' variables."""
    inherited = {"MLFLOW_RUN_ID": "1", "ISOSCOPE_HUB": "/x", "DVC_STAGE": "train", "RANK": "1", "GIT_DIR": "/x"}
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "ISOSCOPE_"))}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = subprocess.run(
        command, cwd=folder, env=clean | inherited | extra, capture_output=True, text=True, check=False, timeout=600
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("processes", [(), ("-n", "1")], ids=["one-process", "xdist"])
def test_a_skip_is_named_and_require_all_turns_each_into_a_failure(suite: Path, processes: tuple[str, ...]) -> None:
    code, output = run_pytest(suite, *processes)
    assert code == 0, output
    assert "2 passed, 4 skipped, 1 xfailed" in output
    for name in ("test_marked[one]", "test_marked[two]", "test_in_its_body", "test_module.py"):
        assert [line for line in output.splitlines() if line.startswith("SKIPPED") and name in line], output
    (suite / "tests/test_module.py").unlink()
    code, output = run_pytest(suite, *processes, ISOSCOPE_REQUIRE_ALL="1")
    assert code == 1, output
    assert "1 failed, 2 passed, 1 xfailed, 2 errors" in output  # pytest calls a failure before the body an error
    assert "ISOSCOPE_REQUIRE_ALL allows no skip (Skipped: no server at hand)" in output


def test_require_all_turns_a_skipped_module_into_an_error(suite: Path) -> None:
    (suite / "tests/test_some.py").unlink()
    code, output = run_pytest(suite, ISOSCOPE_REQUIRE_ALL="1")
    assert code != 0, output
    for words in ("1 error", "allows no skip", "no_such_library"):
        assert words in output


def test_a_warning_is_an_error(suite: Path) -> None:
    (suite / "tests/test_module.py").unlink()
    (suite / "tests/test_some.py").write_text(
        "import warnings\ndef test_old():\n    warnings.warn('old', stacklevel=1)\n"
    )
    code, output = run_pytest(suite)
    assert code == 1, output
    assert "UserWarning: old" in output


SERVER = """
import subprocess, sys, time
from pathlib import Path

def test_with_a_server():
    code = "import subprocess; subprocess.run(['sleep', '3000'])"  # as MLflow: the server is a child of what is started
    server = subprocess.Popen([sys.executable, "-c", code], start_new_session=True)
    Path("pid").write_text(str(server.pid))
    time.sleep(3000)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda number: number.name)
def test_a_server_ends_with_an_interrupted_pytest(suite: Path, number: signal.Signals) -> None:
    (suite / "tests/test_some.py").write_text(SERVER)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "1", "tests/test_some.py"]
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "ISOSCOPE_"))}
    with (suite / "log").open("wb") as log:
        pytest_itself = subprocess.Popen(command, cwd=suite, env=clean, stdout=log, stderr=log)
    wait_for(lambda: (suite / "pid").exists() and (suite / "pid").read_text())
    server = psutil.Process(int((suite / "pid").read_text()))
    wait_for(server.children)
    family = [server, *server.children()]
    pytest_itself.send_signal(number)
    pytest_itself.wait()
    assert left(family) == []
