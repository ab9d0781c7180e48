"""Weights by layer against numpy; equal bits mean equal bits; the CKA of equal states is 1."""

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from isoscope.base.errors import InputError
from isoscope.states.trajectory import Snapshot, write_arrays, write_snapshots
from isoscope.states.weights_and_states import representations, weights
from isoscope.studies.diff.views import VIEWS
from probe_material import bert

RANDOM = np.random.default_rng(0)


def saved(folder: Path, tensors: dict[str, np.ndarray]) -> Path:
    folder.mkdir()
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_distances_are_those_of_the_parameters_of_a_layer(tmp_path: Path) -> None:
    one = {name: value.numpy() for name, value in bert().state_dict().items()}
    other = {name: value + (0.1 if "layer.1." in name else 0) for name, value in one.items()}
    found = weights(saved(tmp_path / "a", one), saved(tmp_path / "b", other))
    (view,) = (view for view in VIEWS if view.name == "weights")
    table = view.table({"weights": found})[0].set_index("place")
    assert table.index.tolist()[:3] == ["outside the layers", "layer 0", "layer 1"]
    a, b = (
        np.concatenate([t.ravel() for n, t in side.items() if "layer.1." in n]).astype(float) for side in (one, other)
    )
    assert table["distance"]["layer 1"] == pytest.approx(np.linalg.norm(a - b) / np.linalg.norm(a))
    assert table["cosine"]["layer 1"] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b))
    for place in ("outside the layers", "layer 0"):
        assert table["distance"][place] == 0
        assert table["equal"][place] == table["tensors"][place]
    assert table["equal"]["layer 1"] == 0


def test_bits_are_compared_not_values_and_tensors_alone_are_named(tmp_path: Path) -> None:
    one = {"layer.0.query.weight": np.zeros((2, 2), np.float32), "alone": np.ones(1), "shape": np.ones(3)}
    one |= {"nan": np.array([np.nan], np.float32)}
    other = one | {"layer.0.query.weight": np.full((2, 2), -0.0, np.float32), "shape": np.ones((3, 1))}
    del other["alone"]
    found = weights(saved(tmp_path / "a", one), saved(tmp_path / "b", other)).set_index("name")
    assert found["equal"].dropna().to_dict() == {"nan": True, "layer.0.query.weight": False}
    assert found["b"].isna().to_dict() == {name: name == "alone" for name in found.index}
    assert found.loc["shape", ["a", "b"]].tolist() == ["[3]", "[3, 1]"]
    with pytest.raises(InputError, match="no weights"):
        weights(tmp_path / "a", tmp_path)
    (tmp_path / "b/model.safetensors").write_bytes(b"damaged")
    with pytest.raises(InputError, match=r"b/model.safetensors: not readable"):
        weights(tmp_path / "a", tmp_path / "b")


def states(folder: Path, layers: np.ndarray, probe: str = "p") -> Path:
    write_arrays(folder / "states/step-1.safetensors", {"mean": layers.astype(np.float32)}, "key")
    write_snapshots(folder, [Snapshot("step-1", 1, 1, True, "w")], {"sha256": probe})
    return folder


def test_equal_states_have_a_cka_of_one_and_independent_states_have_none(tmp_path: Path) -> None:
    layers = RANDOM.normal(size=(3, 200, 8))
    turned = np.stack(
        [layers[0] @ np.linalg.qr(RANDOM.normal(size=(8, 8)))[0], layers[1], RANDOM.normal(size=(200, 8))]
    )
    one, other = states(tmp_path / "a", layers), states(tmp_path / "b", turned)
    assert representations(one, one)["cka"].tolist() == [1.0, 1.0, 1.0]
    found = representations(one, other)
    assert found[["vectors", "layer", "n"]].to_numpy().tolist() == [["mean", layer, 200] for layer in range(3)]
    assert found["cka"].tolist() == pytest.approx([1, 1, 0], abs=0.05)
    with pytest.raises(InputError, match="different sentences"):
        representations(one, states(tmp_path / "c", layers, probe="q"))


def test_checkpoints_without_a_shared_tensor_are_told_what_each_has(tmp_path: Path) -> None:
    """Another width is the usual case of two checkpoints from elsewhere."""
    one, other = ({"embeddings.word.weight": np.zeros((3, width), np.float32)} for width in (2, 4))
    found = weights(saved(tmp_path / "a", one), saved(tmp_path / "b", other))
    tables = {view.name: view.table({"weights": found})[0] for view in VIEWS if view.needs == ("weights",)}
    assert tables["unshared"][["a", "b"]].to_numpy().tolist() == [["[3, 2]", "[3, 4]"]]
    assert {name: len(table) for name, table in tables.items()} == {"weights": 0, "distances": 0, "unshared": 1}
