import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from isoscope.base.errors import InputError
from isoscope.platform.config.tree import dump_yaml
from isoscope.platform.mirror import fields as plan
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror, mirror
from isoscope.platform.runs.provenance import Git, dvc_md5
from isoscope.platform.runs.record import Record, read
from isoscope.platform.runs.restored import restored
from tracked_runs import DIGEST, ENVIRONMENT, RUN, shown

PARAMS = {"model": {"fusion": {"kind": "additive", "gate": None}}, "training": {"learning_rate": 2e-5}}


@pytest.fixture
def finished(project: Path) -> tuple[Record, Path]:
    """A run's record, and the output that it published."""
    output = project / "models" / "fusion" / "additive" / "seed-0"
    data = project / "data" / "processed" / "order"
    data.mkdir(parents=True)
    for split in ("train", "validation", "test"):
        (data / f"{split}.parquet").write_bytes(split.encode())
    inputs = {"data/processed/order": dvc_md5(data)}
    flat = {"model.fusion.kind": "additive", "model.fusion.gate": None, "training.learning_rate": 2e-5}
    record = Record(project / ".isoscope" / "records" / f"{DIGEST}.jsonl")
    record.run(digest=DIGEST, **{**RUN, "params": flat, "inputs": inputs})
    record.attempt(git=Git("1" * 40), environment=ENVIRONMENT)
    for split, context in (("train", "training"), ("validation", "validation"), ("test", "test")):
        file = data / f"{split}.parquet"
        path = file.relative_to(project).as_posix()
        record.dataset(f"order/{split}", context=context, digest=dvc_md5(file), path=path)
    points: list[dict[str, Any]] = []
    for epoch in (1, 2):
        folder = output / "checkpoints" / f"epoch-{epoch}"
        folder.mkdir(parents=True)
        (folder / "model.safetensors").write_bytes(bytes([epoch]) * 100)
        of_epoch = [
            {"name": "train/loss", "value": 1 / epoch, "step": 5 * epoch, "epoch": epoch},
            {"name": "validation/accuracy", "value": 1 - 0.5 / epoch, "step": 5 * epoch, "epoch": epoch},
        ]
        if epoch == 2:
            of_epoch.append({"name": "test/accuracy", "value": 0.7, "step": 10, "epoch": 2})
        points += of_epoch
        for point in of_epoch:
            record.metric(point["name"], point["value"], step=point["step"], epoch=epoch)
        record.checkpoint(
            f"epoch-{epoch}",
            epoch=epoch,
            step=5 * epoch,
            path=folder.relative_to(project).as_posix(),
            md5=dvc_md5(folder),
            metrics={point["name"]: point["value"] for point in of_epoch},
        )
    (output / "metrics.jsonl").write_text("".join(json.dumps(point) + "\n" for point in points))
    config = {**{name: RUN[name] for name in ("stage", "study", "arm", "seed", "task", "axes", "code")}}
    (output / "config.yaml").write_text(dump_yaml({**config, "digest": DIGEST, "inputs": inputs, "params": PARAMS}))
    record.artifact(output / "config.yaml")
    record.end("FINISHED", output=output.relative_to(project).as_posix(), output_md5=dvc_md5(output))
    record.close()
    return record, output


def test_what_an_output_holds_is_what_the_record_said(finished: tuple[Record, Path], project: Path) -> None:
    record, output = finished
    original, stand_in = read(record.path), restored(output, root=project, t=1_700_000_000_000)
    assert plan.params(stand_in.run) == plan.params(original.run)
    assert plan.inputs(stand_in).keys() == plan.inputs(original).keys()
    assert [item._replace(t=0) for item in stand_in.datasets] == [item._replace(t=0) for item in original.datasets]
    assert [point._replace(t=0) for point in stand_in.metrics] == [point._replace(t=0) for point in original.metrics]
    assert [item._replace(t=0) for item in stand_in.checkpoints] == [
        item._replace(t=0) for item in original.checkpoints
    ]
    assert stand_in.status == original.status
    lacking = set(plan.tags(original, original.run)) - set(plan.tags(stand_in, stand_in.run))
    assert all(name.startswith(("isoscope.env.", "mlflow.source.git.")) for name in lacking - {"isoscope.attempts"})


def test_a_clone_without_records_shows_the_runs_and_says_that_the_times_are_stand_ins(
    finished: tuple[Record, Path], project: Path
) -> None:
    _, output = finished
    [sent] = mirror(project, records=[restored(output, root=project, t=1_700_000_000_000)])
    assert (sent.error, *(sent.new[kind] for kind in ("metrics", "models", "data sets"))) == (None, 5, 2, 3)
    [run] = shown(connect(None, project), "fusion")
    assert run["start"] == run["end"] == 1_700_000_000_000
    assert run["tags"]["isoscope.timestamps"] == "restored"
    assert run["status"] == "FINISHED"


def test_where_the_records_are_the_outputs_add_nothing(finished: tuple[Record, Path], project: Path) -> None:
    record, output = finished
    server = connect(None, project)
    Mirror(server).send(read(record.path))
    before = shown(server, "fusion")
    Mirror(server).send(restored(output, root=project, t=1))
    assert shown(server, "fusion") == before


def test_data_that_is_not_at_hand_or_not_the_same_is_not_claimed(finished: tuple[Record, Path], project: Path) -> None:
    _, output = finished
    (project / "data" / "processed" / "order" / "train.parquet").write_bytes(b"other")
    assert restored(output, root=project, t=1).datasets == []
    shutil.rmtree(project / "data")
    assert restored(output, root=project, t=1).datasets == []


def test_a_folder_that_is_no_finished_run_is_refused(finished: tuple[Record, Path], project: Path) -> None:
    _, output = finished
    (output / "metrics.jsonl").write_text('{"name": "train/loss"}\n')
    with pytest.raises(InputError, match=r"metrics.jsonl:1: not a metric point"):
        restored(output, root=project, t=1)
    (output / "metrics.jsonl").unlink()
    with pytest.raises(InputError, match="get it with dvc pull"):
        restored(output, root=project, t=1)
    (output / "config.yaml").write_text("study: fusion\n")
    with pytest.raises(InputError, match="digest"):
        restored(output, root=project, t=1)
