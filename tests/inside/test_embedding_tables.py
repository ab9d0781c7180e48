"""A joint map of all arms: planted words cluster, equal arms coincide, neighbours are as planted."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats
from isoscope.inside.embedding_tables import decoding_table, joint_map, neighbour_table
from isoscope.inside.trajectory import Trajectory
from probe_material import SNAPSHOTS, planted

SENTENCES, LENGTH, TYPES, D = 12, 8, 4, 24
SENTENCE, POSITION = np.repeat(np.arange(SENTENCES), LENGTH), np.tile(np.arange(LENGTH), SENTENCES)
END = np.isin(POSITION, (0, LENGTH - 1))
TOKEN = np.where(END, 99, np.random.default_rng(0).integers(0, TYPES, SENTENCE.size))
TOKENS = {"sentence": SENTENCE, "position": POSITION, "token": TOKEN, "end": END}
INNER = np.flatnonzero(~END)
COLUMNS = ["arm", "sentence", "position", "token", "x", "y", "pc1", "pc2"]


def noise(seed: int = 0) -> Floats:
    return np.random.default_rng(seed).standard_normal((SENTENCE.size, D))


def by_word(seed: int = 0) -> Floats:
    """A cluster for each word; [CLS] and [SEP] far away."""
    found: Floats = noise(seed) + 20.0 * np.eye(D)[TOKEN % 20] + 500.0 * END[:, None]
    return found


def by_position() -> Floats:
    return noise(7) + 20.0 * np.eye(D)[POSITION]


def run(folder: Path, tokens: Any = TOKENS, **arrays: Any) -> Trajectory:
    return planted(folder, {one.name: {"first": np.ones((1, 2, 3)), **arrays} for one in SNAPSHOTS}, tokens=tokens)


def drawn(runs: dict[str, Trajectory], **options: Any) -> pd.DataFrame:
    return joint_map(
        runs, {arm: one.best for arm, one in runs.items()}, **{"perplexity": 12, "seed": 0, "most": 250} | options
    )


@pytest.fixture
def arms(tmp_path: Path) -> dict[str, Trajectory]:
    """The second and third arm are equal; the fourth is random."""
    clouds = {"words": by_word(), "places": by_position(), "again": by_position(), "none": noise(9)}
    return {arm: run(tmp_path / arm, block_normed=cloud) for arm, cloud in clouds.items()}


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
            assert (table.loc[table["arm"] == arm, name].to_numpy() == TOKENS[name][INNER]).all()
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
    assert first["sentence"].tolist() == 2 * SENTENCE[INNER][:30].tolist()
    pd.testing.assert_frame_equal(first, drawn(few, most=30))


def test_too_few_tokens_for_the_perplexity_are_refused(arms: dict[str, Trajectory]) -> None:
    one = {"words": arms["words"]}
    assert len(drawn(one, perplexity=10, most=30)) == 30
    with pytest.raises(InputError, match=r"measures\.perplexity: 10\.5 needs at least 32 tokens, got 30"):
        drawn(one, perplexity=10.5, most=30)


def test_arms_with_different_probe_sets_have_no_joint_map(arms: dict[str, Trajectory], tmp_path: Path) -> None:
    other = run(tmp_path / "other", TOKENS | {"token": TOKEN[::-1]}, block_normed=by_word())
    with pytest.raises(InputError, match="the arms have different probe sets"):
        drawn({"words": arms["words"], "other": other})


def neighbours(made: Trajectory) -> pd.DataFrame:
    return neighbour_table(made, k=5, confidence=0.95, seed=0)


def test_neighbours_are_what_was_planted_and_elsewhere_chance(tmp_path: Path) -> None:
    table = neighbours(run(tmp_path, block_fused=by_position(), block_normed=by_word()))
    assert len(table) == len(SNAPSHOTS) * 2 * 2
    assert table["step"].isna().sum() == 4
    assert set(table["n"]) == {len(INNER)}
    assert set(table["k"]) == {5}
    rate = table[table["best"]].set_index(["part", "neighbours"])
    assert rate.loc[("normed", "same word"), "rate"] > 0.95
    assert rate.loc[("fused", "same position"), "rate"] > 0.95
    for place in (("normed", "same position"), ("fused", "same word")):
        assert rate.loc[place, "rate"] == pytest.approx(rate.loc[place, "chance"], abs=0.1)
    assert (table["sentences"] == len(np.unique(SENTENCE[INNER]))).all()
    assert ((table["low"] <= table["rate"]) & (table["rate"] <= table["high"])).all()
    assert (table["high"] - table["low"]).max() < 0.3
    inner = SENTENCE[INNER][:, None] != SENTENCE[INNER]
    for name, values in (("same word", TOKEN), ("same position", POSITION)):
        same = values[INNER][:, None] == values[INNER]
        assert rate.loc[("normed", name), "chance"] == pytest.approx(same[inner].mean())


def test_a_run_without_a_block_has_no_neighbours(tmp_path: Path) -> None:
    assert neighbours(run(tmp_path)).empty


def test_tokens_of_one_sentence_have_no_neighbours_in_others(tmp_path: Path) -> None:
    alone = {name: values[:LENGTH] for name, values in TOKENS.items()}
    with pytest.raises(InputError, match="fewer than 5 others in other groups"):
        neighbours(run(tmp_path, alone, block_normed=by_word()[:LENGTH]))


def test_word_and_position_are_read_back_from_a_sum_and_not_from_noise(tmp_path: Path) -> None:
    word, position = (np.random.default_rng(seed).standard_normal((100, D)) for seed in (3, 4))
    parts = {"block_word": word[TOKEN], "block_position": position[POSITION]}
    summed = parts | {"block_fused": word[TOKEN] + position[POSITION], "block_normed": noise()}
    run = planted(tmp_path, {one.name: summed for one in SNAPSHOTS}, tokens=TOKENS)
    found = decoding_table(run, seed=0)
    assert set(found["snapshot"]) == {"step-0", "step-5", "random"}
    assert (found.loc[found["part"] == "fused", "rate"] > 0.95).all()
    assert (found.loc[found["part"] == "normed", "rate"] < 0.6).all()
    assert found["n"].eq(INNER.size).all()
    assert found[found["read"] == "word"]["candidates"].eq(TYPES).all()
    assert found[found["read"] == "position"]["candidates"].eq(LENGTH - 2).all()
