"""`make` installs once, in the right order, and says so when it cannot."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Create the files that the Makefile reads, older than its targets."""
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copyfile(ROOT / name, tmp_path / name)
        os.utime(tmp_path / name, (1, 1))
    return tmp_path


def make(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(
        ["make", *words], cwd=folder, env=clean, capture_output=True, text=True, check=False, timeout=600
    )


def stamp(folder: Path, *names: str) -> None:
    (folder / ".venv").mkdir(exist_ok=True)
    for age, name in enumerate(names):
        (folder / ".venv" / name).touch()
        os.utime(folder / ".venv" / name, (100 + age, 100 + age))


def test_a_fresh_machine_gets_torch_first_then_the_lock_then_the_project(project: Path) -> None:
    plan = make(project, "-n", "test").stdout
    steps = ["-m venv .venv", "grep '^torch=='", "--requirement requirements.lock", "--no-deps", "-m pytest"]
    places = [plan.index(step) for step in steps]
    assert places == sorted(places)


@pytest.mark.parametrize("goal, job", [("run", ".venv/bin/isoscope repro"), ("ui", ".venv/bin/isoscope ui")])
def test_a_second_call_installs_nothing(project: Path, goal: str, job: str) -> None:
    stamp(project, ".locked", ".project")
    assert make(project, "-n", goal).stdout.strip() == job


@pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
def test_a_changed_lock_is_installed_and_a_changed_pyproject_reinstalls_the_project_only(
    project: Path, changed: str
) -> None:
    stamp(project, ".locked", ".project")
    os.utime(project / changed, (200, 200))
    plan = make(project, "-n", "run").stdout
    assert "--editable ." in plan
    assert ("--requirement requirements.lock" in plan) == (changed == "requirements.lock")


def test_a_wheel_needs_no_environment_of_the_project(project: Path) -> None:
    """pip builds it in an environment of its own, which holds setuptools alone."""
    assert make(project, "-n", "wheel").stdout == "python3 -m pip wheel --quiet --no-deps --wheel-dir dist .\n"


def test_an_old_python_gets_one_line(project: Path) -> None:
    old = project / "python2"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    done = make(project, "run", f"PYTHON={old}")
    assert done.returncode != 0
    assert done.stdout == f"isoscope needs Python 3.11 or newer, and {old} is not: make PYTHON=python3.12 run\n"
    assert not (project / ".venv").exists()


@pytest.mark.parametrize("name", ["plain", "prüf-é 字"])
def test_dvcs_scratch_is_private_whatever_the_letters_of_the_path(project: Path, name: str) -> None:
    """DVC writes its configuration in ASCII."""
    folder = project / name
    folder.mkdir()
    for file in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy2(project / file, folder / file)
    stamp(folder, ".locked")
    binaries = folder / ".venv/bin"
    binaries.mkdir()
    (binaries / "pip").symlink_to(shutil.which("true") or "/bin/true")
    (binaries / "dvc").symlink_to(Path(sys.executable).parent / "dvc")
    subprocess.run([binaries / "dvc", "init", "--quiet", "--no-scm"], cwd=folder, check=True)
    done = make(folder, "install")
    assert done.returncode == 0, done.stderr
    asked = [binaries / "dvc", "config", "core.site_cache_dir"]
    scratch = Path(subprocess.run(asked, cwd=folder, check=True, capture_output=True, text=True).stdout.strip())
    assert scratch.is_absolute()
    assert scratch.is_relative_to(folder) == (name == "plain")
    assert stat.S_IMODE(scratch.stat().st_mode) == 0o700
    assert scratch.stat().st_uid == os.getuid()


def test_help_is_what_a_bare_make_prints_and_names_every_goal(project: Path) -> None:
    bare = make(project)
    assert bare.returncode == 0
    goals = next(line for line in (ROOT / "Makefile").read_text().splitlines() if line.startswith(".PHONY")).split()[1:]
    inner = {"help", "lint", "types", "floors", "contracts"}
    assert {line.split()[1] for line in bare.stdout.splitlines()} - {"help"} == set(goals) - inner
