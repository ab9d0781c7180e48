"""A decision planted in one direction is found there; all components equal the model; rotations have no effect."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ortho_group
from sklearn.decomposition import PCA
from sklearn.metrics import f1_score

from fusions import FUSIONS, make
from isoscope.data.batches import collate
from isoscope.geometry.moments import Floats
from isoscope.models import FusionBertForSequenceClassification
from isoscope.states import hidden_states as passes
from isoscope.states.sentence_tables import LEADING, predicted_table, rank_table, singular_values
from isoscope.states.trajectory import Trajectory
from probe_material import SNAPSHOTS, chosen, pieces, planted

N, D = 80, 12
LABELS = np.arange(N) % 2


def cloud(axis: int) -> Floats:
    """Variances that fall from axis to axis; the class is the sign along `axis` and leaves no gap to the mean."""
    points = np.random.default_rng(0).standard_normal((N, D)) * 0.5 ** np.arange(D)
    points[:, axis] = (2 * LABELS - 1) * (0.5 + np.abs(points[:, axis]))
    points[:, axis] *= 0.5**axis / points[:, axis].std()
    return points - points.mean(0)


def head(axis: int, turn: Floats | None = None) -> dict[str, Any]:
    """A pooler that returns the axes, and a classifier that reads the sign of one axis."""
    reader = np.zeros((2, D))
    reader[:, axis] = [-1.0, 1.0]
    return {
        "head_pooler": np.eye(D) if turn is None else turn,
        "head_pooler_bias": np.zeros(D),
        "head_classifier": reader,
        "head_classifier_bias": [0.0, 0.0],
    }


def run(folder: Path, first: Any, weights: Any, labels: Any = LABELS) -> Trajectory:
    """The cloud as the last layer of each snapshot, below it a layer in which nothing is to be read."""
    arrays = {"first": np.stack([np.ones_like(first), first]), **weights}
    return planted(folder, {one.name: arrays for one in SNAPSHOTS}, probe={"label": labels})


def accuracies(table: pd.DataFrame, components: str, snapshot: str = "step-5") -> dict[int, float]:
    found = table[(table["snapshot"] == snapshot) & (table["components"] == components)]
    return dict(zip(found["k"], found["accuracy"], strict=True))


@pytest.mark.parametrize("axis", [0, 3])
def test_a_decision_along_a_component_is_kept_with_it_and_lost_without_it(tmp_path: Path, axis: int) -> None:
    table = rank_table(run(tmp_path, cloud(axis), head(axis)))
    right = {("kept", k): k > axis for k in (1, 2, 5, 10)} | {("dropped", k): k <= axis for k in (0, 1, 2, 5, 10)}
    for (components, k), there in (right | {("alone", k): k == axis + 1 for k in (1, 2)}).items():
        accuracy = accuracies(table, components)[k]
        assert accuracy == 1.0 if there else accuracy < 0.75, (components, k)


def test_explained_is_scikit_learns_share_of_variance(tmp_path: Path) -> None:
    points = cloud(0) + 3.0  # a mean is no component
    table = rank_table(run(tmp_path, points, head(0)))
    shares = np.cumsum(PCA().fit(points.astype(np.float32).astype(float)).explained_variance_ratio_)
    found = table[table["snapshot"] == "step-0"]
    alone = found["components"] == "alone"
    expected = [shares[k - 1] if k else 0.0 for k in found["k"][~alone]]
    assert found["explained"][~alone].to_numpy() == pytest.approx(expected, rel=1e-9, abs=1e-15)
    assert found["explained"][alone].to_numpy() == pytest.approx(np.diff(shares[:2], prepend=0.0), rel=1e-9)


def test_a_hidden_space_turned_with_its_pooler_decides_the_same(tmp_path: Path) -> None:
    turn = ortho_group.rvs(D, random_state=np.random.default_rng(1))
    before = rank_table(run(tmp_path / "before", cloud(3), head(3)))
    after = rank_table(run(tmp_path / "after", cloud(3) @ turn, head(3, turn)))
    kept, dropped = (before["components"] == name for name in ("kept", "dropped"))
    clear = (kept & (before["k"] > 3)) | (dropped & (before["k"] < 4))  # elsewhere rounding decides
    assert (after.loc[clear, "accuracy"] == before.loc[clear, "accuracy"]).all()
    assert after["explained"].to_numpy() == pytest.approx(before["explained"].to_numpy(), rel=1e-6, abs=1e-12)
    still = rank_table(run(tmp_path / "still", cloud(3) @ turn, head(3)))
    assert accuracies(still, "dropped")[0] < 0.9


def test_the_whole_model_is_the_model_itself(tmp_path: Path) -> None:
    """Labels equal the model's predictions except for the first five sentences, which gives its accuracy."""
    tokenizer = pieces(tmp_path / "tokenizer")
    probe = chosen(tokenizer)
    model = make(FusionBertForSequenceClassification, FUSIONS["conv2d"], vocab_size=200, max_position_embeddings=40)
    batch = collate(probe.encoded, range(32), pad_id=tokenizer.pad_id)
    with torch.no_grad():
        given = {name: torch.from_numpy(getattr(batch, name)) for name in batch._fields[:3]}
        said = model(**given).logits.argmax(1).numpy()
    assert 0 < said.mean() < 1
    labels = np.where(np.arange(32) < 5, 1 - said, said)
    arrays = passes.hidden_states(model.base_model, probe, pad_id=tokenizer.pad_id, batch_size=8)
    arrays |= passes.head(model)
    made = planted(tmp_path, {one.name: arrays for one in SNAPSHOTS}, probe={"label": labels})
    assert accuracies(rank_table(made), "dropped")[0] == 27 / 32


