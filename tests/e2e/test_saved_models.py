"""A run leaves a plain Hugging Face folder, also with a fusion from a plugin."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from isoscope.states.given_checkpoints import find
from pipeline_project import Finished, Project

COPIED = {"mirrored": False}
# Classifies sentences one at a time with each folder, before and after a plugin is loaded.
CLASSIFY = """
import json, pathlib, sys
import isoscope.models
from isoscope import plugins
from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline
folders, plugin, sentences = json.load(sys.stdin)
def answer(folder):
    try:
        model = AutoModelForSequenceClassification.from_pretrained(folder)
    except Exception as error:
        return str(error)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    found = pipeline("text-classification", folder, top_k=None)(sentences)
    assert found == pipeline("text-classification", model=model, tokenizer=tokenizer, top_k=None)(sentences)
    return [type(model).__name__, model.config.fusion, found]
answers = []
for file in (None, plugin):
    if file: plugins.load(pathlib.Path(file))
    answers.append([answer(folder) for folder in folders])
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def own(project: Project) -> Path:
    """Return the output of a run with a fusion from a plugin, by the commands of docs/plugins.md."""
    before = project.records().keys()
    (commands,) = re.findall(r"```sh\n(cat .*?isoscope train.*?)```", project.text("docs/plugins.md"), re.DOTALL)
    project.run("bash", "-euc", commands)
    (digest,) = project.records().keys() - before
    record = project.records()[digest]
    assert record.status == "FINISHED"
    assert (record.run.params["model.fusion.kind"], record.run.params["model.fusion.scale"]) == ("product", 50.0)
    return project.folder / ".isoscope/runs" / digest / "output"


@pytest.fixture(scope="module")
def answers(project: Project, own: Path) -> tuple[list[Any], list[Any]]:
    """Return the outputs of additive, conv2d and the plugin's fusion, before and after its file is loaded."""
    outputs = [project.output("additive"), project.output("conv2d"), own]
    folders = [str(checkpoint) for output in outputs for checkpoint in (output / "checkpoints").iterdir()]
    sentences = pq.read_table(project.folder / "data/processed/tiny/test.parquet")["sentence"].to_pylist()
    given = json.dumps([folders, str(project.folder / "docs/examples/product.py"), sentences])
    before, after = json.loads(project.run(sys.executable, "-c", CLASSIFY, stdin=given).out)
    return before, after


def check_probabilities(found: list[list[dict[str, Any]]], output: Path) -> None:
    """They are those of the logits that the run wrote down, in batches with padding."""
    table = pq.read_table(output / "predictions.parquet")
    logits = np.stack([table["logit_0"].to_numpy(), table["logit_1"].to_numpy()], axis=1).astype(np.float64)
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    by_label = [{one["label"]: one["score"] for one in row} for row in found]
    assert np.abs(np.array([[row["0"], row["1"]] for row in by_label]) - expected).max() < 1e-5


@pytest.mark.parametrize("place, arm", list(enumerate(["additive", "conv2d"])))
def test_a_checkpoint_works_in_transformers(
    project: Project, answers: tuple[list[Any], list[Any]], place: int, arm: str
) -> None:
    name, fusion, found = answers[0][place]
    assert (name, fusion["kind"]) == ("FusionBertForSequenceClassification", arm)
    check_probabilities(found, project.output(arm))


def test_a_fusion_of_ones_own_works_once_its_file_is_loaded(answers: tuple[list[Any], list[Any]], own: Path) -> None:
    before, after = (one[2] for one in answers)
    assert "product" in before
    assert "plugin" in before
    name, fusion, found = after
    assert (name, fusion) == ("FusionBertForSequenceClassification", {"kind": "product", "scale": 50.0})
    check_probabilities(found, own)


def test_checkpoints_are_named_by_study_arm_and_seed(finished: Finished) -> None:
    outputs = [finished.project.output(arm) for arm in ("additive", "conv2d")]
    folders = [next((output / "checkpoints").iterdir()) for output in outputs]
    assert [one.name for one in find([*map(str, folders)])] == ["fusion/additive/seed-0", "fusion/conv2d/seed-0"]
