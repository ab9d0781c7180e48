"""Stage `explore-<study>`: compare the insides of a study's models: tables, figures, phases, the explorer's data."""

import json
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope.base import paths
from isoscope.base.atomic_files import replacing, write_text
from isoscope.base.errors import InputError
from isoscope.base.workers import workers
from isoscope.data.parquet import write_parquet
from isoscope.platform.config.extraction import Measures
from isoscope.platform.config.project import Analysis, Phases, Study
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.figures.csv_text import csv_text
from isoscope.platform.figures.snapshots import common
from isoscope.platform.figures.style import to_png, to_svg
from isoscope.platform.runs.prepared import read_manifest
from isoscope.platform.runs.restored import METRICS
from isoscope.platform.runs.stored import check_published
from isoscope.platform.stages.study_run import check_present, finish, md5s_of, study_run
from isoscope.platform.statistics.differences import differences
from isoscope.states.attention_tables import arm_heads
from isoscope.states.phases import NEEDED, named, phases
from isoscope.states.side_by_side import (
    Key,
    arm_distances,
    cosine_maps,
    explorer,
    kernel_responses,
    maps,
    shown_planes,
)
from isoscope.states.trajectory import Trajectory
from isoscope.studies import fusion
from isoscope.studies.compared_metrics import chosen_figures
from isoscope.studies.fusion.feature_dynamics import AXES
from isoscope.studies.view import Picture, pictures, with_added

Labels = npt.NDArray[np.int64]
PLANES = "planes"
"""The table of coordinates of all sentences; only a few snapshots and layers of it are kept."""
BY_LAYER = ("linear_separability", "a_1", "a_1_centred")


def explore(
    measures: Measures, analysis: Analysis, study: Study, *, name: str, arms: Iterable[str], project: paths.Project
) -> Path:
    """Write `reports/parts/<study>/inside/`: tables (parquet), phases, the explorer's data; and `figures/`.

    Raises `InputError` if a run was not measured, or if the task has no classes.
    """
    names = _classes(study, name, project)
    cells = [(arm, seed) for arm in arms for seed in study.seeds]
    folders = {key: project.folder / paths.measured(name, *key) for key in cells}
    states = {key: project.folder / paths.extracted(name, *key) for key in cells}
    trained = {key: project.folder / paths.trained(name, *key) for key in cells}
    outputs = (*trained.values(), *states.values(), *folders.values())
    check_present(name, {output: [output / "config.yaml"] for output in outputs}, project)
    for output in (*states.values(), *folders.values()):
        check_published(project, output)
    for output in trained.values():
        check_published(project, output, {METRICS})
    read = (*folders.values(), *states.values(), *(folder / METRICS for folder in trained.values()))
    inputs = md5s_of(read, project)
    digests = {
        f"{arm} seed {seed}": str(read_yaml(folder, Path("config.yaml"))["digest"])
        for (arm, seed), folder in folders.items()
    }
    params = {"measures": measures.model_dump(mode="json"), "analysis": analysis.model_dump(mode="json")}
    target, drawn = (project.folder / paths.analysed(name) / part for part in (paths.INSIDE, paths.FIGURES))
    with (
        threadpool_limits(measures.threads),
        workers(measures.processes, key="measures.processes") as spread,
        study_run(
            "explore",
            study.task,
            name,
            project,
            params=params,
            inputs=inputs,
            named=inputs | digests,
            threads=measures.threads,
        ) as (run, stop),
    ):
        trajectories = {key: Trajectory(folder) for key, folder in states.items()}
        measured = {path.stem for folder in folders.values() for path in folder.glob("*.parquet")}
        tables = {one: _together(folders, one) for one in sorted(measured - {PLANES})}
        labels = next(iter(trajectories.values())).probe["label"].to_numpy()
        found = _phases(folders, labels, analysis.phases)
        planes, frames = (
            {key: pd.read_parquet(folder / f"{one}.parquet") for key, folder in folders.items()}
            for one in (PLANES, "frames")
        )
        tables |= {
            "frames": tables["frames"].assign(alignment=measures.alignment),
            PLANES: shown_planes(trajectories, planes, names),
            "map": maps(trajectories, perplexity=measures.perplexity, seed=measures.seed, most=measures.map),
            "cosine_maps": cosine_maps(trajectories, measures.square),
        }
        if "bars" in tables and len(tables["bars"]):
            tables["arm_distances"] = arm_distances(tables["bars"])
        optional = {
            "phases": pd.DataFrame(
                [
                    {"arm": run["arm"], "seed": run["seed"], "snapshot": snapshot, "phase": phase}
                    for run in found
                    for snapshot, phase in run["phase"].items()
                ]
            ),
            "kernel_response": kernel_responses(trajectories),
            "arm_heads": arm_heads(trajectories),
        }
        tables |= {one: table for one, table in optional.items() if len(table)}
        tables["differences"] = differences(
            chosen_figures(tables), confidence=analysis.confidence, power=analysis.power
        )
        data = explorer(trajectories, planes, frames) | {"classes": names, "axis": AXES[measures.alignment]}
        source = {"Source": f"isoscope digest {run.digest}"}
        with replacing(target, "table") as fresh, replacing(drawn, "table") as shown:
            for one, table in tables.items():
                write_parquet(table, fresh / f"{one}.parquet")
            write_text(fresh / "phases.json", json.dumps(found, indent=1) + "\n", "table")
            write_text(fresh / "explorer.json", json.dumps(data, separators=(",", ":")), "table")
            (fresh / "png").mkdir()  # for papers; DVC shows the SVG
            asked = pictures(with_added(fusion.VIEWS), tables)
            anew = partial(stop.check, f"{run.identity.title}: stopped; run the same command to start this stage again")
            for one, svg, png in spread(partial(_drawn, source), asked, anew):
                write_text(shown / f"{one}.svg", svg, "table")
                (fresh / "png" / f"{one}.png").write_bytes(png)
            run.inputs.check()
        write_text(project.folder / paths.analysed(name) / "layers.csv", _by_layer(tables["geometry"]), "table")
        return finish(run, target, sorted(drawn.glob("*.svg")))


