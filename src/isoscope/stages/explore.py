"""Stage `explore-<study>`: the arms inside, side by side: tables, figures, stages, the explorer's data."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.figure import Figure
from threadpoolctl import threadpool_limits

from isoscope import paths
from isoscope.analysis.embedding_space import TOKENS, joint_map
from isoscope.analysis.explorer import explorer
from isoscope.analysis.parquet import write_parquet
from isoscope.analysis.stages import ENOUGH, series, stages
from isoscope.analysis.trajectory import Trajectory
from isoscope.config.inspection import Measures
from isoscope.config.project import Study
from isoscope.config.tree import read_yaml
from isoscope.errors import InputError
from isoscope.figures import (
    attention,
    dimensions,
    dynamics,
    embedding_space,
    gradients,
    layers,
    persistence,
    probing,
    spectrum,
    tokens,
    trajectories,
)
from isoscope.figures.style import to_png, to_svg
from isoscope.geometry.contextuality import units
from isoscope.geometry.kernels import frequency_response
from isoscope.geometry.moments import Floats
from isoscope.guard import StoppedError, StopSignal
from isoscope.sealing import replacing, write_text
from isoscope.tracking.provenance import dvc_md5
from isoscope.tracking.run import Identity, Run, tracked

Key = tuple[str, int]
Labels = npt.NDArray[np.int64]
CURVES = ("linear_separability", "a_1_within", "isoscore_unbiased", "effective_rank")
MAPS = {"first": ("avg_sim", "a_1_centred", "linear_separability", "silhouette"), "words": ("avg_sim", "self_sim")}
COLUMNS = 6
"""Snapshots in a picture of feature dynamics."""
BY_LAYER = ("linear_separability", "avg_sim", "a_1_centred")
SQUARE = 120
"""Tokens of a cosine map."""


def explore(measures: Measures, study: Study, *, name: str, arms: Iterable[str], project: paths.Project) -> Path:
    """Write `reports/<study>/inside/`: tables (parquet), stages, the explorer's data, and `figures/` (SVG and PNG).

    Raises `InputError` where a run was not measured.
    """
    cells = [(arm, seed) for arm in arms for seed in study.seeds]
    folders = {key: project.folder / paths.measured(name, *key) for key in cells}
    states = {key: project.folder / paths.extracted(name, *key) for key in cells}
    missing = [
        str(one.relative_to(project.folder))
        for one in (*folders.values(), *states.values())
        if not (one / "config.yaml").is_file()
    ]
    if missing or not cells:
        raise InputError(f"study {name!r}: not measured yet: {', '.join(missing) or 'no seeds'}; run: isoscope repro")
    run = Run(project, _identity(measures, name, study.task, folders, project))
    target, drawn = project.folder / paths.inside(name), project.folder / paths.figures(name)
    with StopSignal() as stop, tracked(run, stop), threadpool_limits(measures.threads):
        run.begin(device="cpu", threads=measures.threads, precision="fp64")
        trajectories = {key: Trajectory(folder) for key, folder in states.items()}
        tables = {
            one: _together(folders, one)
            for one in sorted({path.stem for folder in folders.values() for path in folder.glob("*.parquet")})
        }
        labels = next(iter(trajectories.values())).probe["label"].to_numpy()
        found = _stages(folders, labels, measures.seed)
        names = _classes(project, study.task)
        tables["map"] = _map(trajectories, measures)
        planes = {key: pd.read_parquet(folder / "planes.parquet") for key, folder in folders.items()}
        frames = {key: pd.read_parquet(folder / "frames.parquet") for key, folder in folders.items()}
        data = explorer(trajectories, planes, frames) | {"classes": names}
        with replacing(target, "table") as fresh:
            for one, table in tables.items():
                if one != "planes":
                    write_parquet(table, fresh / f"{one}.parquet")
            write_text(fresh / "stages.json", json.dumps(found, indent=1) + "\n", "table")
            write_text(fresh / "explorer.json", json.dumps(data, separators=(",", ":")), "table")
        write_text(project.folder / paths.analysed(name) / "layers.csv", _by_layer(tables["geometry"]), "table")
        pictures = target / "png"
        source = {"Source": f"isoscope digest {run.digest}"}
        with replacing(drawn, "table") as fresh:
            for one, figure in _figures(tables, trajectories, labels, names, _staged(tables["probing"], found)):
                if stop.received is not None:
                    raise StoppedError(stop.received, f"{run.identity.title}: stopped; the same command begins it anew")
                write_text(fresh / f"{one}.svg", to_svg(figure, source), "table")
                pictures.mkdir(exist_ok=True)  # for papers; DVC shows the SVG
                (pictures / f"{one}.png").write_bytes(to_png(figure, metadata=source))
        for path in sorted(drawn.glob("*.svg")):
            run.record.artifact(path)
        run.finished_as(target, dvc_md5(target))
    return target


def _identity(
    measures: Measures, name: str, task: str, folders: Mapping[Key, Path], project: paths.Project
) -> Identity:
    md5s = {folder.relative_to(project.folder).as_posix(): dvc_md5(folder) for folder in folders.values()}
    digests = {
        f"{arm} seed {seed}": str(read_yaml(folder, Path("config.yaml"))["digest"])
        for (arm, seed), folder in folders.items()
    }
    return Identity(
        stage="explore",
        study=name,
        arm=None,
        seed=None,
        task=task,
        axes={},
        params={"measures": measures.model_dump(mode="json")},
        inputs=md5s,
        input_paths=md5s | digests,
        plugins={},
    )


def _together(folders: Mapping[Key, Path], name: str) -> pd.DataFrame:
    """One kind of table of all runs that have it, with their arm and seed."""
    parts = [
        pd.read_parquet(path).assign(arm=arm, seed=seed)
        for (arm, seed), folder in folders.items()
        if (path := folder / f"{name}.parquet").is_file()
    ]
    return pd.concat(parts, ignore_index=True)


def _by_layer(geometry: pd.DataFrame) -> str:
    """The figures of `BY_LAYER` of [CLS] as text for `dvc plots`: mean and sd over seeds."""
    rows = geometry[(geometry["vectors"] == "first") & geometry["figure"].isin(BY_LAYER) & geometry["step"].notna()]
    found = rows.groupby(["figure", "arm", "layer", "step"], sort=False)["value"].agg(["mean", "std", "count"])
    return found.reset_index().rename(columns={"std": "sd", "count": "n"}).to_csv(index=False, lineterminator="\n")


def _classes(project: paths.Project, task: str) -> list[str]:
    manifest = json.loads((project.folder / paths.processed(task) / "manifest.json").read_text("utf-8"))
    return [str(one) for one in manifest["labels"]]


def _stages(folders: Mapping[Key, Path], labels: Labels, seed: int) -> list[dict[str, Any]]:
    """The stages of every run, and whether it has the snapshots to believe them."""
    found = []
    for (arm, of), folder in folders.items():
        geometry = pd.read_parquet(folder / "geometry.parquet")
        points = len(series(geometry))
        found.append(
            {
                "arm": arm,
                "seed": of,
                "snapshots": points,
                "enough": points >= ENOUGH,
                "stages": [one._asdict() for one in stages(geometry, labels, seed=seed)],
            }
        )
    return found


def _staged(table: pd.DataFrame, found: list[dict[str, Any]]) -> pd.DataFrame:
    """A table with the stage that each snapshot of each run lies in; none for the twin."""
    stage = pd.Series(None, index=table.index, dtype=object)
    for run in found:
        mine = (table["arm"] == run["arm"]) & (table["seed"] == run["seed"])
        for one in run["stages"]:
            stage[mine & table["step"].between(one["step_first"], one["step_last"])] = one["name"]
    return table.assign(stage=stage)


def _one_each(runs: Mapping[Key, Trajectory]) -> dict[str, Trajectory]:
    """The first seed of each arm."""
    return {arm: run for (arm, _), run in reversed(list(runs.items()))}


def _map(runs: Mapping[Key, Trajectory], measures: Measures) -> pd.DataFrame:
    """The joint map of the arms' first seeds, untrained and at the chosen epoch."""
    one = dict(reversed(_one_each(runs).items()))
    most = min(TOKENS, max(3, 1200 // len(one)))
    moments = {
        "first": {arm: run.trained[0] for arm, run in one.items()},
        "chosen": {arm: run.best for arm, run in one.items()},
    }
    return pd.concat(
        [
            joint_map(one, snapshots, perplexity=measures.perplexity, seed=measures.seed, most=most).assign(
                moment=moment
            )
            for moment, snapshots in moments.items()
        ],
        ignore_index=True,
    )


def _figures(
    tables: Mapping[str, pd.DataFrame],
    runs: Mapping[Key, Trajectory],
    labels: Labels,
    names: list[str],
    staged: pd.DataFrame,
) -> Iterator[tuple[str, Figure]]:
    geometry = tables["geometry"]
    for vectors, figures in MAPS.items():
        for figure in figures:
            if ((geometry["vectors"] == vectors) & (geometry["figure"] == figure)).any():
                yield f"layers-{figure}-{vectors}", layers.layer_by_snapshot(geometry, figure, vectors=vectors)
    there = [one for one in CURVES if (geometry["figure"] == one).any()]
    yield "curves", trajectories.geometry_curves(geometry, there)
    one = dict(reversed(_one_each(runs).items()))
    for arm, run in one.items():
        seed = next(seed for other, seed in runs if other == arm)
        points, shown = (
            table[(table["arm"] == arm) & (table["seed"] == seed)] for table in (tables["planes"], tables["frames"])
        )
        yield (
            f"dynamics-{arm}",
            dynamics.feature_dynamics(
                points,
                shown,
                labels,
                arm=arm,
                seed=seed,
                snapshots=_spread(run),
                class_names=names,
                layers=_some(run),
            ),
        )
    for moment, called in (("first", "untrained"), ("chosen", "chosen")):
        points = tables["map"][tables["map"]["moment"] == moment]
        yield f"map-{called}", embedding_space.scatter(points, method="t-SNE")
        yield f"cosines-{called}", tokens.cosine_maps(_cosines(one, first=moment == "first"))
    optional: dict[str, Callable[[pd.DataFrame], Figure]] = {
        "cosines": tokens.cosine_summary,
        "attention": attention.attention_curves,
        "spectrum": spectrum.spectra,
        "kernel": spectrum.kernel,
        "dimensions": dimensions.hidden_dimensions,
        "gradients": gradients.gradient_noise,
        "bars": persistence.persistence_diagrams,
    }
    for table, draw in optional.items():
        if table in tables and len(tables[table]):
            yield table, draw(tables[table])
    if (staged["stage"].notna()).any():
        yield "probing-stages", probing.probing_curves(staged, tables["baselines"])
    for task in ("label", "word position", "word order", "bigram shift", "part of speech"):
        if (tables["probing"]["task"] == task).any():
            vectors = "words" if task.startswith("word") else "treebank" if task == "part of speech" else "first"
            yield (
                f"probing-{task.replace(' ', '_')}",
                probing.probing_curves(tables["probing"], tables["baselines"], task=task, vectors=vectors),
            )
    if "bars" in tables and len(tables["bars"]):
        yield "barcodes", persistence.barcodes(tables["bars"])
    if "attention" in tables:
        yield "heads", attention.attention_heads(tables["attention"])
    if panels := list(_responses(one)):
        yield "kernel-response", spectrum.kernel_response(panels)


def _spread(run: Trajectory) -> list[str]:
    """A few snapshots from the first to the last, the chosen one among them."""
    order = run.trained
    at = set(np.linspace(0, len(order) - 1, min(COLUMNS, len(order))).round().astype(int)) | {order.index(run.best)}
    return [order[place].name for place in sorted(at)]


def _some(run: Trajectory) -> list[int]:
    depth = run.arrays(run.best).shape("first")[0]
    return sorted({int(layer) for layer in np.linspace(0, depth - 1, min(5, depth)).round()})


def _cosines(runs: Mapping[str, Trajectory], *, first: bool) -> list[tuple[str, Floats]]:
    """The same tokens in all arms, after the block's LayerNorm."""
    found = []
    for arm, run in runs.items():
        arrays = run.arrays(run.trained[0] if first else run.best)
        unit = units(arrays.whole("block_normed")[:SQUARE])
        found.append((arm, unit @ unit.T))
    return found


def _responses(runs: Mapping[str, Trajectory]) -> Iterator[tuple[str, Floats]]:
    for arm, run in runs.items():
        for snapshot, called in ((run.trained[0], "untrained"), (run.best, "chosen")):
            arrays = run.arrays(snapshot)
            if "kernel" in arrays.names:
                weights = arrays.whole("kernel")
                sources = ("word", "token type", "position") if len(weights) == 3 else ("word", "position")
                for source, response in zip(sources, frequency_response(weights), strict=True):
                    yield f"{arm}, {called}: {source}", response
