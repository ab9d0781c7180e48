"""Tables of a study of fusions: what the hidden states of its runs hold, side by side, and the phases of training."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.base.kind import TAKEN
from isoscope.platform.config.tree import read_yaml
from isoscope.platform.figures.snapshots import at_last_layer, common
from isoscope.platform.results.paired_comparison import StudyRuns
from isoscope.platform.runs.output_files import CONFIG, METRICS
from isoscope.platform.statistics.differences import differences
from isoscope.states.attention_tables import arm_heads
from isoscope.states.phases import NEEDED, named
from isoscope.states.phases import phases as phases_of
from isoscope.states.shown_metrics import COMPARED, added, paired
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
from isoscope.studies.fusion.embedding_block import leaves_block
from isoscope.studies.fusion.point_clouds import AXES
from isoscope.studies.fusion.remedies import remedies


def _measured(geometry: pd.DataFrame) -> pd.DataFrame:
    """Return rows of the compared metrics of [CLS] and of pairs, and of a plugin's measure all kinds of vectors."""
    own, first = added(geometry), geometry["vectors"] == "first"
    of, shown = (" of " + geometry["vectors"]).where(~first, ""), geometry["metric"].isin(COMPARED)
    return geometry.assign(metric=geometry["metric"] + of)[own | (shown & (first | paired(geometry)))]


def _leaving(table: pd.DataFrame) -> pd.DataFrame:
    return table[leaves_block(table)]


CHOSEN: dict[str, tuple[str, str, str, Callable[[pd.DataFrame], pd.DataFrame]]] = {
    "geometry": ("", "metric", "value", _measured),
    "probing": ("probe: ", "task", "score", lambda rows: rows[rows["vectors"] != "mean"]),
    "cosines": ("tokens' cosine: ", "pairs", "cosine", _leaving),
    "neighbours": ("tokens' neighbours: ", "neighbours", "rate", _leaving),
    "decoding": ("read back: ", "read", "rate", _leaving),
}
"""Table → prefix of its metrics' names, columns of name and value, and the rows that are compared."""


