"""The explorer's data: each sentence at its position in the plane, to three digits, as plain values.

A joint map of all arms: planted words cluster, equal arms coincide. Distances between the diagrams of two arms.
"""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from isoscope.base.errors import InputError
from isoscope.geometry.moments import Floats
from isoscope.states.sentence_tables import feature_dynamics
from isoscope.states.side_by_side import LETTERS, MOST, Key, arm_distances, explorer, joint_map
from isoscope.states.trajectory import Trajectory
from probe_material import CLUSTERED, CLUSTERED_D, SNAPSHOTS, by_position, by_word, planted


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
    data, planes, frames = explored(runs)
    assert json.loads(json.dumps(data, allow_nan=False)) == data
    assert [(one["arm"], one["seed"]) for one in data["runs"]] == keys
    for key, one in zip(keys, data["runs"], strict=True):
        assert (one["layers"], one["steps"], one["best"]) == ([0, 1], [0, 5, 9], 1)
        table, shown = planes[key], frames[key].set_index(["layer", "snapshot"])
        for layer in one["layers"]:
            found = np.array(one["points"][layer])
            rows = table[table["layer"] == layer]
            for number, name in enumerate(("step-0", "step-5", "step-9")):
                xy = rows.loc[rows["snapshot"] == name, ["pc1", "pc2"]].to_numpy()
                scale = np.abs(xy).max() / 1000
                if one["explained"][layer][number] is None:  # what is left of one point is rounding
                    assert not found[number].any()
                    continue
                np.testing.assert_allclose(found[number].reshape(-1, 2) * scale, xy, atol=0.51 * scale)
                assert np.abs(found[number]).max() == 1000
                expected = shown.loc[(layer, name), ["explained_1", "explained_2"]].astype(float).tolist()
                assert one["explained"][layer][number] == pytest.approx(expected, abs=5.1e-4)


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


POSITION, TOKEN, END = (CLUSTERED[name] for name in ("position", "token", "end"))
INNER = np.flatnonzero(~END)
COLUMNS = ["arm", "sentence", "position", "token", "x", "y", "pc1", "pc2"]


def noise(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((TOKEN.size, CLUSTERED_D))


def of_tokens(folder: Path, tokens: Any = CLUSTERED, **arrays: Any) -> Trajectory:
    return planted(folder, {one.name: {"first": np.ones((1, 2, 3)), **arrays} for one in SNAPSHOTS}, tokens=tokens)


def drawn(runs: dict[str, Trajectory], **options: Any) -> pd.DataFrame:
    return joint_map(runs, "chosen", **{"perplexity": 12, "seed": 0, "most": 250} | options)


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, Trajectory]:
    """The second and third arm are equal; the fourth is random."""
    clouds = {"words": by_word(), "places": by_position(), "again": by_position(), "none": noise(9)}
    return {arm: of_tokens(tmp_path / arm, block_normed=cloud) for arm, cloud in clouds.items()}


def alike(table: pd.DataFrame, arm: str, column: str) -> float:
    """Return how often a token's nearest neighbour in the map, within its arm, has the same value."""
    rows = table[table["arm"] == arm]
    near = NearestNeighbors(n_neighbors=2).fit(rows[["x", "y"]]).kneighbors(return_distance=False)[:, 0]
    return float((rows[column].to_numpy()[near] == rows[column].to_numpy()).mean())


def test_a_map_shows_what_was_planted_in_each_arm(arms: dict[str, Trajectory]) -> None:
    table = drawn(arms)
    assert list(table.columns) == COLUMNS
    assert table["arm"].tolist() == [arm for arm in arms for _ in INNER]
    for arm in arms:
        for name in ("sentence", "position", "token"):
            assert (table.loc[table["arm"] == arm, name].to_numpy() == CLUSTERED[name][INNER]).all()
    assert alike(table, "words", "token") > 0.95
    assert alike(table, "places", "position") > 0.95
    for arm, column in (("words", "position"), ("places", "token"), ("none", "token"), ("none", "position")):
        assert alike(table, arm, column) < 0.5


