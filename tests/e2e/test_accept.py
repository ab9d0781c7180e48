"""A refactor that changes no number keeps the finished runs; a change of a number is found.

The tests of this file are one story, told in order.
"""

import json
import shutil
from pathlib import Path

from isoscope.platform.config.tree import read_yaml
from pipeline_project import ARMS, Project

OPTIM = "src/isoscope/training/optim.py"
RISING = "    rising = math.floor(warmup * total)\n"
COPIED = {"without": ("docs",)}
# The same numbers from other code: every code version below the stages' closure changes.
REFACTORED = "    share = warmup * total\n    rising = math.floor(share)\n"


def test_a_changed_number_is_named_and_nothing_is_accepted(project: Project) -> None:
    project.edit(OPTIM, RISING, RISING + "    total += 0.01\n")
    done = project.isoscope("accept", code=1)
    assert "additive seed 0" in done.err
    assert "of update" in done.err
    assert "nothing is accepted" in done.err
    assert "Traceback" not in done.err
    assert not list((project.folder / ".isoscope").glob("accepted/*"))
    project.edit(OPTIM, RISING + "    total += 0.01\n", RISING)


def test_a_refactor_keeps_the_runs(project: Project) -> None:
    before = {arm: (project.digest(arm), project.lock()["train@fusion"]["outs"]) for arm in ARMS}
    points = {digest: len(record.metrics) for digest, record in project.records().items()}
    project.edit(OPTIM, RISING, REFACTORED)
    answer = json.loads(project.isoscope("accept", "fusion", "--json").out)
    assert sorted(answer["accepted"]) == sorted(digest for digest, _ in before.values())
    done = project.isoscope("repro")
    assert done.ran == ["train@fusion"]
    assert {arm: (project.digest(arm), project.lock()["train@fusion"]["outs"]) for arm in ARMS} == before
    records, shown = project.records(), project.tracked()
    assert {digest: len(record.metrics) for digest, record in records.items()} == points
    for digest, _ in before.values():
        (accepted,) = records[digest].accepted
        assert accepted.code != records[digest].run.code
        assert shown[digest].tags["isoscope.accepted_for"] == accepted.code[:12]
    audited = json.loads(project.isoscope("audit", "--json").out)
    assert audited == {"sound": True, "findings": []}, "the page does not show yet that the runs are accepted"
    project.isoscope("report")
    assert "golden trace equal under code" in project.text("reports/index.html")
    assert project.isoscope("accept").out == "nothing to accept\n"


def test_an_opened_bundle_has_the_accepted_runs(project: Project, tmp_path: Path) -> None:
    project.isoscope("bundle", str(tmp_path / "given.zip"), "--with", "weights")
    project.at(tmp_path).isoscope("open", "given.zip", "there")
    there = Project(tmp_path / "there", mirrored=False)
    said = there.isoscope("train", "fusion")
    assert "2 cells" in said.out
    assert {arm: there.digest(arm) for arm in ARMS} == {arm: project.digest(arm) for arm in ARMS}


def test_what_gc_has_removed_is_taken_back_from_where_it_was_published(project: Project) -> None:
    """The newest version with an equal trace is accepted, even if an obsolete version has finished runs too."""
    before = {arm: project.digest(arm) for arm in ARMS}
    project.edit(OPTIM, REFACTORED, RISING + "    rising += 0\n")
    for note in (project.folder / ".isoscope/accepted").iterdir():
        note.unlink()
    project.isoscope("gc")
    runs = project.folder / ".isoscope/runs"
    assert not any((runs / digest / "output").exists() for digest in before.values())
    answer = json.loads(project.isoscope("accept", "--json").out)
    assert sorted(answer["accepted"]) == sorted(before.values())
    assert all((runs / digest / "output").is_dir() for digest in before.values())
    project.isoscope("repro")
    assert {arm: project.digest(arm) for arm in ARMS} == before


def test_a_run_that_is_nowhere_is_named(project: Project) -> None:
    project.edit(OPTIM, "    rising += 0\n", "    rising -= 0\n")
    held = project.copy(project.folder.parent / "without", without=("models",))
    held.run("rm", "-rf", ".isoscope/accepted", ".isoscope/runs", ".dvc/cache")
    assert "output is gone" in held.refused("accept")
    project.edit(OPTIM, "    rising -= 0\n", "    rising += 0\n")


def test_a_damaged_run_stands_for_nothing(project: Project) -> None:
    """It is restored from its published copy; without one, it is trained again under its own digest, by this code."""
    old = project.digest("additive")
    stored = project.folder / ".isoscope/runs" / old / "output"

    def damage(output: Path) -> None:
        (output / "metrics.jsonl").unlink()
        (output / "metrics.jsonl").write_text("{}\n", "utf-8")

    damage(stored)
    again = project.isoscope("train", "fusion", "additive", "--seed", "0")
    assert "restored from its published copy" in again.err
    assert project.digest("additive") == old
    shutil.rmtree(project.folder / ".dvc/cache")
    damage(stored)
    damage(project.output("additive"))
    project.isoscope("train", "fusion", "additive", "--seed", "0")
    config = read_yaml(project.output("additive"), Path("config.yaml"))
    assert config["digest"] != old
    assert config["code"] != read_yaml(project.output("conv2d"), Path("config.yaml"))["code"]
