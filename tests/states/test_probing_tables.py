"""Probes of an artificial run find planted signals, mark undecodable cells, and share one set of folds."""

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.geometry.probes import linear_probe
from isoscope.states.measure import parts_of
from isoscope.states.probe_tasks import TASKS, clouds
from isoscope.states.probing_tables import KINDS, baselines_table, distinct, hrr_bags, learning_table, probing_table
from isoscope.states.trajectory import PROBE, RANDOM, TREEBANK, Snapshot, Trajectory, write_snapshots
from probe_material import SNAPSHOTS as MADE
from probe_material import planted

N, D, TYPES = 120, 8, 12
SNAPSHOTS = [
    Snapshot("step-0", 0, 0, False, "a"),
    Snapshot("step-5", 5, None, False, "b"),
    Snapshot("step-9", 9, 1, True, "c"),
    Snapshot("random", None, None, False, "d"),
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Trajectory:
    """120 sentences, two layers, noise except for planted signals.

    Layer 0 `first`: one vector. Layer 1 `first` at step 9: the label. `mean`, layer 1: whether words are changed about.
    `words`: position along axis 0 at layer 0. `treebank`: the tag along axes 0 … 2, depth along axis 3.
    """
    folder, random = tmp_path_factory.mktemp("run"), np.random.default_rng(0)
    labels, shifted, tokens = np.arange(N) % 2, random.permutation(N) % 2 == 0, random.integers(6, 12, N)
    tokens[:5], shifted[:5] = 3, False
    sentence, position = np.repeat(np.arange(N), 3), np.tile([1, 2, 4], N)
    types = np.array([f"word{one:02d}" for one in random.integers(0, TYPES, 3 * N)])
    tags, depth = random.integers(0, 3, 3 * N), random.integers(0, 5, 3 * N)
    columns: dict[str, dict[str, Any]] = {
        "probe": {
            "text": [" ".join(types[sentence == one]) for one in range(N)],
            "label": labels,
            "tokens": tokens,
            "ids": [random.integers(0, TYPES, size).tolist() for size in tokens],
            "shifted": shifted,
            "token_1": random.integers(0, 5, N),
        },
        "words": {"sentence": sentence, "position": position, "text": types},
        "treebank": {
            "sentence": sentence,
            "text": types,
            "tag": [*np.array(["NOUN", "VERB", "DET"])[tags][:-2], "SYM", "SYM"],
            "depth": depth,
        },
    }
    drawn = {}
    for snapshot in SNAPSHOTS:
        arrays = {name: random.standard_normal((2, N, D)).astype(np.float32) for name in ("first", "mean")}
        arrays |= {name: random.standard_normal((2, 3 * N, D)).astype(np.float32) for name in ("words", "treebank")}
        arrays["first"][0] = random.standard_normal(D)
        arrays["first"][1, :, 0] += 8.0 * labels * (snapshot.name == "step-9")
        arrays["words"][0, :, 0] = 3.0 * position
        arrays["treebank"][:, :, :3] += 8.0 * np.eye(3)[tags]
        arrays["treebank"][:, :, 3] = depth
        arrays |= {f"shifted_{name}": arrays[name][:, shifted].copy() for name in ("first", "mean")}
        arrays["shifted_mean"][1, :, 0] += 9.0
        drawn[snapshot.name] = arrays | {"bag": arrays["mean"][1]}
    return planted(folder, drawn, snapshots=SNAPSHOTS, **columns)


@pytest.fixture(scope="module")
def probed(run: Trajectory) -> pd.DataFrame:
    return probing_table(run, seed=0, everywhere=TASKS)


def one(table: Any, **where: Any) -> Any:
    """Return the only row of a table with these values."""
    for column, value in where.items():
        table = table[table[column] == value]
    assert len(table) == 1
    return table.iloc[0]


def test_what_was_planted_is_found_where_it_is(probed: pd.DataFrame) -> None:
    table = probed
    # snapshots × layers × (kinds of vectors × tasks of sentences + tasks of words + of a treebank)
    assert len(table) == 4 * 2 * (2 * 4 + 2 + 2)
    label = one(table, snapshot="step-9", layer=1, vectors="first", task="label")
    assert (label["score"], label["chance"], label["n"], label["d"], label["trained"]) == (1.0, 0.5, N, D, 96)
    assert label["selectivity"] == label["score"] - label["control"]
    assert label["compression"] > 4 > 1.1 > label["control_compression"]
    guess = table.loc[(table["task"] == "label") & ~table["degenerate"], "permuted"]
    assert guess.mean() == pytest.approx(0.5, abs=0.066), "of the planted label, too"
    # Elsewhere nothing is planted: mean of 11 cells of 120 sentences, 4 sd of .055 / √11.
    others = table[(table["task"] == "label") & ~table["degenerate"]].drop(label.name)
    assert others["score"].mean() == pytest.approx(0.5, abs=0.066)
    assert table.loc[table["task"] == "label", "control"].mean() == pytest.approx(0.5, abs=0.066)
    shift = table[table["task"] == "bigram shift"]
    planted = (shift["vectors"] == "mean") & (shift["layer"] == 1)
    assert (shift.loc[planted, "score"] == 1.0).all()
    assert shift.loc[~planted, "score"].mean() == pytest.approx(0.5, abs=0.066)
    words = table[table["task"].isin(["word position", "word order"])]
    assert (words.loc[words["layer"] == 0, "score"] == 1.0).all()
    assert words.loc[(words["layer"] == 1) & (words["task"] == "word order"), "score"].mean() == pytest.approx(
        0.5, abs=0.05
    )
    assert (table.loc[table["task"] == "part of speech", "score"] > 0.97).all()
    depth = table[table["task"] == "tree depth"]
    assert (depth["score"] > 0.999).all()
    assert (depth["control"] < 0.1).all()


def test_one_vector_for_all_sentences_is_marked_and_not_scored(probed: pd.DataFrame) -> None:
    empty = probed[(probed["vectors"] == "first") & (probed["layer"] == 0)]
    assert len(empty) == 4 * 4
    assert (empty["degenerate"] & (empty["distinct"] == 1)).all()
    assert empty[["score", "chance", "control", "selectivity", "compression", "penalty"]].isna().all(axis=None)
    rest = probed.drop(empty.index)
    assert not rest["degenerate"].any()
    assert (rest["distinct"] == rest["n"]).all()
    assert rest["score"].notna().all()


def test_vectors_that_are_told_apart_by_one_word_are_counted() -> None:
    random = np.random.default_rng(0)
    few = random.standard_normal((6, 10))[random.integers(0, 6, 90)]
    assert distinct(few + 1e-7 * random.standard_normal(few.shape)) == 6
    assert distinct(100.0 + 0.01 * random.standard_normal((90, 10))) == 90
    assert distinct(np.ones((4, 3))) == 1


def test_only_what_is_asked_is_done_and_the_costly_only_closely(run: Trajectory, probed: pd.DataFrame) -> None:
    assert probed.groupby("snapshot")["task"].agg(set).to_dict() == {one.name: set(TASKS) for one in SNAPSHOTS}
    coded = probed[probed["compression"].notna()]
    assert set(coded["snapshot"]) == {"step-0", "step-9", "random"}
    few = probing_table(run, seed=0, vectors=("first",), snapshots=("step-5",))
    assert few["task"].value_counts().to_dict() == {"label": 2, "bigram shift": 2}
    assert few["compression"].isna().all()
    same = one(probed, snapshot="step-5", layer=1, vectors="first", task="label")
    assert one(few, layer=1, task="label")[["score", "control", "penalty"]].equals(
        same[["score", "control", "penalty"]]
    )


def test_a_table_made_in_parts_is_the_same_table(run: Trajectory) -> None:
    """The parts stand in the order of the whole table, and one without rows is empty, not refused."""
    given: dict[str, Any] = {"seed": 0, "vectors": ("first",), "everywhere": ("label",), "snapshots": ("step-9",)}
    parts = [probing_table(run, **given, kinds=(kind,)) for kind in KINDS]
    pd.testing.assert_frame_equal(pd.concat(parts, ignore_index=True), probing_table(run, **given))
    assert probing_table(run, **given | {"snapshots": ("step-5",)}, kinds=("treebank",)).empty


def test_a_sentence_stands_once_and_none_gives_itself_away_by_its_length(run: Trajectory) -> None:
    (cloud,) = clouds(run, ("mean",), ("bigram shift",), seed=0)
    assert len(set(cloud.groups)) == len(cloud.groups) == N - 5  # the five short sentences cannot be shifted
    assert not set(cloud.groups) & set(range(5))
    np.testing.assert_array_equal(cloud.tasks["bigram shift"], run.probe["shifted"].to_numpy()[cloud.groups])
    arrays = run.arrays(run.best)
    points = cloud.points(arrays, 0)
    np.testing.assert_array_equal(points[cloud.tasks["bigram shift"]], arrays.layer("shifted_mean", 0))


def test_word_pairs_are_of_one_sentence_and_either_order(run: Trajectory) -> None:
    (cloud,) = clouds(run, ("mean",), ("word order",), seed=0)
    points = cloud.points(run.arrays(run.best), 0)
    assert points.shape == (3 * N, 2 * D)
    np.testing.assert_array_equal(points[:, 0] < points[:, D], cloud.tasks["word order"])  # axis 0 holds the position
    assert cloud.tasks["word order"].mean() == 0.5


def test_controls_of_words_give_a_type_one_label_and_can_be_memorised(run: Trajectory) -> None:
    place, bank = clouds(run, (), ("word position", "part of speech"), seed=0)
    for cloud, task in ((place, "word position"), (bank, "part of speech")):
        (text,), control = cloud.words, cloud.controls[task]
        assert all(len(set(control[text == name])) == 1 for name in set(text))
        assert set(control) <= set(cloud.tasks[task])
    assert "SYM" not in bank.tasks["part of speech"]  # two words: no class
    (text,) = place.words
    types = (text[:, None] == np.unique(text)).astype(float)
    memorised = linear_probe(types, place.controls["word position"], place.groups, seed=0)
    assert memorised.accuracy == 1.0 > 0.6 > memorised.chance


def test_baselines_stand_on_the_same_folds(run: Trajectory, probed: pd.DataFrame) -> None:
    labels = np.arange(200) % 2
    texts = [f"word{'01' if label else '02'} word{row % 12:02d}" for row, label in enumerate(labels)]
    floor = baselines_table(run, texts, labels, seed=0)
    table = probed[(probed["snapshot"] == "step-0") & (probed["vectors"] == "mean")]
    for task in ("label", "length"):
        # The bag of the made-up run is its layer 1, mean over tokens: the same points give the same figure.
        bag = one(floor, baseline="bag of embeddings, first snapshot", task=task)
        assert bag["score"] == one(table, layer=1, task=task)["score"]
        assert (bag["n"], bag["d"], bag["trained"]) == (N, D, 96)
    majority = one(floor, baseline="majority class")
    assert (majority["score"], majority["chance"], majority["trained"]) == (0.5, 0.5, 200)
    assert one(floor, baseline="TF-IDF, all of train")["d"] > 12
    assert one(floor, baseline="words bound to positions", task="label")["sd"] > 0
    assert set(floor.loc[floor["baseline"] == "word types", "task"]) == set(TASKS[4:])
    assert one(floor, baseline="word types", task="tree depth")["score"] < 0.1


def test_texts_without_a_word_leave_out_what_counts_words(run: Trajectory, tmp_path: Path) -> None:
    silent = changed(run, tmp_path, text=["🙂 !"] * len(run.probe))
    floor = baselines_table(silent, ["?!"] * 20, np.arange(20) % 2, seed=0)
    assert not floor["baseline"].str.startswith("TF-IDF").any()
    assert one(floor, baseline="majority class")["trained"] == 20


def changed(run: Trajectory, folder: Path, **columns: Any) -> Trajectory:
    """Return a copy of the run with other columns of its sentences."""
    shutil.copytree(run.folder, folder, dirs_exist_ok=True)
    pq.write_table(pa.Table.from_pandas(run.probe.assign(**columns)), folder / PROBE)
    return Trajectory(folder)


@pytest.mark.parametrize("width", [5, 8])
def test_binding_is_circular_convolution(width: int) -> None:
    found = hrr_bags([[4, 7], [7]], width=width, seed=3)
    random = np.random.default_rng((3, width))
    words, positions = (random.standard_normal((2, width)) / np.sqrt(width) for _ in range(2))

    def bind(word: Any, position: Any) -> Any:
        return [sum(word[k] * position[(j - k) % width] for k in range(width)) for j in range(width)]

    np.testing.assert_allclose(found[0], np.add(bind(words[0], positions[0]), bind(words[1], positions[1])), atol=1e-12)
    np.testing.assert_allclose(found[1], bind(words[1], positions[0]), atol=1e-12)


def test_a_run_without_treebank_labels_or_shifted_sentences_is_probed_for_the_rest(
    run: Trajectory, tmp_path: Path
) -> None:
    plain = changed(run, tmp_path, label=-1, shifted=False)
    (tmp_path / TREEBANK).unlink()
    table = probing_table(plain, seed=0, snapshots=("step-9",))
    assert set(table["task"]) == {"first token", "length", "word position", "word order"}


def test_every_snapshot_that_a_study_probes_has_something_to_probe(run: Trajectory, tmp_path: Path) -> None:
    """Scores, sets of labels and text alone have no classes, and the last snapshot need not be the best."""
    measures = SimpleNamespace(probes=SimpleNamespace(every=1))
    for label, expected in ((-1, {"step-0", "step-5", RANDOM}), (run.probe["label"], {one.name for one in MADE})):
        changed(run, tmp_path, label=label)
        write_snapshots(tmp_path, MADE, {})  # chosen: step 5
        known = Trajectory(tmp_path)
        probed = {snapshot for name, snapshot, _ in parts_of(known, measures) if name == "probing"}
        assert probed == expected
        for snapshot in probed:
            assert len(probing_table(known, seed=0, everywhere=("label",), snapshots=(snapshot,)))


def test_what_is_not_there_is_refused(run: Trajectory) -> None:
    with pytest.raises(InputError, match="nothing was measured"):
        probing_table(run, seed=0, vectors=("last",), everywhere=("label",), snapshots=("step-5",))


def test_more_sentences_help_noise_stays_at_chance_and_one_class_has_no_curve(tmp_path: Path) -> None:
    draw, labels = np.random.default_rng(0), np.arange(200) % 2
    planted_label = draw.standard_normal((200, 60)) + 0.35 * (2 * labels[:, None] - 1) * draw.standard_normal(60)
    arrays = {"first": np.stack([np.zeros((200, 60)), planted_label]), "mean": draw.standard_normal((2, 200, 60))}
    run = planted(tmp_path, {one.name: arrays for one in MADE}, probe={"label": labels})
    found = learning_table(run, vectors=("first", "mean", "last"), seed=0).set_index(["vectors", "trained"])
    assert found.index.tolist() == [(name, count) for name in ("first", "mean") for count in (40, 80, 160)]
    scores = found.loc["first", "score"].tolist()
    assert scores[0] < scores[-1] > 0.85
    assert (found.loc["mean", "score"] - 0.5).abs().max() < 3 * np.sqrt(0.25 / 200)
    assert found[["n", "d", "layer"]].drop_duplicates().to_numpy().tolist() == [[200, 60, 1]]
    alike = planted(tmp_path / "alike", {one.name: arrays for one in MADE}, probe={"label": np.zeros(200, int)})
    assert learning_table(alike, vectors=("first",), seed=0).empty, "one class has nothing to learn"


def test_tf_idf_reads_what_bags_can_tell(run: Trajectory, tmp_path: Path) -> None:
    again = changed(run, tmp_path, label=run.probe["text"].str.contains("word03").to_numpy().astype(int))
    texts = [f"word{one % 12:02d} word{one // 12 % 12:02d}" for one in range(2880)]
    floor = baselines_table(again, texts, ["word03" in text for text in texts], seed=0)
    assert one(floor, baseline="TF-IDF, all of train")["score"] > 0.97
    assert one(floor, baseline="TF-IDF, same folds", task="label")["score"] > 0.97
