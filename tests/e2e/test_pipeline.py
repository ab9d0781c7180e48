"""`isoscope repro` runs everything at first, nothing if nothing changed, and only dependent stages after a change.

The tests of this file are one story, told in order.
"""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from isoscope.platform.runs.machine_load import PREFIX
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.stored import locked_runs
from pipeline_project import ARMS, Finished, Project, written

PREPARE, TRAIN, ANALYSE, REPORT = STAGES = (
    "prepare@tiny",
    "train@fusion",
    "analyse@fusion",
    "report",
)
HEAVY = ("torch", "transformers", "mlflow", "sklearn", "matplotlib", "pandas", "pyarrow")


def attempts(project: Project) -> dict[str, int]:
    return {digest: len(record.attempts) for digest, record in project.records().items()}


def test_the_first_repro_runs_every_stage_once_and_every_output_is_complete(
    project: Project, finished: Finished
) -> None:
    assert sorted(finished.first.ran) == sorted(project.lock()) == sorted(STAGES)
    assert "Traceback" not in finished.first.err
    manifest = json.loads((project.folder / "data/processed/tiny/manifest.json").read_text())
    assert manifest["licence"] == "CC0-1.0"
    for arm in ARMS:
        output = project.output(arm)
        (checkpoint,) = (output / "checkpoints").iterdir()
        files = {path.name for path in checkpoint.iterdir()}
        assert files >= {"model.safetensors", "config.json", "tokenizer.json", "README.md"}
        assert not any(path.suffix in (".bin", ".pt", ".pkl") for path in output.rglob("*"))
        points = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
        epochs = {point["epoch"] for point in points if point["name"] == "validation/accuracy"}
        assert epochs == {0, 1, 2, 3, 4}
        predicted = pq.read_table(output / "predictions.parquet")
        assert predicted.num_rows == manifest["splits"]["test"]["rows"] == 40
        right = predicted["label"].to_numpy() == predicted["predicted"].to_numpy()
        (test,) = [point["value"] for point in points if point["name"] == "test/accuracy"]
        assert test == pytest.approx(right.mean())
    assert {path.name for path in (project.folder / "reports/parts/fusion").iterdir()} >= {
        "comparison.json",
        "config.yaml",
        "metrics.json",
        "curves.csv",
        "confusion.csv",
        "figures",
        "tables",
    }
    page = (project.folder / "reports/index.html").read_text("utf-8")
    assert all(project.digest(arm)[:12] in page for arm in ARMS)


def test_a_second_repro_runs_nothing_and_starts_nothing_heavy(project: Project, tmp_path: Path) -> None:
    seen = tmp_path / "imported"
    for name in HEAVY:
        (tmp_path / f"{name}.py").write_text(f"open({str(seen)!r}, 'a').write({name!r})\nraise ImportError({name!r})\n")
    poisoned = f"{tmp_path}:{project.sources}"
    again = project.cold.isoscope("repro", PYTHONPATH=poisoned)
    assert (again.ran, again.restored) == ([], [])
    assert not seen.exists(), seen.read_text()
    assert project.git("status", "--porcelain") == ""
    # The trap does catch: this command needs pyarrow.
    project.cold.isoscope("train", "fusion", "additive", "--seed", "0", code=1, PYTHONPATH=poisoned)
    assert seen.exists()


def test_mlflow_holds_each_run_once(project: Project) -> None:
    runs = project.tracked()
    assert sorted((run.name, run.status) for run in runs.values()) == [
        ("additive seed 0", "FINISHED"),
        ("analyse fusion", "FINISHED"),
        ("conv2d seed 0", "FINISHED"),
    ]
    commit = project.git("rev-parse", "HEAD~1").strip()
    for arm in ARMS:
        run = runs[project.digest(arm)]
        names = {"study": "fusion", "arm": arm, "seed": "0", "task": "tiny", "axis.fusion": arm}
        assert names.items() <= run.params.items()
        assert run.params["training.learning_rate"] == "0.03"
        assert run.params["model.fusion.kind"] == arm
        assert ("model.fusion.kernel_size" in run.params) == (arm == "conv2d"), "no dead parameter"
        assert run.tags["isoscope.stage"] == "train"
        assert (run.tags["mlflow.source.git.commit"], run.tags["mlflow.source.git.dirty"]) == (commit, "false")
        found = written(project.output(arm))
        more = {name for name in run.points.keys() - found.keys() if not name.startswith(PREFIX)}  # if it took long
        assert more == {"speed/tokens_per_second"}
        assert {name: run.points[name] for name in found} == found
        splits = {f"tiny/{split}" for split in ("train", "validation", "test")}
        assert run.datasets.keys() == splits


