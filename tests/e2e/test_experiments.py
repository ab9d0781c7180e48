"""DVC experiments: change one number for one run, in the workspace or in a copy; compare, plot and undo it.

The tests of this file are one story, told in order.
"""

import json
import sys
from pathlib import Path

import pytest

from isoscope.platform.config.tree import dump_yaml, parse_yaml, read_yaml
from isoscope.platform.runs.stored import locked_runs
from pipeline_project import ARMS, Finished, Project

TRAIN, ANALYSE = "train@fusion", "analyse@fusion"


def code_versions(project: Project) -> dict[str, str]:
    """Return the code version of each arm: a run's code has its fusion alone."""
    training = parse_yaml(project.text("params.yaml"), "params.yaml")["training"]
    observers = [name for name in ("watch", "allocation") if training[name] is not None]
    code = f"""
from isoscope.base import code_closure, built_in
for fusion in {ARMS}:
    modules = built_in.modules(
        fusion=fusion, objective="classification", penalty="none", observers={observers}, encoder="scratch"
    )
    print(code_closure.code_version("train", modules))
"""
    return dict(zip(ARMS, project.run(sys.executable, "-c", code).out.split(), strict=True))


def stored(project: Project, name: str) -> str:
    """The commit of an experiment, which git finds among its refs only by the whole name."""
    refs = project.git("for-each-ref", "--format=%(refname)", "refs/exps").split()
    (found,) = [ref for ref in refs if ref.endswith(f"/{name}")]
    return found


def test_an_experiment_trains_with_its_number_and_metrics_diff_shows_what_it_did(project: Project) -> None:
    done = project.dvc("exp", "run", "-S", "training.epochs=1", "--name", "short", ANALYSE)
    assert done.ran == [TRAIN, ANALYSE]
    runs = project.tracked()
    for arm in ARMS:
        run = runs[project.digest(arm)]
        assert (run.status, run.params["training.epochs"]) == ("FINISHED", "1")
    before, after = (
        parse_yaml(project.git("show", f"{revision}:params.yaml"), revision)
        for revision in ("main", stored(project, "short"))
    )
    before["training"]["epochs"] = 1
    assert after == before
    assert project.git("diff", "--numstat", "main", "--", "params.yaml").split()[:2] == ["1", "1"], "one line"
    (changes,) = json.loads(project.dvc("metrics", "diff", "--json", "main", "short").out).values()
    found = changes["accuracy.conv2d.mean"]
    revisions = ("main", stored(project, "short"))
    trained = [json.loads(project.git("show", f"{one}:reports/parts/fusion/metrics.json")) for one in revisions]
    assert [found["old"], found["new"]] == [one["accuracy"]["conv2d"]["mean"] for one in trained]
    assert found["diff"] < 0, "one epoch is too few"


def clean(project: Project) -> None:
    """The workspace as it was committed."""
    project.git("checkout", "--", ".")
    project.dvc("checkout")


def test_a_bare_name_goes_to_the_overlay_in_use_that_has_it(project: Project) -> None:
    """`-S model.fusion.kernel_size=…` changes conv2d.yaml; conv2d_unit.yaml has the key too, but no arm uses it."""
    clean(project)
    done = project.isoscope("repro", "-S", "model.fusion.kernel_size=[1,3]", "--name", "flat", TRAIN)
    assert "Reproducing experiment 'flat'" in done.out
    assert done.ran == [TRAIN]
    assert read_yaml(project.folder, Path("variants/fusion/conv2d.yaml"))["model"]["fusion"]["kernel_size"] == [1, 3]
    assert project.git("diff", "--name-only", "HEAD").split() == ["dvc.lock", "variants/fusion/conv2d.yaml"]
    run = project.tracked()[project.digest("conv2d")]
    assert (run.status, run.params["model.fusion.kernel_size"]) == ("FINISHED", "[1, 3]")


def test_a_bare_name_of_several_overlays_must_say_which(project: Project) -> None:
    axes = "studies.fusion.axes.fusion=[additive, conv2d, conv2d_identity]"
    line = project.refused("repro", "-S", axes, "-S", "model.fusion.kernel_size=[5,5]")
    assert line.startswith("isoscope: -S model.fusion.kernel_size: set in several ")
    for name in ("conv2d", "conv2d_identity"):
        assert f"-S variants/fusion/{name}.yaml:model.fusion.kernel_size=" in line


