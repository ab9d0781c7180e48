"""The explorer's data: each sentence at its position in the plane, to three digits, as plain values."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.inside.explorer import LETTERS, MOST, explorer
from isoscope.inside.planes_table import feature_dynamics
from isoscope.inside.trajectory import Trajectory
from probe_material import SNAPSHOTS, planted, write_run

Key = tuple[str, int]


def run(folder: Path, n: int = 30, *, seed: int = 0, probe: dict[str, Any] | None = None) -> Trajectory:
    """Two layers; the points of the lower layer coincide until the last snapshot."""
    random = np.random.default_rng(seed)
    clouds = {one.name: random.standard_normal((2, n, 6)) for one in SNAPSHOTS}
    for name in ("step-0", "step-5"):
        clouds[name][0] = 1.0
    known = probe or {"text": [f"sentence {row}" for row in range(n)], "label": np.arange(n) % 3}
    return planted(folder, {name: {"first": cloud} for name, cloud in clouds.items()}, probe=known)


def explored(runs: dict[Key, Trajectory]) -> tuple[dict[str, Any], dict[Key, pd.DataFrame], dict[Key, pd.DataFrame]]:
    found = {key: feature_dynamics(one, "procrustes") for key, one in runs.items()}
    planes, frames = ({key: tables[place] for key, tables in found.items()} for place in (0, 1))
    return explorer(runs, planes, frames), planes, frames


def test_every_sentence_stands_where_its_plane_has_it(tmp_path: Path) -> None:
    keys = [("additive", 0), ("additive", 1), ("fft", 0)]
    runs = {key: run(tmp_path / f"{key}", seed=place) for place, key in enumerate(keys)}
    data, planes, _ = explored(runs)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert data["sentences"] == [f"sentence {row}" for row in range(30)]
    assert data["labels"] == [row % 3 for row in range(30)]
    assert [(one["arm"], one["seed"]) for one in data["runs"]] == keys
    for key, one in zip(keys, data["runs"], strict=True):
        assert (one["layers"], one["steps"], one["best"]) == ([0, 1], [0, 5, 9], 1)
        table = planes[key]
        for layer in one["layers"]:
            found = np.array(one["points"][layer])
            assert found.shape == (3, 2 * 30)
            rows = table[table["layer"] == layer]
            for number, name in enumerate(("step-0", "step-5", "step-9")):
                xy = rows.loc[rows["snapshot"] == name, ["pc1", "pc2"]].to_numpy()
                scale = np.abs(xy).max() / 1000
                if one["explained"][layer][number] is None:  # what is left of one point is rounding
                    assert not found[number].any()
                    continue
                np.testing.assert_allclose(found[number].reshape(-1, 2) * scale, xy, atol=0.51 * scale)
                assert np.abs(found[number]).max() == 1000


def test_a_frame_of_one_point_explains_nothing(tmp_path: Path) -> None:
    data, _, frames = explored({("additive", 0): run(tmp_path)})
    (one,) = data["runs"]
    assert one["explained"][0][:2] == [None, None]
    assert set(one["points"][0][0]) == {0}
    shown = frames["additive", 0].set_index(["layer", "snapshot"])
    for layer, place, name in ((0, 2, "step-9"), (1, 0, "step-0"), (1, 1, "step-5")):
        expected = shown.loc[(layer, name), ["explained_1", "explained_2"]].astype(float)
        assert one["explained"][layer][place] == pytest.approx(expected.tolist(), abs=5.1e-4)
        assert 0 < sum(one["explained"][layer][place]) < 1


def test_a_layer_of_one_point_throughout_stands_still(tmp_path: Path) -> None:
    clouds = {one.name: {"first": np.ones((1, 9, 4))} for one in SNAPSHOTS}
    data, _, _ = explored({("a", 0): planted(tmp_path, clouds, probe={"text": ["x"] * 9, "label": [0] * 9})})
    (one,) = data["runs"]
    assert one["points"] == [[[0] * 18] * 3]
    assert one["explained"] == [[None] * 3]


def test_of_many_sentences_some_are_shown_from_first_to_last(tmp_path: Path) -> None:
    """Their labels, texts and places are of the same rows."""
    n = 2 * MOST + 51
    known = {"text": [f"sentence {row}" for row in range(n)], "label": np.arange(n)}
    data, planes, _ = explored({("additive", 0): run(tmp_path, n, probe=known)})
    kept = np.array(data["labels"])
    assert (len(kept), kept[0], kept[-1]) == (MOST, 0, n - 1)
    assert set(np.diff(kept)) <= {2, 3}
    assert data["sentences"] == [f"sentence {row}" for row in kept]
    table = planes["additive", 0]
    rows = table[(table["layer"] == 1) & (table["snapshot"] == "step-9")][["pc1", "pc2"]].to_numpy()[kept]
    found = np.array(data["runs"][0]["points"][1][2]).reshape(-1, 2)
    assert np.corrcoef(found.ravel(), rows.ravel())[0, 1] > 0.99999


def test_long_sentences_are_cut_and_pairs_joined(tmp_path: Path) -> None:
    pairs = {"text1": ["x" * 200, *["one"] * 29], "text2": ["other"] * 30, "label": [-1] * 30}
    data, _, _ = explored({("additive", 0): run(tmp_path, probe=pairs)})
    assert data["sentences"] == ["x" * LETTERS, *["one / other"] * 29]


def test_models_of_equal_weights_give_equal_data(tmp_path: Path) -> None:
    runs = {("additive", seed): write_run(tmp_path / f"{seed}") for seed in (0, 1)}
    data, _, _ = explored(runs)
    first, second = data["runs"]
    assert {name: value for name, value in first.items() if name != "seed"} == {
        name: value for name, value in second.items() if name != "seed"
    }
    assert first["best"] == 2
    assert first["steps"] == [1, 2, 4]
    assert first["explained"][0] == [None] * 3  # [CLS] after an additive block
    assert None not in first["explained"][1]
