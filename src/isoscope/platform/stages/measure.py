"""A cell of stage `measure@<study>`: measure the hidden states of a run and write tables."""

from collections.abc import Mapping
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from isoscope import plugins
from isoscope.base import paths
from isoscope.base.errors import InputError
from isoscope.base.processes import StopSignal
from isoscope.base.workers import Spread, workers
from isoscope.data.corpus import texts
from isoscope.data.parquet import write_parquet
from isoscope.platform.config.extraction import Measures
from isoscope.platform.config.project import Study
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.runs.prepared import content_md5, read_manifest
from isoscope.platform.runs.provenance import dvc_md5
from isoscope.platform.runs.run import Identity, Run, carry_out
from isoscope.platform.runs.stored import check_published
from isoscope.states.catalogue import Asked, Tables, analysed, check_enough
from isoscope.states.measures import Cells, frame, places
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory

PARTS = ("baselines", "embedding", "planes", "topology", "learning", "attention", "spectrum", "fusion")
"""Analyses of `inside.catalogue` other than the probes, slowest first."""


class MeasureInputs(NamedTuple):
    """Hidden states with their md5 (the content of a path may change), the task's texts, and the measures."""

    states: Path
    md5: str
    data: Path
    measures: Measures


@lru_cache(maxsize=1)
def _cells(given: MeasureInputs) -> Cells:
    """Return the cells of a run; cached, because they share reference values."""
    one = given.measures
    return Cells(
        Trajectory(given.states), subsample=one.subsample, draws=one.draws, confidence=one.confidence, seed=one.seed
    )


def cell(given: MeasureInputs, place: tuple[Snapshot, str, int]) -> list[dict[str, Any]]:
    """Measure a snapshot's layer in a kind of representation; return rows of `geometry`."""
    return _cells(given).measured(*place, given.measures.names)


def parts_of(run: Trajectory, measures: Measures) -> list[tuple[str, str | None]]:
    """Return the other tables to make as (name, snapshot), slowest first; only `probing` is split by snapshot."""
    steps = [one.name for one in run.trained]
    closely = [run.best.name, steps[0], RANDOM]
    probed = dict.fromkeys([*closely, steps[-1], *steps[:: measures.probes.every]])
    there = {one.name for one in run.snapshots}
    return [*(("probing", name) for name in probed if name in there), *((name, None) for name in PARTS)]


def part(given: MeasureInputs, made: tuple[str, str | None]) -> Tables:
    """Make the tables of a part from `parts_of`."""
    (name, snapshot), one, train = made, given.measures, None
    table = pq.read_table(given.data / "train.parquet") if name == "baselines" else None
    if table is not None and "label" in table.column_names:  # on the same sentences and folds
        train = [" ".join(text) for text in texts(table)], table["label"].to_numpy()
    asked = Asked(
        vectors=("first",),
        seed=one.seed,
        folds=one.probes.folds,
        confidence=one.confidence,
        neighbours=one.neighbours,
        diagram=one.diagram,
        alignment=one.alignment,
        probed=tuple(one.probes.vectors),
        everywhere=("label",),
        snapshots=None if snapshot is None else (snapshot,),
        train=train,
    )
    return analysed(name, Trajectory(given.states), asked)


def measure(
    measures: Measures,
    study: Study,
    *,
    name: str,
    arm: str,
    seed: int,
    project: paths.Project,
    output: Path | None,
    stop: StopSignal,
    find: bool = False,
    processes: int | None = None,
) -> Path | None:
    """Write the tables of a run (parquet), or find them done. Return their folder.

    - `find`: only find them; return None if they are not done.
    - `output`: where to publish them; None publishes nothing.
    - `processes`: replaces `measures.processes`.

    Every value of `geometry` is also a metric of the record, such as `geometry/layer_07/first/avg_sim` at its step.
    Raises `InputError` if the hidden states are missing, `StoppedError` after a signal.
    """
    states = project.folder / paths.extracted(name, arm, seed)
    if not (states / "config.yaml").is_file():
        raise InputError(f"{states}: has no hidden states yet; run: isoscope extract {name} {arm} --seed {seed}")
    check_published(project, states)
    read_manifest(project, study.task)
    data = project.folder / paths.processed(study.task)

    def read() -> dict[str, str]:
        return {"states": dvc_md5(states), "data": content_md5(data)}

    inputs = read()
    extracted = str(read_yaml(states, Path("config.yaml"))["digest"])
    used = [plugins.MEASURES[one] for one in measures.names if one in plugins.MEASURES]
    run = Run(
        project,
        Identity(
            stage="measure",
            study=name,
            arm=arm,
            seed=seed,
            task=study.task,
            axes={},
            params={"measures": measures.model_dump(mode="json")},
            inputs=inputs,
            input_paths={paths.extracted(name, arm, seed).as_posix(): inputs["states"], "extracted by": extracted},
            plugins={one.file.name: plugins.digest(one.file) for one in used},
        ),
        inputs=read,
    )

    def do(finished: bool) -> None:
        if not finished:
            with workers(processes or measures.processes, key="measures.processes") as spread:
                _measure(run, measures, states, data, stop, spread)

    with threadpool_limits(measures.threads):
        return carry_out(
            run,
            None if find else do,
            stop=stop,
            output=output,
            points=lambda done: filter(
                None, map(_point, pd.read_parquet(done / "geometry.parquet").to_dict("records"))
            ),
            source="geometry.parquet",
            facts=lambda _: {"probe": Trajectory(states).facts},
        )


def _measure(run: Run, measures: Measures, states: Path, data: Path, stop: StopSignal, spread: Spread) -> None:
    """Make all tables; record every value of `geometry` as a metric."""
    run.begin(device="cpu", threads=measures.threads, precision="fp64")
    run.work.mkdir(parents=True, exist_ok=True)
    title, trajectory, rows = run.identity.title, Trajectory(states), []
    check_enough(trajectory, folds=measures.probes.folds, neighbours=measures.neighbours)
    given = MeasureInputs(states, run.identity.inputs["states"], data, measures)
    go_on = partial(stop.check, f"{title}: stopped; run the same command to start these tables again")
    where = list(places(trajectory, measures.vectors))
    cells = tqdm(spread(partial(cell, given), where, go_on), f"{title}: measures", len(where), disable=None)
    for found in cells:
        rows += found
        for point in filter(None, map(_point, found)):
            run.record.metric(**point)
    parts = parts_of(trajectory, measures)
    made = tqdm(spread(partial(part, given), parts, go_on), f"{title}: analyses", len(parts), disable=None)
    by_part = dict(zip(parts, made, strict=True))
    probed = [by_part.get(("probing", one.name)) for one in trajectory.snapshots]
    probing = pd.concat([found["probing"] for found in probed if found], ignore_index=True)
    tables = {"geometry": frame(rows), "probing": probing}
    for name in PARTS:
        tables |= by_part[name, None]
    for name, table in tables.items():
        write_parquet(table, run.work / f"{name}.parquet")
        go_on()
    run.complete()


def _point(row: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return a row of the table `geometry` as a metric; None for rows of the twin and rows without a value."""
    if pd.isna(row["step"]) or pd.isna(row["value"]):
        return None
    name = f"geometry/layer_{row['layer']:02d}/{row['vectors']}/{row['figure']}"
    epoch = None if pd.isna(row["epoch"]) else int(row["epoch"])
    return {"name": name, "value": row["value"], "step": int(row["step"]), "epoch": epoch}