def test_a_copy_of_the_tree_runs_its_own_sources_and_records_at_home(project: Project, finished: Finished) -> None:
    """DVC copies the tree with its changes; the installed sources are another tree's."""
    clean(project)
    path = project.folder / "src/isoscope/training/optim.py"
    path.write_text(path.read_text("utf-8") + "\nREMARK = 1\n", "utf-8")
    changed = code_versions(project)
    installed = Project(project.folder, sources=finished.project.sources)
    assert not {*changed.values()} & {*code_versions(installed).values()}
    before, published = project.records(), project.digest("additive")
    done = installed.dvc("exp", "run", "--temp", "-S", "training.epochs=2", "--name", "copy", TRAIN)
    assert done.ran == [TRAIN]
    fresh = {digest: record for digest, record in project.records().items() if digest not in before}
    assert {record.status for record in fresh.values()} == {"FINISHED"}
    assert sorted((record.run.arm, record.run.code) for record in fresh.values() if record.run) == [*changed.items()]
    runs = project.tracked()
    assert {runs[digest].status for digest in fresh} == {"FINISHED"}
    # The workspace is as it was; the experiment's commit holds the result.
    assert project.digest("additive") == published
    assert project.git("status", "--porcelain").split() == ["M", "src/isoscope/training/optim.py"]
    lock = parse_yaml(project.git("show", f"{stored(project, 'copy')}:dvc.lock"), "dvc.lock")
    (project.folder / "dvc.lock").write_text(dump_yaml(lock), "utf-8")
    held = locked_runs(project.folder, project.folder / ".dvc/cache")
    assert {record.end.output_md5 for record in fresh.values() if record.end} <= held.keys()


def state(project: Project) -> tuple[str, str, str]:
    """The workspace: what git sees, its differences, and the published run."""
    return project.git("status", "--porcelain"), project.git("diff", "HEAD"), project.digest("additive")


def test_queued_experiments_are_in_mlflow_once_each_and_leave_the_workspace_alone(project: Project) -> None:
    clean(project)
    before, known = state(project), project.records().keys()
    for epochs in (1, 3):  # one epoch: known from the first experiment
        project.dvc("exp", "run", "--queue", "-S", f"training.epochs={epochs}", "--name", f"queued-{epochs}", TRAIN)
    assert state(project) == before
    project.dvc("exp", "run", "--run-all")
    assert state(project) == before
    fresh = project.records().keys() - known
    assert len(fresh) == 2, "additive and conv2d with three epochs"
    project.isoscope("mirror")
    runs = project.tracked()  # mirrored twice, it holds each run once
    assert {runs[digest].params["training.epochs"] for digest in fresh} == {"3"}
    for epochs in (1, 3):
        params = parse_yaml(project.git("show", f"{stored(project, f'queued-{epochs}')}:params.yaml"), "params.yaml")
        assert params["training"]["epochs"] == epochs


@pytest.mark.parametrize("how", [["--temp"], ["--queue"]])
def test_an_overlay_that_git_does_not_track_is_named(project: Project, how: list[str]) -> None:
    project.git("checkout", "--", ".")
    overlay = project.folder / "variants/fusion/mine.yaml"
    overlay.write_text((project.folder / "variants/fusion/additive.yaml").read_text("utf-8"), "utf-8")
    axes = "studies.fusion.axes.fusion=[additive, mine]"
    words = ("exp", "run", *how, "-S", axes, TRAIN)
    if how == ["--queue"]:
        project.dvc(*words)
        failed = project.dvc("exp", "run", "--run-all")  # DVC's exit code of a failed queue
    else:
        failed = project.dvc(*words, code=255)
    overlay.unlink()
    [line] = {line for line in (failed.err + failed.out).splitlines() if line.startswith("isoscope: ")}
    assert f"{Path('variants/fusion/mine.yaml')}: no such file in this copy of the project" in line
    assert f"run in {project.folder}: git add variants/fusion/mine.yaml" in line
