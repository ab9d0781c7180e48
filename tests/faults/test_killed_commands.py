"""Commands that start others, killed at random moments: the same command again gives the bytes of a whole run.

Each killed process leaves processes behind it that end by themselves; the next command finds what they left.
"""

import json
import random
import re
import time
from pathlib import Path
from typing import Any

import kit
import pytest

from isoscope.base.atomic_files import fault as damage
from isoscope.platform.runs.provenance import file_md5s
from pipeline_project import ARMS, Project, family, left

pytestmark = pytest.mark.exhaustive
OPTIM = "src/isoscope/training/optim.py"
RISING = "    rising = math.floor(warmup * total)\n"
REFACTORED = "    share = warmup * total\n    rising = math.floor(share)\n"
PAGE, TOOK = "reports/index.html", re.compile(r'<td class="number">[\d.,]+ (s|min|h)</td>')
PIPELINE = ("data/processed", "models", "reports")


def killed(project: Project, seconds: float, *words: str) -> bool:
    """Start a command, kill it after `seconds`; return whether it was still running. Nothing of it stays."""
    command = project.start(*words)
    time.sleep(seconds)
    running = command.poll() is None
    if running:
        kit._count(f"{words[0]}: kill at a random moment")
    processes = family(command) if running else []
    command.kill()
    command.communicate()
    assert not left(processes, 30.0)
    return running


def stands(project: Project) -> dict[str, str]:
    """The md5 of each file of the pipeline's outputs, without files that are not whole yet.

    Of the page its text, without the times that runs took.
    """
    found = {f"{place}/{name}": md5 for place in PIPELINE for name, md5 in file_md5s(project.folder / place).items()}
    found[PAGE] = TOOK.sub("", project.text(PAGE))
    return {name: md5 for name, md5 in found.items() if "/." not in name}


def locked(project: Project) -> dict[str, Any]:
    """The entries of dvc.lock but the page's, which holds times."""
    return {stage: entry for stage, entry in project.lock().items() if stage != "report"}


def sealed_are_whole(project: Project) -> None:
    for folder in project.folder.glob(".isoscope/runs/*/output"):
        assert damage(folder) is None


@pytest.fixture(scope="module")
def plain(prepared: Project, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The project before its first pipeline, without MLflow."""
    return prepared.copy(tmp_path_factory.mktemp("killed") / "plain", without=("data",), mirrored=False)


@pytest.fixture(scope="module")
def whole(plain: Project, tmp_path_factory: pytest.TempPathFactory) -> tuple[Project, float]:
    """The project after a pipeline that nothing happened to, and the seconds that this took."""
    project = plain.copy(tmp_path_factory.mktemp("whole") / "project", mirrored=False)
    began = time.monotonic()
    project.cold.isoscope("repro")
    return project, time.monotonic() - began


@pytest.mark.parametrize("seed", range(4))
def test_a_pipeline_is_killed_at_any_time(
    plain: Project, whole: tuple[Project, float], tmp_path: Path, seed: int
) -> None:
    dice, (right, seconds) = random.Random(seed), whole
    project = plain.copy(tmp_path / "project", mirrored=False)
    for _ in range(9):
        killed(project, dice.uniform(1.0, seconds / 4), "repro")  # each finds a part of the work done
        sealed_are_whole(project)
    project.cold.isoscope("repro")
    assert stands(project) == stands(right)
    assert locked(project) == locked(right)
    assert project.cold.isoscope("repro").ran == []


def test_accepting_is_killed_at_any_time(whole: tuple[Project, float], tmp_path: Path) -> None:
    base = whole[0].copy(tmp_path / "base", mirrored=False)
    base.edit(OPTIM, RISING, REFACTORED)
    right = base.copy(tmp_path / "right", mirrored=False)
    began = time.monotonic()
    accepted = json.loads(right.cold.isoscope("accept", "--json").out)["accepted"]
    seconds = time.monotonic() - began
    notes = file_md5s(right.folder / ".isoscope/accepted")
    assert len(notes) == len(accepted) == len(ARMS)
    dice = random.Random(0)
    for number in range(10):
        project = base.copy(tmp_path / f"project-{number}", mirrored=False)
        for _ in range(4):
            killed(project, dice.uniform(0.3 * seconds, seconds), "accept")
            sealed_are_whole(project)
        project.cold.isoscope("accept")
        assert file_md5s(project.folder / ".isoscope/accepted") == notes
        records = project.records()
        assert all(len({one.code for one in records[digest].accepted}) == 1 for digest in accepted)
        assert all(len(records[digest].accepted) == 1 for digest in accepted), "accepted once, and said once"
        assert project.cold.isoscope("accept").out == "nothing to accept\n"
        project.run("rm", "-rf", str(project.folder))