def chosen_metrics(tables: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """Return the metrics that arms are compared by, at each run's chosen epoch: arm, seed, metric, value.

    At the last layer: geometry of [CLS], probe scores, and the measures of plugins. For the embedding block's tokens:
    mean cosine, neighbours and decodability.
    """
    parts = []
    for name, (called, metric, value, chosen) in CHOSEN.items():
        if name in tables and len(table := tables[name]):
            rows = chosen(table)
            rows = rows[rows["best"]]
            rows = at_last_layer(rows) if "layer" in rows else rows
            parts.append(rows[["arm", "seed"]].assign(metric=called + rows[metric], value=rows[value]))
    return pd.concat(parts, ignore_index=True)


Labels = npt.NDArray[np.int64]
FILES = (METRICS,)
PLANES = "planes"
"""The table of coordinates of all sentences; only a few snapshots and layers of it are kept."""
BY_LAYER = ("linear_separability", "a_1", "a_1_centred")
"""Metrics of [CLS] in `layers.csv`, which DVC plots."""


def tables(
    studies: Mapping[str, StudyRuns],
    *,
    phases: Mapping[str, Any],
    confidence: float,
    power: float,
    margin: float,
    **_: Any,
) -> dict[str, Any]:
    """Return the measures of all runs, their comparisons, `layers` for `dvc plots`, and remedies of fft by name.

    `explorer.json`: data of the explorer. `phases.json`: each run's phases of training; `phases`: its thresholds.
    Raises `InputError` if the task has no classes.
    """
    ((name, study),) = studies.items()
    if not (classes := [str(one) for one in study.manifest["labels"]]):
        raise InputError(f"studies.{name}.kind: fusion compares classes, but its task has none; set kind: arms")
    folders = study.stores["measures"]
    measures = read_yaml(next(iter(folders.values())), Path(CONFIG))["params"]["measures"]
    trajectories = {key: Trajectory(folder) for key, folder in study.stores["states"].items()}
    measured = {path.stem for folder in folders.values() for path in folder.glob("*.parquet")}
    found = {one: _together(folders, one) for one in sorted(measured - {PLANES, *TAKEN})}
    labels = next(iter(trajectories.values())).probe["label"].to_numpy()
    by_run = _phases(folders, labels, phases)
    planes, frames = (
        {key: pd.read_parquet(folder / f"{one}.parquet") for key, folder in folders.items()}
        for one in (PLANES, "frames")
    )
    found |= {
        "frames": found["frames"].assign(alignment=measures["alignment"]),
        PLANES: shown_planes(trajectories, planes, classes),
    }
    optional = {
        "map": maps(trajectories, perplexity=measures["perplexity"], seed=measures["seed"], most=measures["map"]),
        "cosine_maps": cosine_maps(trajectories, measures["square"]),
        "arm_distances": arm_distances(found["bars"]) if len(found.get("bars", ())) else (),
        "phases": pd.DataFrame(_by_snapshot(by_run)),
        "kernel_response": kernel_responses(trajectories),
        "arm_heads": arm_heads(trajectories),
    }
    found |= {one: table for one, table in optional.items() if len(table)}
    against = dict.fromkeys(study.arms, next(iter(study.arms)))
    found["differences"] = differences(chosen_metrics(found), against=against, confidence=confidence, power=power)
    about = {"classes": classes, "axis": AXES[measures["alignment"]]}
    return {
        **found,
        "layers": _by_layer(found["geometry"]),
        "explorer.json": explorer(trajectories, planes, frames) | about,
        "phases.json": by_run,
        **remedies(study.arms, confidence=confidence, power=power, margin=margin),
    }


def _together(folders: Mapping[Key, Path], name: str) -> pd.DataFrame:
    """Concatenate the tables `name` of all runs that have it; add columns arm and seed."""
    parts = (
        pd.read_parquet(path).assign(arm=arm, seed=seed)
        for (arm, seed), folder in folders.items()
        if (path := folder / f"{name}.parquet").is_file()
    )
    return pd.concat(parts, ignore_index=True)


def _by_layer(geometry: pd.DataFrame) -> pd.DataFrame:
    """Return the metrics `BY_LAYER` of [CLS]: mean, sd and n over seeds, at `common` updates."""
    rows = geometry[(geometry["vectors"] == "first") & geometry["metric"].isin(BY_LAYER) & geometry["step"].notna()]
    groups = common(rows, "step").groupby(["metric", "arm", "layer", "step"], sort=False)
    found = groups["value"].agg(["mean", "std", "count"])
    return found.reset_index().rename(columns={"std": "sd", "count": "n"})


def _by_snapshot(by_run: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"arm": run["arm"], "seed": run["seed"], "snapshot": snapshot, "phase": phase}
        for run in by_run
        for snapshot, phase in run["phase"].items()
    ]


def _phases(folders: Mapping[Key, Path], labels: Labels, thresholds: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the phases of every run that has the necessary measures; no phases if it has too few snapshots."""
    found = []
    least = thresholds["snapshots"]
    limits = {name: value for name, value in thresholds.items() if name != "snapshots"}
    for (arm, seed), folder in folders.items():
        geometry = pd.read_parquet(folder / "geometry.parquet")
        if not set(NEEDED) <= set(geometry.loc[geometry["vectors"] == "first", "metric"]):
            continue
        table = named(geometry, labels, **limits)
        enough = len(table) >= least
        found.append(
            {
                "arm": arm,
                "seed": seed,
                "snapshots": len(table),
                "needed": least,
                "phases": phases_of(table) if enough else [],
                "phase": dict(zip(table["snapshot"], table["phase"], strict=True)) if enough else {},
            }
        )
    return found
