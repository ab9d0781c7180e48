"""The strict harness: no network, no inherited settings, one thread and, on request, no skips.

Everything that a library reads at import is set here, before any test module is imported.
"""

import gc
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path

import pytest

# A shell inside an MLflow or DVC run, an `accelerate launch`, a git hook: none of it may reach a test
# or a process that a test starts.
INHERITED = ("ACCELERATE_", "DVC_", "GIT_", "HF_", "ISOSCOPE_", "MLFLOW_", "TRANSFORMERS_")
LAUNCHER = (
    "COLUMNS",
    "FORCE_COLOR",
    "LOCAL_RANK",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "PYTHONDONTWRITEBYTECODE",  # every process would compile our sources again
    "RANK",
    "WORLD_SIZE",
)
KEPT = ("ISOSCOPE_REQUIRE_ALL",)

SETTINGS = {
    "DO_NOT_TRACK": "1",
    "DVC_NO_ANALYTICS": "1",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MPLBACKEND": "Agg",
    "NO_COLOR": "1",
    "TERM": "dumb",
    # One thread: sums have one order, and parallel test processes do not compete for cores.
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    # A repository that a test makes: an identity, and neither the user's hooks nor their signing key.
    "GIT_AUTHOR_EMAIL": "tests@localhost",
    "GIT_AUTHOR_NAME": "tests",
    "GIT_COMMITTER_EMAIL": "tests@localhost",
    "GIT_COMMITTER_NAME": "tests",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "init.defaultBranch",
    "GIT_CONFIG_VALUE_0": "main",
    "GIT_CONFIG_KEY_1": "safe.directory",
    "GIT_CONFIG_VALUE_1": "*",
}
# Empty caches and settings of its own: nothing that a user has downloaded, computed or configured decides a test.
FOLDERS = ("DVC_GLOBAL_CONFIG_DIR", "DVC_SITE_CACHE_DIR", "DVC_SYSTEM_CONFIG_DIR", "HF_HOME", "MPLCONFIGDIR")

if "PYTEST_XDIST_WORKER" not in os.environ:  # such a worker inherits what its controller has settled
    for name in [name for name in os.environ if name.startswith(INHERITED) or name in LAUNCHER]:
        if name not in KEPT:
            del os.environ[name]
    folders = tempfile.TemporaryDirectory(prefix="isoscope-tests-", ignore_cleanup_errors=True)
    os.environ.update(SETTINGS, **{name: f"{folders.name}/{name.lower()}" for name in FOLDERS})
    os.environ["ISOSCOPE_TEST_FOLDER"] = folders.name  # for what all processes of this test run share
    if sys.platform == "linux":  # no server may outlive an interrupted or killed pytest
        watch = [
            sys.executable,
            "-IS",
            str(Path(__file__).with_name("end_with_tests.py")),
            str(os.getpid()),
            folders.name,
        ]
        subprocess.run(
            watch, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True
        )

# A shell's background job ignores these; every process that a test starts would ignore them too.
for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)

REQUIRE_ALL = os.environ.get("ISOSCOPE_REQUIRE_ALL", "") not in ("", "0")


gc.disable()  # imports and collection make millions of objects, and nearly all of them stay


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Also in a process that hands the tests to others and collects none."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="faults at every durable write, and all variants")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out exhaustive variants; start slow files first, so that no process ends with one (Makefile)."""
    if not config.getoption("--exhaustive"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("exhaustive")])
        items[:] = [item for item in items if not item.get_closest_marker("exhaustive")]
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path not in slow, item.path.parent.name not in ("e2e", "faults", "security")))


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Turn a skip into a failure with its reason; an expected failure, which pytest counts as a skip, stays."""
    if REQUIRE_ALL and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: ISOSCOPE_REQUIRE_ALL allows no skip ({reason})"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
