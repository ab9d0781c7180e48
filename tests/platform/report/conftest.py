"""One study for all tests of the page, and the results of its hidden-state stages."""

import json
from collections.abc import Callable
from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from matplotlib.figure import Figure

from browser import one_browser  # noqa: F401 - a fixture
from isoscope.platform.figures.pictures import pictures
from isoscope.platform.results.study_tables import StoredTables
from isoscope.studies.arms import views as arms
from isoscope.studies.fusion import views as fusion
from report_material import Material, make, write_figure

Inside = Callable[..., Path]
SHOWN: dict[str, dict[str, list[Any]]] = {
    "attention": {"arm": ["additive", "conv2d"]},
    "bars": {"arm": ["additive"]},
    "geometry": {
        "vectors": ["first", "words", "first"],
        "measure": ["similarity", "similarity", "isoscore"],
        "metric": ["avg_sim", "self_sim", "effective_rank"],
        "layer": [0, 0, 0],
        "degenerate": [True, False, True],
        "arm": ["additive"] * 3,
        "seed": [0, 1, 1],
    },
    "planes": {"arm": ["conv2d-k5", "additive"]},
    "frames": {
        "arm": ["conv2d-k5", "additive"],
        "snapshot": ["step-0", "step-0"],
        "layer": [0, 0],
        "degenerate": [False, True],
    },
    "map": {"moment": ["first", "chosen"]},
    "cosine_maps": {"moment": ["first", "chosen"]},
    "cosines": {"arm": ["additive"]},
    "kernel": {"arm": ["conv2d-k5"]},
    "kernel_response": {"arm": ["conv2d-k5"]},
    "probing": {
        "task": ["bigram shift", "part of speech", "label"],
        "vectors": ["first", "treebank", "first"],
        "arm": ["additive"] * 3,
        "seed": ["0"] * 3,
        "snapshot": ["step-1"] * 3,
        "step": [1] * 3,
        "best": [True] * 3,
        "layer": [0] * 3,
        "metric": ["accuracy"] * 3,
        "score": [0.75] * 3,
        "chance": [0.5] * 3,
    },
    "baselines": {"task": ["label"], "baseline": ["majority class"], "score": [0.5]},
    "phases": {"arm": ["additive"], "seed": ["0"], "snapshot": ["step-1"], "phase": ["Unstructured"]},
}
"""Of each table the columns that choose what is shown and name it."""


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Three arms over three seeds; one run stopped an epoch early."""
    arms = {"additive": 0.93, "conv2d_identity": 0.92, "fft": 0.75}
    return make(tmp_path_factory.mktemp("material"), arms=arms, plugins={"plugins/gated.py": "a" * 64})


@pytest.fixture(scope="session")
def inside(tmp_path_factory: pytest.TempPathFactory, material: Material) -> Inside:
    """Write the folder of `isoscope analyse`, with one-line pictures for the views of its tables."""

    def made(tables: tuple[str, ...] = ("attention",), **changed: Any) -> Path:
        folder = tmp_path_factory.mktemp("explored")
        for name in ("tables", "figures"):
            (folder / name).mkdir()
        (study,) = material.studies
        for picture in pictures(arms.VIEWS, study.by_name):
            write_figure(folder / "figures", picture, Figure(figsize=(2, 2)))
            for name in picture.view.needs:
                study.by_name[name].to_parquet(folder / "tables" / f"{name}.parquet")
        for name in tables:
            pd.DataFrame(SHOWN[name]).to_parquet(folder / "tables" / f"{name}.parquet")
        for length, picture in enumerate(pictures(fusion.VIEWS, StoredTables(folder / "tables")), start=1):
            figure = Figure(figsize=(2, 2))
            figure.subplots().plot(range(length + 1))
            write_figure(folder / "figures", picture, figure)
        (folder / "tables/explorer.json").write_text(json.dumps(explored() | changed), "utf-8")
        named = [("Unstructured", 8, 0, 8), ("Maximum separation", 18, 16, 64)]
        columns = ("name", "snapshots", "step_first", "step_last")
        lines = [dict(zip(columns, one, strict=True)) for one in named]
        phases = [{"arm": "fft", "seed": 0, "snapshots": 26, "needed": 25, "phases": lines, "phase": {}}]
        pq.write_table(pa.Table.from_pylist(differences()), folder / "tables/differences.parquet")
        (folder / "tables/phases.json").write_text(json.dumps(phases), "utf-8")
        return folder

    return made


def explored() -> dict[str, Any]:
    """Four sentences in two arms, two layers and two snapshots; points coincide at the first arm's layer 0."""
    frames = [[-900, 500, 100, 200, 300, -400, 1000, 0], [-100, 50, 10, 20, 30, -40, 100, 0]]
    runs = [
        {
            "arm": arm,
            "seed": 0,
            "layers": [0, 1],
            "steps": [0, 64],
            "best": 1,
            "points": [[[0] * 8, [0] * 8] if one_point else frames, frames],
            "explained": [[None, None] if one_point else [[0.5, 0.25]] * 2, [[0.625, 0.125], [0.75, 0.125]]],
        }
        for arm, one_point in (("additive", True), ("conv2d", False))
    ]
    return {
        "sentences": ["a fine film", "a dull one", "it moved me", "it did not"],
        "labels": [1, 0, 1, 0],
        "classes": ["negative", "positive"],
        "axis": "axis of a plane",
        "runs": runs,
    }


def differences() -> list[dict[str, Any]]:
    """Two metrics of an arm against the first arm; the second metric has too few seeds for an interval."""
    row = {
        "metric": "avg_sim",
        "reference": "additive",
        "arm": "conv2d",
        "n": 3,
        "mean_reference": 0.5,
        "mean": 0.75,
        "difference": 0.25,
        "family": "avg_sim",
        "tests": 1,
        "dropped": 0,
    }
    few = {
        "metric": "effective_rank",
        "family": "effective_rank",
        "tests": 0,
        "n": 2,
        "low": None,
        "high": None,
        "p_holm": None,
        "detectable": nan,
    }
    return [row | {"low": 0.125, "high": 0.375, "p_holm": 0.04, "detectable": 0.2}, row | few]
