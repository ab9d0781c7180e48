"""`isoscope plan` says what `isoscope repro` then does, and changes nothing."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.atomic_files import sha256
from isoscope.base.paths import Project as Paths
from isoscope.platform.config.load import Configuration
from isoscope.platform.config.tree import parse_yaml
from isoscope.platform.stages.study_cells import Setup, training_job
from pipeline_project import Finished, Project

TRAIN = "train@fusion"


@pytest.fixture
def project(finished: Finished, tmp_path: Path) -> Project:
    return finished.project.copy(tmp_path / "project", mirrored=False)


@pytest.fixture
def measured(explored: Finished, tmp_path: Path) -> Project:
    return explored.project.copy(tmp_path / "project", mirrored=False)


def plan(project: Project, *words: str) -> dict[str, Any]:
    """The plan by stage, with the total and the rest under names that no stage has."""
    found = json.loads(project.isoscope("plan", *words, "--json").out)
    return {one["stage"]: one for one in found.pop("stages")} | found


def stages(found: dict[str, Any]) -> list[str]:
    return [name for name in found if name not in ("total", "cluster", "past", "measured")]


def cells(stage: dict[str, Any]) -> dict[tuple[str, int], str]:
    return {(one["arm"], one["seed"]): one["state"] for one in stage["cells"]}


def contents(project: Project) -> dict[str, str]:
    """The sha256 of every file but those in which DVC and git remember what they have hashed."""
    own = (".git/", ".dvc/tmp/")
    found = {path.relative_to(project.folder).as_posix(): path for path in project.folder.rglob("*") if path.is_file()}
    return {
        name: sha256(path) for name, path in found.items() if not name.startswith(own) and "__pycache__" not in name
    }


def test_of_a_finished_project_nothing_is_to_do(project: Project) -> None:
    assert project.isoscope("plan").out == "nothing to do\n"
    assert stages(plan(project)) == []


def test_another_seed_is_planned_then_done_and_compared(project: Project) -> None:
    project.lay("studies: {fusion: {seeds: [0, 5]}}")
    before = contents(project)
    shown, found = project.isoscope("plan").out, plan(project)
    assert contents(project) == before, "a plan changes no file"
    expected = {(arm, seed): "found" if seed == 0 else "run" for arm in ("additive", "conv2d") for seed in (0, 5)}
    assert cells(found[TRAIN]) == expected
    assert found[TRAIN]["unknown"] == 0
    assert 0 < found["total"]["low"] <= found["total"]["seconds"] <= found["total"]["high"]
    assert found["total"]["size"] > 0
    assert (found["cluster"]["runs"], found["cluster"]["cpus"], found["cluster"]["gpus"]) == (2, 1, 0)
    assert [line.split()[0] for line in shown.splitlines()[1 : len(stages(found)) + 1]] == stages(found)
    assert "about " in shown
    assert "on a cluster: 2 runs" in shown

    known = project.records().keys()
    assert project.isoscope("repro").ran == stages(found)
    new = {record.run.seed for digest, record in project.records().items() if digest not in known and record.run.arm}
    assert new == {5}
    for record in (one for one in project.records().values() if one.run.stage == "train" and one.run.seed == 5):
        estimate = record.attempts[0].estimate
        assert estimate["low"] <= estimate["seconds"] <= estimate["high"]
    after = plan(project)
    assert stages(after) == []
    assert after["past"]["runs"] in (2, 3), "of the first runs, the second may have begun after the first"


def test_another_learning_rate_trains_every_cell(project: Project) -> None:
    project.lay("training: {learning_rate: 1e-2}")
    found = plan(project)
    assert set(cells(found[TRAIN]).values()) == {"run"}
    assert found[TRAIN]["why"] == ["training.learning_rate 0.03 → 0.01"]
    assert "after train@fusion" in found["analyse@fusion"]["why"]
    assert stages(plan(project, "train")) == stages(plan(project, TRAIN)) == [TRAIN]
    assert stages(plan(project, "fusion")) == [name for name in stages(found) if name.endswith("@fusion")]


def test_a_cell_of_two_studies_is_planned_for_either(project: Project) -> None:
    """Of both, the first has it."""
    project.lay("training: {learning_rate: 1e-2}")
    study = parse_yaml(project.text("params.yaml"), "params.yaml")["studies"]["fusion"]
    project.lay(json.dumps({"studies": {"twice": study}}))
    both = plan(project)
    assert {*cells(both[TRAIN]).values()} == {"run"}
    assert {*cells(both["train@twice"]).values()} == {"found"}
    for study in ("fusion", "twice"):
        assert {*cells(plan(project, study)[f"train@{study}"]).values()} == {"run"}


def test_a_function_is_named_and_a_library_is_no_reason(project: Project, tmp_path: Path) -> None:
    optim, rising = "src/isoscope/training/optim.py", "    rising = math.floor(warmup * total)\n"
    project.edit(optim, rising, rising.replace("\n", " + 0\n"))
    (reason,) = plan(project)[TRAIN]["why"]
    assert reason == "schedule_factor in training/optim.py: changed (not committed)"
    project.edit(optim, rising.replace("\n", " + 0\n"), rising)
    made = tmp_path / "accelerate-99.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: accelerate\nVersion: 99.0\n")
    path = os.pathsep.join([str(project.sources), str(tmp_path)])
    assert json.loads(project.cold.isoscope("plan", "--json", PYTHONPATH=path).out)["stages"] == []


def test_a_row_of_data_is_named(project: Project) -> None:
    text = project.text("texts/order.jsonl")
    (project.folder / "texts/order.jsonl").write_text(text.replace('"class": 0', '"class": 1', 1), "utf-8")
    found = plan(project)
    assert any("texts" in one for one in found["prepare@tiny"]["why"])
    project.isoscope("prepare", "tiny")
    reasons = plan(project)[TRAIN]["why"]
    assert all(one.startswith("data/processed/tiny/") for one in reasons if not one.startswith("after"))
    assert any(" row" in one for one in reasons)
    (project.folder / "texts/order.jsonl").write_text(text, "utf-8")
    project.isoscope("prepare", "tiny")


def test_another_title_runs_the_report_alone(project: Project) -> None:
    project.lay("report: {title: Other}")
    assert stages(plan(project)) == ["report"]


def test_a_device_is_no_change_of_a_run(project: Project) -> None:
    """DVC runs the stage, which finds its cells; nothing after it runs."""
    project.lay("training: {threads: 2}")
    found = plan(project)
    assert stages(found) == [TRAIN]
    assert set(cells(found[TRAIN]).values()) == {"found"}
    assert found[TRAIN]["estimate"]["seconds"] == 0


def test_a_stopped_run_is_resumed_and_a_removed_output_found_in_the_cache(project: Project) -> None:
    project.lay("studies: {fusion: {seeds: [0, 5]}}")
    shutil.rmtree(project.folder / "models")
    for output in (project.folder / ".isoscope/runs").glob("*/output"):
        shutil.rmtree(output)
    here = Paths(project.folder, project.folder)
    run = training_job(Setup(Configuration(project.folder), here, "train"), "fusion", "conv2d", 5).run
    fresh = next(one for one in plan(project)[TRAIN]["cells"] if (one["arm"], one["seed"]) == ("conv2d", 5))
    (run.states / "step-00000030").mkdir(parents=True)
    found = plan(project)[TRAIN]
    assert cells(found) == {
        ("additive", 0): "found",
        ("additive", 5): "run",
        ("conv2d", 0): "found",
        ("conv2d", 5): "resume",
    }
    resumed = next(one for one in found["cells"] if one["state"] == "resume")
    assert resumed["estimate"]["seconds"] < fresh["estimate"]["seconds"]
    assert not list((project.folder / ".isoscope/runs").glob("*/output")), "nothing is restored"
    assert not (project.folder / "models").exists()


def test_a_model_that_is_not_recorded_is_said_and_measured(project: Project) -> None:
    changed = ("-S", "model.encoder.hidden_size=64", "-S", "model.encoder.intermediate_size=512")
    found = plan(project, *changed)
    assert found[TRAIN]["unknown"] == 2
    assert "model.encoder.hidden_size 16 → 64" in found[TRAIN]["why"]
    said = project.isoscope("plan", *changed).out
    assert "isoscope plan --measure" in said
    known = project.records().keys()
    timed = plan(project, *changed, "--measure")[TRAIN]
    assert timed["unknown"] == 0
    assert [one["estimate"]["runs"] for one in timed["cells"]] == [0, 0]
    assert timed["estimate"]["seconds"] > 0
    assert project.records().keys() == known


def test_bad_input_is_one_line(project: Project) -> None:
    assert "plan fusio: no study, comparison or stage" in project.refused("plan", "fusio")
    (project.folder / "dvc.yaml").write_text("stages: 1\n")
    assert project.refused("plan").startswith("isoscope: dvc status: ")


def test_a_task_that_is_not_prepared_is_said(project: Project) -> None:
    shutil.rmtree(project.folder / "data/processed/tiny")
    found = plan(project)
    assert {one["note"].partition(";")[0] for one in found[TRAIN]["cells"]} == {
        "data/processed/tiny: task 'tiny' is not prepared"
    }
    assert "run: isoscope prepare tiny" in project.isoscope("plan").out


def test_states_are_found_until_what_they_read_changes(measured: Project) -> None:
    measured.lay("measures: {subsample: 20}")
    found = plan(measured, "states")["states@fusion"]
    assert set(cells(found).values()) == {"run"}
    assert found["unknown"] == 0
    measured.lay("measures: {subsample: 16, threads: 2}")
    assert set(cells(plan(measured, "states")["states@fusion"]).values()) == {"found"}
    measured.lay("training: {learning_rate: 1e-2}")
    assert set(cells(plan(measured, "states")["states@fusion"]).values()) == {"run"}
