"""A run's name, group and columns in MLflow say which parameters differ from its study's settings."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from isoscope.mirror import browsing
from isoscope.mirror.mlflow import connect
from isoscope.mirror.replay import Mirror
from isoscope.mirror.settings import _committed, changed, written
from isoscope.runs.lines import Run
from isoscope.runs.record import read
from tracked_runs import DIGEST, RUN, shown, start, write_record

SETTINGS = """\
studies:
  fusion: {task: order, settings: [small], axes: {fusion: [additive]}, seeds: [0]}
training: {learning_rate: 1e-3, epochs: 8, threads: 1, betas: [0.9, 0.999], budget: null}
model: {fusion: {kind: fft}, encoder: {kind: scratch, layers: 4}}
objective: {kind: translation, beams: 1, tokenize: null}
"""
OVERLAYS = {
    "task/order": "training: {epochs: 3}",
    "settings/small": "training: {learning_rate: 2e-5}\nmodel: {encoder: {layers: 1}}",
    "fusion/additive": "model: {fusion: {kind: additive}}",
}
ARM = {
    "training.learning_rate": 2e-5,
    "training.epochs": 3,
    "training.threads": 1,
    "training.betas": [0.9, 0.999],
    "training.budget": None,
    "model.fusion.kind": "additive",
    "model.encoder.kind": "scratch",
    "model.encoder.layers": 1,
}


@pytest.fixture
def study(project: Path) -> Path:
    """A project with the settings of a study, committed."""
    (project / "params.yaml").write_text(SETTINGS)
    for name, text in OVERLAYS.items():
        overlay = project / "variants" / f"{name}.yaml"
        overlay.parent.mkdir(parents=True, exist_ok=True)
        overlay.write_text(f"{text}\n")
    for words in (("init", "--quiet"), ("add", "params.yaml", "variants"), ("commit", "--quiet", "-m", "settings")):
        subprocess.run(("git", *words), cwd=project, check=True)
    return project


@pytest.mark.parametrize(
    "given, name",
    [
        ({}, ""),
        ({"training.learning_rate": 3e-4}, "learning_rate=0.0003"),
        ({"training.betas": [0.9, 0.98]}, "betas=[0.9, 0.98]"),
        ({"training.budget": 7}, "budget=7"),
        ({"model.fusion.kind": "fft"}, "fusion.kind=fft"),
        ({"training.threads": 8}, ""),  # defines no run
        ({"training.later": 8}, ""),  # the settings do not have it
        ({"objective.tokenize": "zh"}, ""),  # decided by the task
        ({"objective.beams": 5}, "beams=5"),
        ({"training.epochs": 4, "model.encoder.layers": 2}, "epochs=4 layers=2"),
        (
            {"training.epochs": 4, "training.betas": [0, 0], "training.budget": 1, "model.encoder.kind": "run"}
            | {"model.encoder.layers": 2, "training.learning_rate": 1.0},
            "learning_rate=1.0 epochs=4 betas=[0, 0] budget=1 and 2 more",
        ),
    ],
)
def test_the_difference_is_named_as_short_as_it_is_clear(study: Path, given: dict[str, Any], name: str) -> None:
    run = Run(0, DIGEST, **{**RUN, "params": ARM | given})
    assert written(changed(study, run)) == name


@pytest.mark.parametrize(
    "fields",
    [{"stage": "extract"}, {"study": None}, {"study": "other"}, {"axes": {"fusion": "gone"}}, {"axes": {"..": "x"}}],
)
def test_what_has_no_settings_has_no_difference(study: Path, fields: dict[str, Any]) -> None:
    assert changed(study, Run(0, DIGEST, **{**RUN, "params": ARM | {"training.epochs": 4}, **fields})) == {}


def test_a_params_file_that_dvc_has_rewritten_is_no_setting(study: Path) -> None:
    (study / "params.yaml").write_text(SETTINGS.replace("epochs: 8", "epochs: 4"))
    (study / "variants/task/order.yaml").write_text("training: {epochs: 4}\n")
    run = Run(0, DIGEST, **{**RUN, "params": ARM | {"training.epochs": 4}})
    assert changed(study, run) == {"training.epochs": 4}


def test_without_git_the_files_are_the_settings(project: Path) -> None:
    assert changed(project, Run(0, DIGEST, **{**RUN, "params": ARM})) == {}, "no files"
    (project / "params.yaml").write_text("studies: {fusion: {task: order}}\ntraining: {epochs: 1}\n")
    for name in ("task/order", "fusion/additive"):
        (project / f"variants/{name}.yaml").parent.mkdir(parents=True)
        (project / f"variants/{name}.yaml").write_text("{}\n")
    assert written(changed(project, Run(0, DIGEST, **{**RUN, "params": ARM}))) == "epochs=3"


def test_name_group_columns_and_order_follow_and_stay(study: Path) -> None:
    faster = ARM | {"training.learning_rate": 3e-4}
    ends = {"aa" * 32: (ARM, "FINISHED"), "bb" * 32: (faster, "KILLED"), "cc" * 32: (faster, "FAILED")}
    server = connect(None, study)
    for _ in range(2):
        for digest, (params, status) in ends.items():
            with start(study, digest=digest, params=params) as record:
                record.end(status)
            Mirror(server).send(read(record.path))
        # A later commit renames nothing.
        (study / "variants/settings/small.yaml").write_text("training: {learning_rate: 3e-4}\n")
        subprocess.run(("git", "commit", "--quiet", "-a", "-m", "faster", "--allow-empty"), cwd=study, check=True)
        _committed.cache_clear()
        runs = {digest: shown(server, "fusion", digest)[0] for digest in ends}
        names = [run["name"] for run in runs.values()]
        assert names == ["additive seed 0", *2 * ["additive seed 0 learning_rate=0.0003"]]
        tags = [runs[digest]["tags"] for digest in ends]
        assert [one[browsing.CHANGED] for one in tags] == ["nothing", *2 * ["learning_rate=0.0003"]]
        assert [one[browsing.ORDER] for one in tags] == ["1 finished", "3 killed", "3 failed"]
        groups = [one[browsing.ARM_AND_SETTING] for one in tags]
        assert groups[0].startswith("additive, setting ")
        assert groups[1].startswith("additive learning_rate=0.0003, setting ")
        assert groups[1] == groups[2]
        view = server.client.get_experiment(server.experiment("fusion")).tags[browsing.VIEW_TAG]
        assert browsing.columns(view) == ["training.learning_rate"]


def test_a_run_that_an_earlier_version_named_gets_its_name_and_a_persons_name_stays(study: Path) -> None:
    path = write_record(study, params=ARM | {"training.epochs": 4})
    server = connect(None, study)
    run_id = Mirror(server).send(read(path)).run_id or ""
    for before, after in (("additive seed 0", "additive seed 0 epochs=4"), ("slide 3", "slide 3")):
        server.client.delete_tag(run_id, browsing.CHANGED)
        server.client.update_run(run_id, name=before)
        Mirror(connect(None, study)).send(read(path))
        assert shown(server, "fusion")[0]["name"] == after


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"selectedColumns": 3}', '{"selectedColumns": [3]}'])
def test_a_view_that_a_person_has_changed_has_no_columns_of_ours(text: str | None) -> None:
    assert browsing.columns(text) == []
