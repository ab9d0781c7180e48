"""`isoscope evaluate` in a project, where its scores are a run in MLflow, and outside of one."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evaluate_material import OWN
from isoscope.data.checkpoints import tokenizer_of
from isoscope.metrics.matrix_scores import by_item
from isoscope.platform.outputs import read_output
from isoscope.platform.runs.output_files import read_metrics
from isoscope.platform.statistics.paired import two_way_interval
from isoscope.states.given_checkpoints import content_digest
from pipeline_project import Project

pytestmark = pytest.mark.slow

ARM = "models/by-hand/additive"
ROWS = ("--text", "data/processed/tiny/test.parquet", "--labels", "label")


@pytest.fixture(scope="module")
def trained(project: Project) -> Project:
    """The project with three seeds of an arm."""
    for seed in ("0", "1", "2"):
        project.isoscope("train", "fusion", "additive", "--seed", seed, "--out", f"{ARM}/seed-{seed}")
    return project


def logged(folder: Path) -> dict[str, float]:
    """The scores of the test split that the run has logged."""
    return {one["name"]: one["value"] for one in read_metrics(folder) if one["name"].startswith("test/")}


def test_a_run_has_on_its_test_split_the_scores_that_it_has_logged(trained: Project) -> None:
    done = trained.isoscope("evaluate", f"{ARM}/seed-0", *ROWS, "--json", "--out", "scored", "--at-least", "accuracy=0")
    folder = trained.folder / ARM / "seed-0"
    (found,) = json.loads(done.out)["scores"].values()
    assert {f"test/{name}": one["value"] for name, one in found.items()} == pytest.approx(logged(folder), rel=1e-5)
    own, published = (pd.read_parquet(one / "predictions.parquet") for one in (trained.folder / "scored", folder))
    assert own[["row", "label", "predicted"]].equals(published[["row", "label", "predicted"]])
    assert json.loads((trained.folder / "scored/scores.json").read_text())["rows"] == len(own)


def test_the_scores_are_a_run_in_mlflow_that_names_the_model_by_its_digest(trained: Project) -> None:
    output = read_output(trained.folder / ARM / "seed-0")
    runs = [one for one in trained.tracked().values() if one.tags["isoscope.stage"] == "evaluate"]
    (run,) = [one for one in runs if one.params["seed"] == "0"]
    assert output.run.digest in run.tags["reads"].split()
    assert run.tags["isoscope.dep.trained by"] == output.run.digest
    assert run.status == "FINISHED"
    accuracy = logged(output.folder)["test/accuracy"]
    assert run.points["evaluate/accuracy"] == [(0, pytest.approx(accuracy))]
    assert "isoscope evaluate models/by-hand/additive/seed-0" in run.tags["mlflow.note.content"]


def test_an_arm_has_an_interval_over_seeds_and_rows(trained: Project) -> None:
    done = trained.isoscope("evaluate", ARM, *ROWS, "--json", "--at-most", "accuracy=0", code=1)
    folders = [trained.folder / ARM / f"seed-{seed}" for seed in range(3)]
    tables = [pd.read_parquet(one / "predictions.parquet") for one in folders]
    shares = np.array([by_item(one)["accuracy"].shares for one in tables])
    found = json.loads(done.out)
    accuracy = found["scores"][ARM]["accuracy"]
    low, high = two_way_interval(shares, confidence=0.95) or (None, None)
    assert accuracy == pytest.approx({"value": shares.mean(), "low": low, "high": high})
    assert found["missed"][0].startswith("missed: --at-most accuracy=0: models/by-hand/additive has ")


def test_outside_a_project_there_is_no_run(trained: Project, tmp_path: Path) -> None:
    epoch = next((trained.folder / ARM / "seed-0/checkpoints").iterdir())
    shutil.copytree(epoch, tmp_path / "model")
    trained.isoscope("export", str(epoch), str(tmp_path / "given"))
    shutil.copy(trained.folder / "data/processed/tiny/test.parquet", tmp_path)
    rows = ("--text", "test.parquet", "--labels", "label")
    outside = trained.at(tmp_path)
    done = outside.isoscope("evaluate", "model", "given", *rows, "--at-least", "accuracy=1.01", code=1)
    assert "isoscope: no run in MLflow: " in done.err
    assert done.out.startswith("evaluate: 40 rows\nmodel\n  Loss (nats)  ")
    model, given = done.out.partition("model\n")[2].partition("missed")[0].split("given\n")
    assert model == given, "an export predicts what its checkpoint does"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["given", "model", "test.parquet"]


def test_a_run_that_was_trained_on_single_texts_is_given_no_pairs(trained: Project) -> None:
    said = trained.refused("evaluate", f"{ARM}/seed-0", *ROWS, "--other-column", "sentence")
    assert "was trained on sentence; give no --other-column" in said


def test_a_metric_of_training_is_logged_at_each_evaluation_and_its_code_belongs_to_the_run(trained: Project) -> None:
    file = trained.folder / "plugins/own.py"
    file.write_text(OWN)
    asked = ("train", "fusion", "additive", "--seed", "0", "-S", "training.metrics=[plugins/own.py]")
    trained.isoscope(*asked, "--out", "models/by-hand/own")
    output = trained.folder / "models/by-hand/own"
    points = read_metrics(output)
    right, accuracy = (
        [one["value"] for one in points if one["name"] == f"validation/{name}"] for name in ("right", "accuracy")
    )
    assert len(accuracy) == 5
    assert right == pytest.approx([value * 40 for value in accuracy])
    assert logged(output)["test/right"] == pytest.approx(logged(output)["test/accuracy"] * 40)
    assert logged(output)["test/own_accuracy"] == logged(output)["test/accuracy"]
    before = read_output(output).run
    assert before.plugins.keys() == {"plugins/own.py"}
    file.write_text(f"# a comment\n{OWN}")
    trained.isoscope(*asked, "--out", "models/by-hand/own")
    assert read_output(output).run.digest == before.digest
    file.write_text(OWN.replace("right /", "2 * right /"))
    trained.isoscope(*asked, "--out", "models/by-hand/own")
    assert read_output(output).run.digest != before.digest
    assert logged(output)["test/own_accuracy"] == 2 * logged(output)["test/accuracy"]
    for metric, said in (
        ("own.py", "outside plugins/"),
        ("plugins/absent.py", "training.metrics: plugins/absent.py: no such file"),
        ("no-such-metric", "training.metrics no-such-metric: cannot be had from the hub"),
    ):
        assert said in trained.refused(*asked[:-1], f"training.metrics=[{metric}]")


def test_a_snapshot_reads_the_tokenizer_of_its_run(trained: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot of the chosen epoch has the weights of the run's checkpoint."""
    run = "models/by-hand/kept/seed-0"
    kept = ("-S", "training.snapshots.epochs=true")
    trained.isoscope("train", "fusion", "additive", "--seed", "0", *kept, "--out", run)
    found = read_metrics(trained.folder / run)
    (epoch,) = [one["value"] for one in found if one["name"] == "training/best_epoch"]
    (step,) = [one["step"] for one in found if one["name"] == "validation/loss" and one["epoch"] == epoch]
    snapshot = f"{run}/snapshots/step-{step}"
    done = trained.isoscope("evaluate", snapshot, run, *ROWS, "--json")
    one, other = json.loads(done.out)["scores"].values()
    assert one == other
    trained.isoscope("export", snapshot, "given")
    assert (trained.folder / "given/tokenizer_config.json").is_file()
    shutil.copytree(trained.folder / "given", trained.folder / run / "snapshots/own")
    assert tokenizer_of(trained.folder / run / "snapshots/own").name == "own"
    monkeypatch.chdir(trained.folder / run / "snapshots")
    kept, read = tokenizer_of(Path(f"step-{step}")), content_digest(Path(f"step-{step}"))
    assert kept == trained.folder / run / f"checkpoints/epoch-{epoch:.0f}"
    (kept / "model.safetensors").unlink()
    assert content_digest(Path(f"step-{step}")) == read, "of the checkpoint its tokenizer alone is read"
    (kept / "vocab.txt").write_text("[PAD]\n", "utf-8")
    assert content_digest(Path(f"step-{step}")) != read
