"""`isoscope why` names what was changed, and nothing else.

The tests of this file are one story, told in order: each changes one thing and puts it back.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from page_blocks import Page
from pipeline_project import ARMS, Project

OPTIM = "src/isoscope/training/optim.py"
RISING = "    rising = math.floor(warmup * total)\n"
RATE, OTHER_RATE = "  learning_rate: 0.03\n", "  learning_rate: 0.02\n"
OTHER = "    rising = math.floor(warmup * total) + 0\n"


def why(project: Project, *words: str, **environment: str) -> Any:
    return json.loads(project.isoscope("why", *words, "--json", **environment).out)


def named(found: Any) -> list[set[tuple[str, str]]]:
    """Kind and name of what differs, of each run."""
    return [{(one["kind"], one["name"]) for one in run["differences"]} for run in found["runs"]]


def test_of_an_unchanged_project_nothing_would_run(project: Project) -> None:
    found = why(project, "fusion")
    assert [run["state"] for run in found["runs"]] == ["finished"] * len(ARMS)
    assert named(found) == [set()] * len(ARMS)
    assert not [one for run in found["runs"] for one in run["beside"]]
    assert set(found["stages"]) == {"prepare@tiny", "train@fusion", "analyse@fusion"}
    assert not any(found["stages"].values())
    for command in ("prepare", "train", "analyse"):
        assert {one for one in found["stages"] if one.startswith(command)} == {*why(project, command)["stages"]}
    said = project.isoscope("why", "fusion").out.splitlines()
    assert said[:3] == [
        "fusion:",
        "  additive seed 0, conv2d seed 0: finished",
        "  every run is found: train takes seconds",
    ]
    assert {line.rpartition(": ")[2] for line in said[3:]} == {"up to date"}


def test_a_parameter_is_named_with_both_values(project: Project) -> None:
    project.edit("params.yaml", RATE, OTHER_RATE)
    found = why(project, "fusion")
    assert named(found) == [{("parameter", "training.learning_rate")}] * len(ARMS)
    assert found["stages"]["train@fusion"] == ["training.learning_rate 0.03 → 0.02"]
    assert not found["stages"]["prepare@tiny"]
    assert not found["stages"]["analyse@fusion"]
    assert why(project, "train@fusion", "conv2d", "--seed", "0")["runs"] == found["runs"][1:]
    project.edit("params.yaml", OTHER_RATE, RATE)
    as_option = why(project, "fusion", "-S", "training.learning_rate=.02")
    assert [run["differences"] for run in as_option["runs"]] == [run["differences"] for run in found["runs"]]


def test_a_study_of_another_task_is_compared_with_its_runs(project: Project) -> None:
    """`fusion additive seed 0` is finished: of the task that the study had."""
    text = project.text("variants/task/tiny.yaml").replace("held_out: 0.2", "held_out: 0.3")
    other = project.folder / "variants/task/other.yaml"
    other.write_text(text, "utf-8")
    before = project.text("params.yaml")
    project.lay("tasks: [tiny, other]")
    project.isoscope("prepare", "other")
    (run,) = why(project, "fusion", "additive", "--seed", "0", "-S", "studies.fusion.task=other")["runs"]
    (project.folder / "params.yaml").write_text(before, "utf-8")
    other.unlink()
    assert run["last"] is not None
    assert {one["kind"] for one in run["differences"]} == {"data"}


def test_a_row_of_data_is_shown(project: Project) -> None:
    file = project.folder / "texts/order.jsonl"
    before = file.read_text("utf-8")
    first, rest = before.split("\n", 1)
    file.write_text(first.replace('"class": 0', '"class": 1') + "\n" + rest, "utf-8")
    assert any("texts" in line for line in why(project, "prepare@tiny")["stages"]["prepare@tiny"])
    project.isoscope("prepare", "tiny")
    found = why(project, "fusion", "additive")
    (run,) = found["runs"]
    rows = [one for one in run["differences"] if one["name"].endswith(".parquet")]
    assert {one["kind"] for one in run["differences"]} == {"data"}
    assert rows, "the splits are drawn by class, so the row may have changed places with another"
    assert all(" row" in one["text"] for one in rows)
    assert "ash before gold" in " ".join(one["text"] for one in rows)
    file.write_text(before, "utf-8")
    project.isoscope("prepare", "tiny")
    assert why(project, "fusion", "additive")["runs"][0]["state"] == "finished"


def test_a_function_is_named_with_the_commit_that_changed_it(project: Project) -> None:
    project.edit(OPTIM, RISING, "    # A comment changes nothing.\n" + RISING)
    assert why(project, "fusion", "additive")["runs"][0]["state"] == "finished"
    project.edit(OPTIM, "    # A comment changes nothing.\n" + RISING, OTHER)
    name = "training/optim.py:schedule_factor"
    assert named(why(project, "fusion")) == [{("code", name)}] * len(ARMS)
    said = project.isoscope("why", "fusion").out
    assert "code: schedule_factor in training/optim.py: changed (not committed)" in said
    assert "isoscope accept fusion" in said
    project.commit("Add nothing to the steps of the rise")
    text = why(project, "fusion", "additive")["runs"][0]["differences"][0]["text"]
    assert text.endswith(" Add nothing to the steps of the rise)")
    kept = project.folder / ".isoscope/records/code"
    kept.rename(kept.with_name("elsewhere"))
    assert named(why(project, "fusion")) == [{("code", name)}] * len(ARMS), "known from the commit of the run"
    kept.with_name("elsewhere").rename(kept)
    project.edit(OPTIM, OTHER, RISING)


def test_a_version_of_a_library_is_no_reason_and_is_said(project: Project, tmp_path: Path) -> None:
    made = tmp_path / "accelerate-99.0.dist-info"
    made.mkdir()
    (made / "METADATA").write_text("Metadata-Version: 2.1\nName: accelerate\nVersion: 99.0\n")
    path = os.pathsep.join([str(project.sources), str(tmp_path)])
    (run,) = why(project.cold, "fusion", "additive", PYTHONPATH=path)["runs"]
    assert run["state"] == "finished"
    assert [one["name"] for one in run["beside"]] == ["accelerate"]
    assert run["beside"][0]["new"] == "99.0"


@pytest.mark.parametrize("words, said", [(("fusoin",), "known: fusion"), (("report", "additive"), "not a study")])
def test_a_wrong_name_is_refused(project: Project, words: tuple[str, ...], said: str) -> None:
    assert said in project.refused("why", *words) or "did you mean" in project.refused("why", *words)


def test_the_page_shows_what_the_commands_print(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project.folder)
    assert Page("docs/why.md", project).run() == 5
