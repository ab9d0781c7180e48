"""Stage `measure-<study>@<arm>`: tables of what is seen in the hidden states of an arm's runs."""

from collections.abc import Collection, Iterator
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from isoscope import paths, plugins
from isoscope.analysis.catalogue import Asked, analysed
from isoscope.analysis.dynamics import feature_dynamics
from isoscope.analysis.enough import check_enough
from isoscope.analysis.geometry import Cells, frame, places
from isoscope.analysis.learning import learning_table
from isoscope.analysis.parquet import write_parquet
from isoscope.analysis.probing import baselines_table, probing_table
from isoscope.analysis.trajectory import RANDOM, Trajectory
from isoscope.config.inspection import Measures
from isoscope.config.project import Study
from isoscope.config.tree import read_yaml
from isoscope.corpora.corpus import texts
from isoscope.errors import InputError
from isoscope.guard import StoppedError, StopSignal
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.run import Identity, Run, tracked


def measure(
    measures: Measures,
    study: Study,
    *,
    name: str,
    arm: str,
    seeds: Collection[int],
    project: paths.Project,
    publish: bool,
) -> list[Path]:
    """Write the tables of an arm's runs (parquet), or find them done; returns a folder for each.

    Every figure is also a metric of the record, `geometry/layer_07/first/avg_sim` at its step. Raises `InputError`
    where the hidden states are missing, `StoppedError` after a signal.
    """
    return [_of_run(measures, name, arm, seed, study.task, project, publish) for seed in seeds]


def _of_run(
    measures: Measures, study: str, arm: str, seed: int, task: str, project: paths.Project, publish: bool
) -> Path:
    states = project.folder / paths.extracted(study, arm, seed)
    if not (states / "config.yaml").is_file():
        raise InputError(f"{states}: no hidden states yet; run: isoscope extract {study} {arm} --seed {seed}")
    data = project.folder / paths.processed(task)
    run = Run(project, _identity(measures, study, arm, seed, task, states, data))
    with StopSignal() as stop, tracked(run, stop):
        if not run.finished:
            run.begin(device="cpu", threads=measures.threads, precision="fp64")
            run.work.mkdir(parents=True, exist_ok=True)
            trajectory = Trajectory(states)
            check_enough(trajectory, folds=measures.probes.folds, neighbours=measures.neighbours)
            with threadpool_limits(measures.threads):
                for name, table in _tables(trajectory, measures, run, stop, data):
                    write_parquet(table, run.work / f"{name}.parquet")
                    _go_on(stop, run.identity.title)
            run.complete()
        if not publish:
            return run.output
        output = project.folder / paths.measured(study, arm, seed)
        run.finished_as(output, run.publish(output, probe=Trajectory(states).facts))
    return output


def _identity(measures: Measures, study: str, arm: str, seed: int, task: str, states: Path, data: Path) -> Identity:
    md5 = dvc_md5(states)
    used = [plugins.MEASURES[name] for name in measures.names if name in plugins.MEASURES]
    extracted = str(read_yaml(states, Path("config.yaml"))["digest"])
    return Identity(
        stage="measure",
        study=study,
        arm=arm,
        seed=seed,
        task=task,
        axes={},
        params={"measures": measures.model_dump(mode="json")},
        inputs={"states": md5, "data": dvc_md5(data)},
        input_paths={paths.extracted(study, arm, seed).as_posix(): md5, "extracted by": extracted},
        plugins={one.file.name: plugins.digest(one.file) for one in used},
    )


def _go_on(stop: StopSignal, title: str) -> None:
    if stop.received is not None:
        raise StoppedError(stop.received, f"{title}: stopped; the same command begins these tables anew")


def _probes(
    run: Trajectory, measures: Measures, data: Path, title: str, stop: StopSignal
) -> Iterator[tuple[str, pd.DataFrame]]:
    """What a linear reader finds, and what needs no encoder, on the same sentences and folds."""
    trained = [one.name for one in run.trained]
    probed = {*trained[:: measures.probes.every], run.best.name, trained[0], trained[-1], RANDOM}
    seed, folds = measures.seed, measures.probes.folds
    shown = tqdm([one.name for one in run.snapshots if one.name in probed], desc=f"{title}: probes", disable=None)
    parts = []
    for name in shown:
        _go_on(stop, title)
        vectors = measures.probes.vectors
        parts.append(
            probing_table(run, vectors=vectors, everywhere=("label",), snapshots=[name], seed=seed, folds=folds)
        )
    yield "probing", pd.concat(parts, ignore_index=True)
    learning = learning_table(run, vectors=measures.probes.vectors, seed=seed, folds=folds)
    if len(learning):
        yield "learning", learning
    train = pq.read_table(data / "train.parquet")
    joined = [" ".join(text) for text in texts(train)]
    yield "baselines", baselines_table(run, joined, train["label"].to_numpy(), seed=seed, folds=folds)


def _tables(
    run: Trajectory, measures: Measures, tracked_run: Run, stop: StopSignal, data: Path
) -> Iterator[tuple[str, pd.DataFrame]]:
    title = tracked_run.identity.title
    cells = Cells(
        run,
        subsample=measures.subsample,
        draws=measures.draws,
        confidence=measures.confidence,
        seed=measures.seed,
    )
    rows = []
    for snapshot, vectors, layer in tqdm(list(places(run, measures.vectors)), desc=f"{title}: measures", disable=None):
        _go_on(stop, title)
        found = cells.measured(snapshot, vectors, layer, measures.names)
        rows += found
        if snapshot.step is not None:
            for row in found:
                if row["value"] == row["value"]:
                    name = f"geometry/layer_{layer:02d}/{vectors}/{row['figure']}"
                    tracked_run.record.metric(name, row["value"], step=snapshot.step, epoch=snapshot.epoch)
    yield "geometry", frame(rows)
    asked = Asked(
        vectors=("first",),
        seed=measures.seed,
        folds=measures.probes.folds,
        confidence=measures.confidence,
        neighbours=measures.neighbours,
        diagram=measures.diagram,
    )
    if "first" in run.arrays(run.best).vectors:
        points, frames = feature_dynamics(run, measures.alignment)
        yield "planes", points
        yield "frames", frames
        yield from analysed("topology", run, asked).items()
    yield from _probes(run, measures, data, title, stop)
    for name in ("attention", "embedding", "spectrum", "fusion"):
        yield from analysed(name, run, asked).items()