def test_the_pooler_saturates(tmp_path: Path) -> None:
    """tanh 3 < 1.5 tanh 1.2, though 3 > 1.5 · 1.2."""
    points = np.outer(2 * LABELS - 1, [3.0, 1.2] + [0.0] * (D - 2))
    reader = np.zeros((2, D))
    reader[1, :2] = [-1.0, 1.5]
    table = rank_table(run(tmp_path, points, head(0) | {"head_classifier": reader}))
    assert accuracies(table, "dropped")[0] == 1.0


def test_what_has_nothing_to_decide_or_few_components(tmp_path: Path) -> None:
    for table in (rank_table, predicted_table):
        assert table(run(tmp_path / "labels", cloud(0), head(0), np.full(N, -1))).empty
        assert table(run(tmp_path / "head", cloud(0), {})).empty
    alike = rank_table(run(tmp_path / "one", np.tile(cloud(0)[1], (N, 1)), head(0), np.arange(N) % 4 // 3))
    assert (alike["accuracy"] == 0.25).all()
    assert (alike["explained"] == 0.0).all()
    few = rank_table(run(tmp_path / "few", cloud(0)[:6], head(0), LABELS[:6]))
    assert sorted(set(few["k"])) == [0, 1, 2, 5]


def test_macro_f1_is_scikit_learns_and_a_head_that_says_one_class_has_a_third(tmp_path: Path) -> None:
    """Half of the sentences are of the class that is always said: F1 of 2/3 and 0."""
    said_one = head(0) | {"head_classifier_bias": [0.0, 100.0]}
    made = run(tmp_path / "one", cloud(0), said_one)
    table = rank_table(made)
    assert table["accuracy"].to_numpy() == pytest.approx(0.5)
    assert table["macro_f1"].to_numpy() == pytest.approx(1 / 3)
    shares = predicted_table(made)
    assert shares.groupby("class")["predicted"].unique().map(list).to_dict() == {0: [0.0], 1: [1.0]}
    labels = np.where(np.arange(N) < N // 8, 1 - LABELS, LABELS)
    whole = rank_table(run(tmp_path / "some", cloud(0), head(0), labels))
    expected = f1_score(labels, LABELS, average="macro")
    found = whole[(whole["components"] == "dropped") & (whole["k"] == 0)]["macro_f1"]
    assert found.to_numpy() == pytest.approx(expected)


def test_singular_values_are_numpys_and_turning_the_space_changes_none(tmp_path: Path) -> None:
    points = (cloud(0) + 3.0).astype(np.float32).astype(float)
    table = singular_values(run(tmp_path / "a", points, {}), vectors=("first", "mean"))
    last = table[(table["layer"] == 1) & (table["snapshot"] == "step-5")]
    values = np.linalg.svd(points - points.mean(0), compute_uv=False)
    assert last["value"].to_numpy() == pytest.approx(values / values[0], rel=1e-5)
    assert last["share"].to_numpy() == pytest.approx(values**2 / (values**2).sum(), rel=1e-5)
    assert last["cumulative"].iloc[-1] == pytest.approx(1.0)
    turn = ortho_group.rvs(D, random_state=np.random.default_rng(1))
    turned = singular_values(run(tmp_path / "b", points @ turn, {}), vectors=("first",))
    assert turned["value"].to_numpy() == pytest.approx(table["value"].to_numpy(), abs=1e-6, nan_ok=True)
    wide = np.random.default_rng(0).standard_normal((N, LEADING + 20))
    cut = singular_values(run(tmp_path / "c", wide, {}), vectors=("first",))
    cut = cut[(cut["layer"] == 1) & cut["best"]]
    assert len(cut) == LEADING
    assert cut["cumulative"].iloc[-1] < 1


def test_a_cell_of_one_point_has_no_spectrum(tmp_path: Path) -> None:
    table = singular_values(run(tmp_path, cloud(0), {}), vectors=("first",))
    below = table[table["layer"] == 0]
    assert below["degenerate"].all()
    assert below["value"].isna().all()
    assert len(below) == len(SNAPSHOTS)
    assert singular_values(run(tmp_path / "none", cloud(0), {}), vectors=("mean",)).empty