def test_mlflow_names_bytes_as_dvc_does(project: Project) -> None:
    """A run has dvc.lock's md5 of an output and of a dependency; a checkpoint's is that of its folder without card."""
    runs, lock = project.tracked(mirrored=False), project.lock()
    (data,) = [out["md5"] for out in lock[PREPARE]["outs"]]
    (out,) = lock[TRAIN]["outs"]
    of_runs = locked_runs(project.folder, project.folder / ".dvc/cache")
    for arm in ARMS:
        run = runs[project.digest(arm)]
        assert run.tags["isoscope.output"] == f"{out['path']}/{arm}/seed-0"
        assert run.tags["isoscope.output.md5"] in of_runs
        assert run.tags["isoscope.dep.data/processed/tiny"] == data
        (model,) = run.models
        assert model["dvc_path"].startswith(f"{out['path']}/{arm}/seed-0/checkpoints/epoch-")
        assert model["md5"] == dvc_md5(project.folder / model["dvc_path"], leave_out={"README.md"})
        listing = json.loads(cached(project, out["md5"]).read_text())
        weights = model["dvc_path"].removeprefix(f"{out['path']}/") + "/model.safetensors"
        (stored,) = [entry["md5"] for entry in listing if entry["relpath"] == weights]
        assert dvc_md5(project.folder / model["dvc_path"] / "model.safetensors") == stored


def cached(project: Project, md5: str) -> Path:
    return project.folder / ".dvc/cache/files/md5" / md5[:2] / md5[2:]


def test_an_overlay_retrains_its_cells_only(project: Project) -> None:
    before, additive, conv2d = attempts(project), project.digest("additive"), project.digest("conv2d")
    project.edit("variants/fusion/conv2d.yaml", "kernel_size:\n    - 3\n", "kernel_size:\n    - 1\n")
    assert project.isoscope("repro").ran == [TRAIN, ANALYSE, REPORT]
    fresh = project.digest("conv2d")
    assert fresh not in before
    assert attempts(project)[additive] == before[additive]
    run = project.tracked()[fresh]
    assert (run.status, run.params["model.fusion.kernel_size"]) == ("FINISHED", "[1, 3]")
    assert run.tags["mlflow.source.git.dirty"] == "true"
    assert "kernel_size:\n-    - 3\n+    - 1\n     - 3\n" in run.tags["mlflow.source.git.diff"]
    assert "dvc.lock" not in run.tags["mlflow.source.git.diff"]
    # Undone, it comes back from the run cache.
    project.git("checkout", "--", "variants")
    undone = project.isoscope("repro")
    assert undone.ran == []
    assert undone.restored == [TRAIN, ANALYSE, REPORT]
    assert project.digest("conv2d") == conv2d
    assert project.git("status", "--porcelain") == ""


@pytest.mark.parametrize(
    "file, old, new",
    [
        ("params.yaml", "title: Order of two words", "title: Two words in order"),
        ("src/isoscope/platform/report/page.css", "@media print", "/* a note */ @media print"),
    ],
)
def test_the_report_alone_follows_from_its_own_settings(project: Project, file: str, old: str, new: str) -> None:
    before = attempts(project)
    project.edit(file, old, new)
    assert project.isoscope("repro").ran == [REPORT]
    assert attempts(project) == before
    page = (project.folder / "reports/index.html").read_text("utf-8")
    assert new.removeprefix("title: ") in page


def test_a_comment_in_the_training_code_trains_nothing(project: Project) -> None:
    """DVC reruns the stages, since a source has changed; each finds its digest finished and gives the same bytes."""
    before, lock = attempts(project), project.lock()
    path = project.folder / "src/isoscope/training/optim.py"
    path.write_text(path.read_text("utf-8") + "# A remark.\n", "utf-8")
    assert project.isoscope("repro").ran == [TRAIN]
    assert attempts(project) == before
    assert [project.lock()[stage]["outs"] for stage in STAGES] == [lock[stage]["outs"] for stage in STAGES]


def test_another_study_on_another_task_is_an_entry_of_params_yaml(project: Project) -> None:
    pipeline, before = project.text("dvc.yaml"), attempts(project)
    task = project.text("variants/task/tiny.yaml").replace("held_out: 0.2", "held_out: 0.3")
    (project.folder / "variants/task/other.yaml").write_text(task, "utf-8")
    project.edit("params.yaml", "\n- tiny\n", "\n- tiny\n- other\n")
    study = "task: other, settings: [], axes: {fusion: [fft]}, seeds: [3, 4], kind: arms"
    project.edit("params.yaml", "comparisons:", f"  mine: {{{study}}}\ncomparisons:")
    done = project.isoscope("repro")
    # An overlay is another, so the first study looks for its cells, and finds them.
    assert set(done.ran) == {"prepare@other", TRAIN, "train@mine", "analyse@mine", REPORT}
    assert project.text("dvc.yaml") == pipeline
    after = attempts(project)
    assert {digest: after[digest] for digest in before} == before
    trained = [one.run for digest, one in project.records().items() if digest not in before and one.run]
    assert sorted((one.arm, one.seed) for one in trained if one.stage == "train") == [("fft", 3), ("fft", 4)]
    page = (project.folder / "reports/index.html").read_text("utf-8")
    assert all(one.digest[:12] in page for one in trained if one.stage == "train")
