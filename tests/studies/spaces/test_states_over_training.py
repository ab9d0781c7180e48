"""Similarity over training: a state with itself, unrelated states, the same estimator, and runs without snapshots."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from isoscope.base.errors import InputError
from isoscope.base.workers import Over
from isoscope.data.word_table import KEY, WordTable, word_table
from isoscope.platform.figures.pictures import pictures
from isoscope.states.choices import SPACES
from isoscope.states.compared_items import compared_items
from isoscope.states.similarity_tables import equal_layers, similarity_table
from isoscope.states.word_space import Space, store
from isoscope.studies.spaces.states_over_training import FOLLOWED, over_training
from isoscope.studies.spaces.views import VIEWS
from probe_material import bert, pieces, sentences

SETTINGS = SPACES._replace(permutations=20, items=20, neighbours=2, components=2)
FEW = SETTINGS._replace(permutations=3)
KEYS_OF_ROW = ["update", "layer", "measure"]
UPDATES = (0, 1, 2)
"""Of the snapshots; the checkpoint is of update 3."""


def here(function: Any, work: Any, title: str) -> Any:
    return map(function, work)


OVER: Over = here


@pytest.fixture(scope="module")
def table() -> WordTable:
    return word_table(sentences()["sentence"].to_pylist(), occurrences=600, per_sentence=25, seed=0)


def run(output: Path, seed: int) -> Path:
    """Write a run whose weights change at update 2 and return its checkpoint, of the same weights."""
    for update in UPDATES:
        bert(seed + 10 * (update < 2)).save_pretrained(output / f"snapshots/step-{update}")
    checkpoint = output / "checkpoints/epoch-1"
    bert(seed).save_pretrained(checkpoint)
    pieces(checkpoint)
    points = [{"name": "validation/loss", "value": 1.0, "step": step, "epoch": step // 3} for step in (0, 3)]
    (output / "metrics.jsonl").write_text("".join(f"{json.dumps(one)}\n" for one in points))
    return checkpoint


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[int, Path]]:
    folder = tmp_path_factory.mktemp("runs")
    return {name: {seed: run(folder / name / str(seed), 3 * place + seed) for seed in range(3)}
            for place, name in enumerate("ab")}  # fmt: skip


@pytest.fixture(scope="module")
def found(runs: Mapping[str, Mapping[int, Path]], table: WordTable) -> pd.DataFrame:
    return over_training(runs, table, FEW, every=1, over=OVER)


def test_every_state_meets_the_next_seed_of_each_model_and_its_own_end(found: pd.DataFrame) -> None:
    pairs = {("a", 0, "a", 1), ("a", 0, "b", 1), ("a", 0, "a", 0), ("a", 2, "b", 0), ("b", 2, "b", 0)}
    columns = ["model", "seed", "other_model", "other_seed"]
    assert pairs < set(found[columns].itertuples(index=False, name=None))
    # runs × others × states × layers × measures
    assert len(found) == 6 * 3 * 4 * 4 * len(FOLLOWED) == len(found.drop_duplicates([*columns, *KEYS_OF_ROW]))
    assert found.groupby("update")["chosen"].unique().explode().to_dict() == {0: False, 1: False, 2: False, 3: True}


def test_the_end_against_itself_is_1_and_other_weights_are_less(found: pd.DataFrame) -> None:
    itself = found[(found["model"] == found["other_model"]) & (found["seed"] == found["other_seed"])]
    same = itself[itself["update"] >= 2]
    assert same["adjusted"].to_numpy() == pytest.approx(1.0, abs=1e-6)
    assert same["low"].to_numpy() == pytest.approx(1.0, abs=1e-6)
    assert (itself.loc[itself["update"] < 2, "adjusted"] < 0.95).all()


def test_a_coarse_choice_keeps_first_and_chosen_with_the_same_values(
    runs: Mapping[str, Mapping[int, Path]], table: WordTable, found: pd.DataFrame
) -> None:
    one = {"a": {0: runs["a"][0]}}
    coarse = over_training(one, table, FEW, every=9, over=OVER)
    assert set(coarse["update"]) == {0, 3}
    keys = ["model", "seed", "other_model", "other_seed", *KEYS_OF_ROW]
    both = coarse.merge(found, on=keys)
    assert len(both) == len(coarse)
    assert both["adjusted_x"].to_numpy() == pytest.approx(both["adjusted_y"].to_numpy())


def made_up(folder: Path, table: WordTable, seed: int) -> Space:
    """A space of noise that knows no word: unlike a model of random weights, in which equal words are alike."""
    states = np.random.default_rng(seed).standard_normal((2, len(table.rows), 6)).astype(np.float32)
    return store(folder, table.rows[KEY].assign(found=True), states)


def test_unrelated_states_have_the_value_of_their_null(tmp_path: Path) -> None:
    texts = [f"n{number} " + " ".join(f"w{number % 7}{place}" for place in range(4)) for number in range(200)]
    table = word_table(texts, occurrences=1000, per_sentence=25, seed=0)
    spaces = [made_up(tmp_path / str(seed), table, seed) for seed in range(2)]
    on = compared_items(table, np.ones(len(table.rows), bool), probe="words", seed=0)
    rows = equal_layers(spaces[0], spaces[1], on[0], SETTINGS, FOLLOWED)
    assert ((rows["value"] - rows["null"]).abs() < 3 * rows["null_sd"]).all()
    assert equal_layers(spaces[0], spaces[0], on[0], SETTINGS, FOLLOWED)["adjusted"].to_numpy() == pytest.approx(1.0)
    whole = similarity_table(spaces[0], spaces[1], on[:1], SETTINGS)
    kept = whole[(whole["layer"] == whole["other_layer"]) & whole["measure"].isin(FOLLOWED)]
    pd.testing.assert_frame_equal(rows.reset_index(drop=True), kept[rows.columns].reset_index(drop=True))


def test_a_run_without_snapshots_is_named_with_the_remedy(tmp_path: Path, table: WordTable) -> None:
    checkpoint = run(tmp_path / "run", 0)
    (tmp_path / "run/snapshots").rename(tmp_path / "away")
    with pytest.raises(InputError, match=r"run: a, seed 0 has no snapshots.*training\.snapshots\.steps"):
        over_training({"a": {0: checkpoint}}, table, FEW, every=1, over=OVER)


def test_the_figure_has_a_line_per_reference_and_a_point_per_update_that_all_seeds_kept(found: pd.DataFrame) -> None:
    seen = {picture.value: picture for picture in pictures(VIEWS, {"over_training": found})}
    rows = seen["a"].table[0]
    assert set(rows["with"]) == {"a, next seed", "b, next seed", "its own chosen checkpoint"}
    own = rows[(rows["with"] == "b, next seed") & (rows["column"] == 1) & (rows["layer"] == 2)].set_index("measure")
    way = (found["model"] == "a") & (found["other_model"] == "b") & (found["update"] == 1) & (found["layer"] == 2)
    mean = found[way].groupby("measure")["adjusted"].mean()
    assert own["value"].to_dict() == pytest.approx(mean.to_dict())
    # an earlier chosen checkpoint of a seed is the same last point; an update that a seed did not keep is none
    early = (found["model"] == "a") & (found["seed"] == 1)
    moved = found[~(early & (found["update"] == 1))]
    moved = moved.assign(update=moved["update"].where(~(early & moved["chosen"]), 2.5))
    rows = next(pictures(VIEWS, {"over_training": moved})).table[0]
    assert sorted(set(rows["column"])) == pytest.approx([0, 2, (3 + 2.5 + 3) / 3])
    # a chosen checkpoint that is not the last, at an update that other seeds kept: one point, with the ring
    chosen = found.assign(chosen=found["update"] == 2)
    rows = next(pictures(VIEWS, {"over_training": chosen})).table[0]
    assert not rows.duplicated(["with", "measure", "layer", "column"]).any()
    assert set(rows.loc[rows["mark"].notna(), "column"]) == {2} < set(rows["column"])
