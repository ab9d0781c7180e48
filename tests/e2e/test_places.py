"""What a project gives away: no path of the machine, tables as files, and plain Hugging Face folders."""

import getpass
import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import isoscope
from pipeline_project import ARMS, Finished, Project
from training_runs import files

PUBLISHED = ("data", "models", "reports")
TRAIN = ("train", "fusion", "conv2d", "--seed", "0")


@pytest.fixture(scope="module")
def elsewhere(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Project:
    """The same project in a folder of another name and depth, without its outputs."""
    folder = tmp_path_factory.mktemp("moved") / "some one's projects" / "another-name"
    folder.parent.mkdir()
    return finished.project.copy(folder, without=(".isoscope", *PUBLISHED, "mlflow.db", "dvc.lock"), mirrored=False)


def named(folder: Path, project: Project) -> list[str]:
    """The files below a folder that hold the project's place, the user's home, or the host's name."""
    words = {str(project.folder), project.folder.parent.name, str(Path.home()), f"/home/{getpass.getuser()}"}
    host = socket.gethostname()
    words |= {host} if len(host) > 5 else set()
    found = re.compile(b"|".join(re.escape(word.encode()) for word in words if len(word) > 4))
    return [name for name, data in files(folder).items() if found.search(data)]


@pytest.mark.parametrize("top", PUBLISHED)
def test_a_finished_project_names_no_place(finished: Finished, top: str) -> None:
    assert files(finished.project.folder / top)
    assert named(finished.project.folder / top, finished.project) == []


def test_data_and_runs_of_two_folders_are_the_same_bytes(finished: Finished, elsewhere: Project) -> None:
    elsewhere.isoscope("prepare", "tiny")
    elsewhere.isoscope(*TRAIN)
    for part in ("data/processed/tiny", "models/fusion/conv2d/seed-0"):
        assert files(elsewhere.folder / part) == files(finished.project.folder / part)
    done = elsewhere.isoscope("train", "fusion", "additive", "--seed", "0", "-S", "training.epochs=1")
    assert "additive seed 0 as another experiment (-S, --plugin or --seed): .isoscope/runs/" in done.out
    assert not elsewhere.output("additive").exists(), "other settings leave the pipeline's place alone"


def test_pages_and_exports_of_two_folders_are_the_same_bytes(
    finished: Finished, elsewhere: Project, tmp_path: Path
) -> None:
    here = finished.project.copy(tmp_path / "here", without=(".isoscope", "mlflow.db"), mirrored=False)
    checkpoint = sorted((here.folder / "models/fusion/conv2d/seed-0/checkpoints").iterdir())[0].relative_to(here.folder)
    quick = ("--analysis", "measures", "--measure", "anisotropy", "--sentences", "40", "--draws", "3")
    for project in (here, elsewhere):
        project.isoscope("export", str(checkpoint), "exported")
        project.isoscope("geometry", str(checkpoint), "--text", "texts/order.jsonl", "--out", "page", *quick)
    for out in ("exported", "page"):
        assert files(here.folder / out) == files(elsewhere.folder / out)
        assert named(here.folder / out, here) == []


def test_files_are_the_tables_of_the_notebook_and_the_metrics_of_the_runs(finished: Finished, tmp_path: Path) -> None:
    project, to = finished.project, tmp_path / "page/own"
    said = json.loads(project.isoscope("tables", "fusion", "--to", str(to), "--json").out)
    study = isoscope.load("fusion", project=project.folder)
    names = {*(f"{name}.csv" for name in study.tables), "runs.csv", "predictions.parquet"}
    assert {path.name for path in to.iterdir()} == names == {Path(file).name for file in said["files"]}
    bands = study.table("bands")
    stored = pd.read_csv(to / "bands.csv")
    assert stored["mean"].tolist() == bands["mean"].tolist(), "all digits"
    runs = pd.read_csv(to / "runs.csv", dtype={"digest": str})
    manifest = json.loads((project.folder / "data/processed/tiny/manifest.json").read_text("utf-8"))
    known = {(name, f"test/{metric}"): value for name, of in manifest["baselines"].items()
             for metric, value in of["test"].items() if metric != "n"}  # fmt: skip
    of_baselines = runs[runs["seed"].isna()]
    assert of_baselines.set_index(["arm", "metric"])["value"].to_dict() == known
    assert known
    runs = runs.dropna(subset="seed")
    assert runs["arm"].unique().tolist() == [*ARMS]
    logged = [json.loads(line) for line in (project.output("conv2d") / "metrics.jsonl").read_text().splitlines()]
    expected = {one["value"] for one in logged if one["name"] == "test/accuracy"}
    assert {*runs.query("arm == 'conv2d' and metric == 'test/accuracy'")["value"]} == expected
    assert runs["metric"].value_counts()["training/seconds"] == len(ARMS)
    worked = {one["name"]: one["worked"] for one in json.loads(project.isoscope("ls", "fusion", "--json").out)["runs"]}
    assert runs.query("arm == 'conv2d' and metric == 'training/seconds'")["value"].item() in worked.values()
    assert set(runs["digest"]) == {project.digest(arm)[:12] for arm in ARMS}
    predictions = pd.read_parquet(to / "predictions.parquet")
    assert {(predictions["conv2d/0"] == predictions["label"]).mean()} == expected


def test_an_unknown_name_is_one_line(finished: Finished, tmp_path: Path) -> None:
    assert "did you mean 'fusion'" in finished.project.refused("tables", "fusio", "--to", str(tmp_path / "x"))
    assert not (tmp_path / "x").exists()


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
