"""Records as a run writes them, and everything that MLflow shows of a run, for comparison."""

import json
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from isoscope.platform.runs.provenance import Git
from isoscope.platform.runs.record import Record, read

DIGEST = "5e" * 32
ENVIRONMENT = {"python": "3.11.7", "torch": "2.13.0", "device": "cpu", "threads": 1, "precision": "fp32"}
RUN: dict[str, Any] = {
    "stage": "train",
    "study": "fusion",
    "arm": "additive",
    "seed": 0,
    "task": "order",
    "axes": {"fusion": "additive"},
    "params": {"training.learning_rate": 2e-5, "model.fusion.kind": "additive", "model.fusion.gate": None},
    "inputs": {"data/processed/order": "0" * 32 + ".dir"},
    "code": "c0" * 32,
}


def start(
    root: Path,
    *,
    digest: str = DIGEST,
    git: Git | None = None,
    environment: dict[str, Any] = ENVIRONMENT,
    **fields: Any,
) -> Record:
    """A record opened, with its run and an attempt."""
    record = Record(root / ".isoscope" / "records" / f"{digest}.jsonl")
    record.run(digest=digest, **{**RUN, **fields})
    record.attempt(git=git or Git("1" * 40), environment=environment, parent_run=None)
    return record


def log_epochs(record: Record, epochs: range, *, steps: int = 5) -> None:
    """Training steps and, at the end of each epoch, validation and a kept checkpoint."""
    for epoch in epochs:
        for step in range((epoch - 1) * steps + 1, epoch * steps + 1):
            record.metric("train/loss", 1 / step, step=step)
        figures = {"validation/loss": 2 / epoch, "validation/accuracy": 1 - 0.5 / epoch}
        for name, value in figures.items():
            record.metric(name, value, step=epoch * steps, epoch=epoch)
        record.checkpoint(
            f"epoch-{epoch}",
            epoch=epoch,
            step=epoch * steps,
            path=f"models/fusion/additive/seed-0/checkpoints/epoch-{epoch}",
            md5=f"{epoch:032x}.dir",
            metrics=figures,
        )


def write_record(root: Path, *, digest: str = DIGEST, epochs: int = 2, git: Git | None = None, **fields: Any) -> Path:
    """A finished run with something of every kind."""
    with start(root, digest=digest, git=git, **fields) as record:
        for split, context in (("train", "training"), ("validation", "validation")):
            path = f"data/processed/order/{split}.parquet"
            record.dataset(f"order/{split}", context=context, digest=split[0] * 32, path=path, rows=10)
        log_epochs(record, range(1, epochs + 1))
        config = root / "output" / "config.yaml"
        config.parent.mkdir(exist_ok=True)
        config.write_text("study: fusion\n")
        record.artifact(config)
        record.end("FINISHED", output="models/fusion/additive/seed-0", output_md5="f" * 32 + ".dir")
    return record.path


def shown(server: Any, experiment: str, digest: str = DIGEST) -> list[dict[str, Any]]:
    """Everything MLflow holds of the runs of a digest but the ids that it gives out itself."""
    client = server.client
    present = client.get_experiment_by_name(experiment)
    if present is None:
        return []
    runs = client.search_runs([present.experiment_id], f"tags.`isoscope.digest` = '{digest}'")
    found = []
    for run in runs:
        run_id = run.info.run_id
        models = {
            model.model_id: {
                "name": model.name,
                "status": str(model.status),
                "type": model.model_type,
                "params": model.params,
                "tags": model.tags,
                "metrics": sorted((m.key, m.step, m.timestamp, m.value) for m in model.metrics or []),
            }
            for model in server.models(present.experiment_id, run_id)
        }
        history = {name: client.get_metric_history(run_id, name) for name in sorted(run.data.metrics)}
        found.append(
            {
                "name": run.info.run_name,
                "status": run.info.status,
                "start": run.info.start_time,
                "end": run.info.end_time,
                "params": run.data.params,
                "tags": run.data.tags,
                "metrics": {
                    name: sorted((m.step, m.timestamp, repr(m.value)) for m in points)
                    for name, points in history.items()
                },
                "inputs": sorted(
                    (i.dataset.name, i.dataset.digest, i.dataset.source, i.dataset.profile, *(t.value for t in i.tags))
                    for i in run.inputs.dataset_inputs
                ),
                "outputs": sorted(
                    (o.step, models.get(o.model_id, {"name": "deleted"})["name"]) for o in run.outputs.model_outputs
                ),
                "models": sorted(models.values(), key=lambda model: model["name"]),
                "artifacts": sorted((a.path, a.file_size) for a in client.list_artifacts(run_id)),
            }
        )
    return found


def replayed(record: Path, folder: Path, empty_database: Path) -> list[dict[str, Any]]:
    """Return what MLflow shows of a record that is sent at once to a fresh database on a healthy disk."""
    from isoscope.platform.mirror.mlflow import connect
    from isoscope.platform.mirror.replay import mirror

    folder.mkdir()
    shutil.copyfile(empty_database, folder / "mlflow.db")
    [sent] = mirror(folder, records=[read(record)])
    assert sent.error is None
    return shown(connect(None, folder), "fusion")


def lines(path: Path) -> list[dict[str, Any]]:
    """The lines of a record as strict JSON, which knows no NaN."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    return [json.loads(line, parse_constant=refuse) for line in path.read_text("utf-8").splitlines()]


class Following:
    """Run `follow` in a thread until it is told to stop."""

    def __init__(self, root: Path, uri: str | None = None, **options: Any) -> None:
        self.stop = threading.Event()
        self.unsent: dict[str, int] | None = None
        self.seconds = 0.0

        def work() -> None:
            from isoscope.platform.mirror.follow import follow

            self.unsent = follow(
                root / ".isoscope" / "records", root, uri, until=self.stop.is_set, interval=0.1, **options
            ).unsent

        self.thread = threading.Thread(target=work)
        self.thread.start()

    def end(self) -> dict[str, int] | None:
        began = time.monotonic()
        self.stop.set()
        self.thread.join(600)
        self.seconds = time.monotonic() - began
        return self.unsent


class Struck:
    """A client of MLflow that acts before its request number `at` (from 0), and before each later request."""

    def __init__(self, client: Any, at: int, act: Callable[[], object]) -> None:
        self._client, self._left, self._act = client, at, act

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                self._act()
            return method(*args, **kwargs)

        return call


SEND = """
import sys
from pathlib import Path
from isoscope.platform.mirror.mlflow import connect
from isoscope.platform.mirror.replay import Mirror
from isoscope.platform.runs.record import read
root, uri, *paths = sys.argv[1:]
print("ready", flush=True)
sys.stdin.readline()
server = connect(uri or None, Path(root))
for path in paths: print(Mirror(server).send(read(Path(path))).run_id)
"""
"""Sends records, whose paths it is told after the project's root and MLflow's address."""


def together(code: str, *words: Sequence[object]) -> list[str]:
    """Run code in a process for each of these lists of words, all at once; return what each says after "ready"."""
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    children = [
        subprocess.Popen([sys.executable, "-W", "ignore", "-c", code, *map(str, one)], **pipes) for one in words
    ]
    for child in children:
        assert child.stdout.readline() == "ready\n"
    for child in children:
        child.stdin.write("\n")
        child.stdin.flush()
    said = [child.communicate(timeout=600) for child in children]
    assert [child.returncode for child in children] == [0] * len(children), said
    return [out for out, _ in said]
