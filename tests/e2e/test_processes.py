"""Several processes on one run, started by a user's launcher: gloo on the CPU, one record, one MLflow run.

If they are stopped or killed, and in the reference run, every process is newly started.
"""

import signal
import sys
from pathlib import Path

import numpy as np
import psutil
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import load_file

from pipeline_project import BINARIES, LAUNCH, TWO, Done, Project, strike, wait_for, written

# 120 sentences in batches of 16 leave one of 8, of 7 one of a single row: one process has none of it.
PLAIN = (
    "-S",
    "model.encoder.dropout=0",
    "-S",
    "model.encoder.attention_dropout=0",
    "-S",
    "training.keep=all",
    "-S",
    "training.learning_rate=3e-3",
)
COPIED = {"without": (".isoscope", "models", "mlflow.db"), "mirrored": False}
UNEVEN = (*PLAIN, "-S", "training.batch_size=7")
FROZEN = ("-S", "training.freeze={after: 0, until: 5, groups: [enc.emb, enc.pos, enc.LayerNorm]}")


def train(arm: str, out: str, *options: str) -> tuple[str, ...]:
    return ("train", "fusion", arm, "--seed", "0", *options, "--out", out)


def two(project: Project, *words: str) -> Done:
    return project.run(str(project.binaries / "accelerate"), *TWO, *words)


def distance(one: Path, other: Path) -> float:
    """Largest difference of two sets of weights, relative to the largest weight of each tensor.

    Key biases are left out: they shift all scores of a query alike, so their gradient is 0 but for rounding, which Adam
    makes as large as any other.
    """
    a, b = load_file(one / "model.safetensors"), load_file(other / "model.safetensors")
    assert a.keys() == b.keys()
    compared = [name for name in a if "key.bias" not in name]
    return max(float(np.abs(a[name] - b[name]).max() / max(np.abs(a[name]).max(), 1e-12)) for name in compared)


def forget(project: Project) -> None:
    """Let the same digest be trained again: elsewhere a run is made once."""
    project.run("rm", "-rf", ".isoscope", "mlflow.db")


@pytest.mark.parametrize("arm, options", [
    ("conv2d", (*UNEVEN, "-S", "training.accumulation=2", *FROZEN)),
    pytest.param("additive", UNEVEN, marks=pytest.mark.exhaustive),
])  # fmt: skip
def test_two_processes_train_as_one(project: Project, arm: str, options: tuple[str, ...]) -> None:
    forget(project)
    project.isoscope(*train(arm, "models/one", *options))
    one_point = written(project.folder / "models/one")
    (alone,) = project.records().values()
    forget(project)
    done = two(Project(project.folder), *train(arm, "models/two", *options))  # mirrored
    assert done.out.count("trained fusion") == 1
    (record,) = project.records().values()
    assert record.status == "FINISHED"
    assert record.author.environment["processes"] == 2
    assert len(record.metrics) == len(alone.metrics)
    first, second = (project.folder / "models" / name / "checkpoints" for name in ("one", "two"))
    assert [path.name for path in sorted(first.iterdir())] == [path.name for path in sorted(second.iterdir())]
    for epoch in (1, 4):
        assert distance(first / f"epoch-{epoch}", second / f"epoch-{epoch}") < 2e-5
    two_points = written(project.folder / "models/two")
    for name, points in one_point.items():
        steps, values = zip(*points, strict=True)
        assert steps == tuple(step for step, _ in two_points[name])
        if name.endswith("/loss"):
            np.testing.assert_allclose(values, [value for _, value in two_points[name]], rtol=1e-4, atol=1e-6)
    tables = [pq.read_table(project.folder / "models" / name / "predictions.parquet") for name in ("one", "two")]
    assert tables[0]["row"] == tables[1]["row"]
    np.testing.assert_allclose(tables[0]["logit_0"], tables[1]["logit_0"], atol=1e-3)
    trained = [one for one in project.tracked().values() if one.tags["isoscope.stage"] == "train"]
    assert [one.status for one in trained] == ["FINISHED"]


LONG = ("-S", "training.epochs=20", "-S", "training.checkpoint_every=3", "-S", "training.learning_rate=1e-3")


@pytest.fixture(scope="module")
def whole(project: Project) -> dict[str, list[tuple[int, float]]]:
    """The points of a run of two processes, with dropout, that nothing disturbed."""
    forget(project)
    two(project, *train("additive", "models/whole", *LONG))
    return written(project.folder / "models/whole")