def test_principal_components_are_those_of_all_arms_together(arms: dict[str, Trajectory]) -> None:
    table = drawn(arms)
    single = np.concatenate([one.arrays(one.best).whole("block_normed")[INNER] for one in arms.values()]).astype(float)
    expected = PCA(2, svd_solver="full").fit_transform(single)
    for axis in (0, 1):
        cosine = np.corrcoef(table[f"pc{axis + 1}"], expected[:, axis])[0, 1]
        assert abs(cosine) == pytest.approx(1.0, abs=1e-9)
    parts = [table.loc[table["arm"] == arm, ["pc1", "pc2"]].to_numpy() for arm in ("places", "again", "none")]
    np.testing.assert_allclose(parts[0], parts[1], atol=1e-9)
    assert np.abs(parts[0] - parts[2]).max() > 1


def test_equal_seeds_draw_equal_maps_of_the_first_tokens(arms: dict[str, Trajectory]) -> None:
    few = {arm: arms[arm] for arm in ("words", "none")}
    first = drawn(few, most=30)
    assert len(first) == 60
    assert first["sentence"].tolist() == 2 * CLUSTERED["sentence"][INNER][:30].tolist()
    pd.testing.assert_frame_equal(first, drawn(few, most=30))


def test_too_few_tokens_for_the_perplexity_are_refused(arms: dict[str, Trajectory]) -> None:
    one = {"words": arms["words"]}
    assert len(drawn(one, perplexity=10, most=30)) == 30
    with pytest.raises(InputError, match=r"measures\.perplexity: 10\.5 needs at least 32 tokens, got 30"):
        drawn(one, perplexity=10.5, most=30)


def test_a_map_has_the_tokens_that_leave_a_block_without_a_norm_and_no_arm_without_a_block(
    arms: dict[str, Trajectory], tmp_path: Path
) -> None:
    bare = of_tokens(tmp_path / "bare", block_word=noise(1), block_position=noise(2), block_fused=by_position())
    table = drawn(arms | {"again": bare, "without": of_tokens(tmp_path / "without")})
    pd.testing.assert_frame_equal(table, drawn(arms))
    assert drawn({"without": of_tokens(tmp_path / "alone")}).empty


def test_arms_of_other_tokens_or_another_width_have_no_joint_map(
    arms: dict[str, Trajectory], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = of_tokens(tmp_path / "other", CLUSTERED | {"token": TOKEN[::-1]}, block_normed=by_word())
    assert drawn({"words": arms["words"], "other": other}).empty
    assert capsys.readouterr().err == "isoscope: no joint map: words, other do not read the same tokens\n"
    narrow = of_tokens(tmp_path / "narrow", block_normed=by_word()[:, :4])
    assert drawn({"words": arms["words"], "narrow": narrow}).empty
    assert re.fullmatch(
        r"isoscope: no joint map: the arms differ in width \(words \d+, narrow 4\)\n", capsys.readouterr().err
    )


def test_arms_are_as_far_apart_as_their_chosen_diagrams() -> None:
    """Two arms with equal diagrams and one whose only loop is shorter; diagrams of other moments do not count."""
    loops = {"ring": (0.0, 1.0), "again": (0.0, 1.0), "cloud": (0.0, 0.25)}
    kinds = [(arm, moment) for arm in loops for moment in ("chosen", "last")]
    bars = pd.DataFrame(
        [
            {"arm": arm, "seed": 0, "moment": moment, "degree": 1, "birth": birth, "death": death}
            for arm, moment in kinds
            for birth, death in [loops[arm] if moment == "chosen" else (0.0, 9.0)]
        ]
    )
    found = arm_distances(bars).set_index(["arm", "other", "seed", "degree"])
    assert found.loc[("ring", "again", 0, 1)].tolist() == [0.0, 0.0]
    assert found.loc[("ring", "cloud", 0, 1)].tolist() == found.loc[("again", "cloud", 0, 1)].tolist() == [0.5, 0.625]
    assert len(found) == 3


def test_an_arm_without_a_loop_is_as_far_away_as_its_loops_are_high() -> None:
    bars = pd.DataFrame(
        [("ring", 0, 0.0, 1.0), ("ring", 1, 1.0, 1.5), ("cloud", 0, 0.0, 1.0)],
        columns=["arm", "degree", "birth", "death"],
    ).assign(seed=0, moment="chosen")
    found = arm_distances(bars).set_index(["arm", "other", "degree"])[["bottleneck", "wasserstein"]]
    assert found.loc[("ring", "cloud", 0)].tolist() == [0.0, 0.0]
    assert found.loc[("ring", "cloud", 1)].tolist() == [0.25, 0.25], "the bar goes to the diagonal"
