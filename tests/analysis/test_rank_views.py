"""A decision planted in one direction is found in it; the whole model is the model's own; rotations change nothing."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import ortho_group
from sklearn.decomposition import PCA

from fusions import FUSIONS, make
from isoscope.analysis import hidden_states as passes
from isoscope.analysis.rank_views import rank_table
from isoscope.analysis.trajectory import Trajectory
from isoscope.corpora.batches import collate
from isoscope.geometry.moments import Floats
from isoscope.models import FusionBertForSequenceClassification
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
    """A pooler that hands on the axes, and a classifier that reads the sign of one."""
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


def test_a_decision_along_the_leading_component_lies_in_it(tmp_path: Path) -> None:
    table = rank_table(run(tmp_path, cloud(0), head(0)))
    assert accuracies(table, "kept") == {1: 1.0, 2: 1.0, 5: 1.0, 10: 1.0}
    dropped = accuracies(table, "dropped")
    assert dropped.pop(0) == 1.0
    assert max(dropped.values()) < 0.75  # what is left there is rounding
    assert table["snapshot"].unique().tolist() == ["step-0", "step-5", "step-9"]
    assert set(table["n"]) == {N}


def test_a_decision_along_the_fourth_component_is_lost_with_it(tmp_path: Path) -> None:
    table = rank_table(run(tmp_path, cloud(3), head(3)))
    kept, dropped = accuracies(table, "kept"), accuracies(table, "dropped")
    assert kept[5] == kept[10] == dropped[0] == dropped[1] == dropped[2] == 1.0
    assert max(kept[1], kept[2], dropped[5], dropped[10]) < 0.75


def test_explained_is_scikit_learns_share_of_variance(tmp_path: Path) -> None:
    points = cloud(0) + 3.0  # a mean is no component
    table = rank_table(run(tmp_path, points, head(0)))
    shares = np.cumsum(PCA().fit(points.astype(np.float32).astype(float)).explained_variance_ratio_)
    found = table[table["snapshot"] == "step-0"]
    expected = [shares[k - 1] if k else 0.0 for k in found["k"]]
    assert found["explained"].to_numpy() == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_a_hidden_space_turned_with_its_pooler_decides_the_same(tmp_path: Path) -> None:
    turn = ortho_group.rvs(D, random_state=np.random.default_rng(1))
    before = rank_table(run(tmp_path / "before", cloud(3), head(3)))
    after = rank_table(run(tmp_path / "after", cloud(3) @ turn, head(3, turn)))
    clear = np.where(before["components"] == "kept", before["k"] > 3, before["k"] < 4)  # elsewhere rounding decides
    assert (after.loc[clear, "accuracy"] == before.loc[clear, "accuracy"]).all()
    assert after["explained"].to_numpy() == pytest.approx(before["explained"].to_numpy(), rel=1e-6, abs=1e-12)
    still = rank_table(run(tmp_path / "still", cloud(3) @ turn, head(3)))
    assert accuracies(still, "dropped")[0] < 0.9


def test_the_whole_model_is_the_model_itself(tmp_path: Path) -> None:
    """Labels are what the model says, but for the first five sentences: so is its accuracy."""
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
    arrays |= passes.head(model.state_dict())
    made = planted(tmp_path, {one.name: arrays for one in SNAPSHOTS}, probe={"label": labels})
    assert accuracies(rank_table(made), "dropped")[0] == 27 / 32


def test_the_pooler_saturates(tmp_path: Path) -> None:
    """tanh 3 < 1.5 tanh 1.2, though 3 > 1.5 · 1.2."""
    points = np.outer(2 * LABELS - 1, [3.0, 1.2] + [0.0] * (D - 2))
    reader = np.zeros((2, D))
    reader[1, :2] = [-1.0, 1.5]
    table = rank_table(run(tmp_path, points, head(0) | {"head_classifier": reader}))
    assert accuracies(table, "dropped")[0] == 1.0


def test_points_that_are_all_one_are_classified_alike(tmp_path: Path) -> None:
    table = rank_table(run(tmp_path, np.tile(cloud(0)[1], (N, 1)), head(0), np.arange(N) % 4 // 3))
    assert (table["accuracy"] == 0.25).all()
    assert (table["explained"] == 0.0).all()


def test_no_more_components_are_taken_than_there_are(tmp_path: Path) -> None:
    few = rank_table(run(tmp_path, cloud(0)[:6], head(0), LABELS[:6]))
    assert sorted(set(few["k"])) == [0, 1, 2, 5]


def test_a_run_without_classes_or_without_berts_head_has_no_table(tmp_path: Path) -> None:
    assert rank_table(run(tmp_path / "labels", cloud(0), head(0), np.full(N, -1))).empty
    assert rank_table(run(tmp_path / "head", cloud(0), {})).empty