def _classes(study: Study, name: str, project: paths.Project) -> list[str]:
    """Return the names of the classes of a study's task."""
    if not (found := read_manifest(project, study.task)["labels"]):
        raise InputError(
            f"studies.{name}.looks: inside compares classes, but task {study.task!r} has none; take inside out of looks"
        )
    return [str(one) for one in found]


def _drawn(source: Mapping[str, str], picture: Picture) -> tuple[str, str, bytes]:
    """Draw a figure; return its name, SVG and PNG."""
    figure = picture.figure()
    return picture.name, to_svg(figure, source), to_png(figure, metadata=source)


def _together(folders: Mapping[Key, Path], name: str) -> pd.DataFrame:
    """Concatenate the tables `name` of all runs that have it; add columns arm and seed."""
    parts = (
        pd.read_parquet(path).assign(arm=arm, seed=seed)
        for (arm, seed), folder in folders.items()
        if (path := folder / f"{name}.parquet").is_file()
    )
    return pd.concat(parts, ignore_index=True)


def _by_layer(geometry: pd.DataFrame) -> str:
    """Return the metrics `BY_LAYER` of [CLS] as CSV for `dvc plots`: mean, sd and n over seeds, at `common` updates."""
    rows = geometry[(geometry["vectors"] == "first") & geometry["figure"].isin(BY_LAYER) & geometry["step"].notna()]
    groups = common(rows, "step").groupby(["figure", "arm", "layer", "step"], sort=False)
    found = groups["value"].agg(["mean", "std", "count"])
    return csv_text(found.reset_index().rename(columns={"std": "sd", "count": "n"}))


def _phases(folders: Mapping[Key, Path], labels: Labels, thresholds: Phases) -> list[dict[str, Any]]:
    """Return the phases of every run that has the necessary measures; no phases if it has too few snapshots."""
    found = []
    for (arm, seed), folder in folders.items():
        geometry = pd.read_parquet(folder / "geometry.parquet")
        if not set(NEEDED) <= set(geometry.loc[geometry["vectors"] == "first", "figure"]):
            continue
        table = named(geometry, labels, **thresholds.model_dump(exclude={"snapshots"}))
        enough = len(table) >= thresholds.snapshots
        found.append(
            {
                "arm": arm,
                "seed": seed,
                "snapshots": len(table),
                "needed": thresholds.snapshots,
                "phases": phases(table) if enough else [],
                "phase": dict(zip(table["snapshot"], table["phase"], strict=True)) if enough else {},
            }
        )
    return found