def test_with_dropout_each_process_draws_its_own_masks(
    project: Project, whole: dict[str, list[tuple[int, float]]]
) -> None:
    forget(project)
    project.isoscope(*train("additive", "models/one", *LONG))
    alone = written(project.folder / "models/one")
    assert whole["validation/loss"][0][1] == pytest.approx(alone["validation/loss"][0][1], rel=1e-5)
    assert whole["train/loss"] != alone["train/loss"]
    # Noise of the same size moves the loss little, and the tenth epochs are near each other.
    assert whole["train/loss"][9][1] == pytest.approx(alone["train/loss"][9][1], abs=0.03)


def test_a_penalty_sees_the_points_of_all_processes(project: Project) -> None:
    """All processes compute the barcodes and gradient of one process, also for an uneven batch."""
    axes = "studies.fusion.axes={fusion: [additive], penalty: [all]}"
    settings = (axes, "variants/penalty/all.yaml:penalty.weight=30.0", "training.epochs=1", "training.log_every=1")
    options = (*UNEVEN, *(word for one in (*settings, "training.accumulation=2") for word in ("-S", one)))
    found = {}
    for name, run in (("one", project.isoscope), ("two", lambda *words: two(project, *words))):
        forget(project)
        run(*train("additive-all", f"models/{name}", *options))
        found[name] = written(project.folder / "models" / name)
    one, both = found["one"], found["two"]
    sizes = [a + b for (_, a), (_, b) in zip(both["step/points/class_0"], both["step/points/class_1"], strict=True)]
    assert set(sizes) == {7.0, 1.0}
    for figure in ("step/loss", "step/penalty", "step/penalty_gradient_norm", "step/gradient_norm"):
        assert [step for step, _ in one[figure]] == [step for step, _ in both[figure]]
        values = ([value for _, value in points[figure][:8]] for points in (one, both))
        np.testing.assert_allclose(*values, rtol=1e-3)


@pytest.mark.parametrize("how", [pytest.param(signal.SIGTERM, marks=pytest.mark.exhaustive), signal.SIGKILL])
def test_stopped_and_started_again_it_is_the_run_that_never_stopped(
    project: Project, whole: dict[str, list[tuple[int, float]]], how: signal.Signals
) -> None:
    forget(project)
    words = train("additive", "models/resumed", *LONG)
    process = project.start(*TWO, *words, program="accelerate")
    wait_for(lambda: project.points() > 60)
    strike(process, how)
    two(project, *words)
    assert written(project.folder / "models/resumed") == whole
    (record,) = project.records().values()
    assert len(record.attempts) == 2


def test_one_process_dead_ends_the_run_in_one_line(project: Project) -> None:
    forget(project)
    words = train("additive", "models/torn", "-S", "training.epochs=200")
    process = project.start(*TWO, *words, program="accelerate")
    wait_for(project.points)
    children = psutil.Process(process.pid).children(recursive=True)
    (assistant,) = [one for one in children if one.environ().get("RANK") == "1"]
    assistant.kill()
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0
    project.isoscope("reconcile")
    (record,) = project.records().values()
    assert record.status in ("FAILED", "KILLED")
    assert errors.count("isoscope: ") == 1
    assert "isoscope/platform/stages" not in errors, "the launcher's own traceback, none of ours"


def test_several_asked_for_and_one_started_is_refused(project: Project) -> None:
    """`accelerate launch --num_processes 2` without --multi_gpu silently starts one process on a CPU."""
    command = (*LAUNCH, "--cpu", "--num_processes", "2", "-m", "isoscope", *train("additive", "models/none"))
    done = project.run(str(BINARIES / "accelerate"), *command, code=1)
    assert "isoscope: accelerate launch started one process although several were requested" in done.err
    assert not (project.folder / "models/none").exists()


def test_other_commands_run_alone(project: Project) -> None:
    done = project.run(sys.executable, "-m", "isoscope", "report", code=2, RANK="0", WORLD_SIZE="2")
    assert "only isoscope train runs on several processes" in done.err


@pytest.mark.parametrize("name, value", [
    ("WORLD_SIZE", "2"), ("ACCELERATE_USE_DEEPSPEED", "true"), ("OMPI_COMM_WORLD_SIZE", "2"),
])  # fmt: skip
def test_a_shell_that_announces_what_no_launcher_started_is_refused(project: Project, name: str, value: str) -> None:
    line = project.refused(*train("additive", "models/none", "-S", "training.device=cpu"), **{name: value})
    assert line.startswith(f"isoscope: {name}={value}")
    assert "unset" in line
    assert not (project.folder / "models/none").exists()
