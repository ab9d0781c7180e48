"""Sentences in scored pairs: read, encoded once, measured by layer, and after transforms fitted on other sentences."""

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from isoscope.base.built_in import TRANSFORMS
from isoscope.base.errors import InputError
from isoscope.data import scored_pairs
from isoscope.data.scored_pairs import ScoredPairs
from isoscope.geometry import avg_sim, sts, transforms
from isoscope.geometry.moments import Floats
from isoscope.states.asked import geometry
from isoscope.states.choices import DEFAULTS
from isoscope.states.extract import snapshot_arrays
from isoscope.states.measure import Cells, measured
from isoscope.states.pairs import PAIRS, EncodedPairs, layer, places, read_pairs
from isoscope.states.trajectory import RANDOM, Snapshot, Trajectory
from probe_material import bert, chosen, gpt2, pieces, planted, sentences, write_run

TEXTS = ["the film was good", "a slow plot bored everybody", "this very fine scene moved me", "no dull story", "me ."]
ROWS = [(one, other) for one in range(5) for other in range(one + 1, 5)] * 2
TABLE = pd.DataFrame(
    {
        "sentence1": [TEXTS[one] for one, _ in ROWS],
        "sentence2": [TEXTS[other] for _, other in ROWS],
        "score": np.arange(20) / 4,
    }
)
FEW = DEFAULTS._replace(subsample=16, draws=3)


def write(folder: Path, suffix: str = "csv", **changes: Any) -> Path:
    path, table = folder / f"given.{suffix}", TABLE.assign(**changes)
    if suffix == "parquet":
        table.to_parquet(path)
    else:
        table.to_csv(path, index=False, sep="\t" if suffix == "tsv" else ",")
    return path


def encoded(folder: Path) -> EncodedPairs:
    others = [(text, text) for text in sentences()["sentence"].to_pylist()]
    return EncodedPairs(write(folder), pieces(folder / "tokenizer"), others, max_length=32, seed=0)


def probed(folder: Path) -> Trajectory:
    """A run of a tiny model with the states of pairs."""
    run, pairs = write_run(folder, models=[bert(0)]), encoded(folder)
    pairs.write(folder)
    known = {}
    for snapshot, model in zip(run.snapshots, (bert(0), bert(99)), strict=True):
        own = run.arrays(snapshot)
        known[snapshot.name] = {name: own.whole(name) for name in own.names}
        known[snapshot.name] |= pairs.arrays(model, pad_id=0, batch_size=3)
    return planted(folder, known, snapshots=run.snapshots)


@pytest.mark.parametrize("suffix", ["csv", "tsv", "parquet"])
def test_pairs_are_read_and_each_sentence_has_one_number(tmp_path: Path, suffix: str) -> None:
    table = scored_pairs.read(write(tmp_path, suffix))
    pd.testing.assert_frame_equal(table.astype(TABLE.dtypes), TABLE)
    found = ScoredPairs.of(table)
    assert sorted(found.sentences) == sorted(TEXTS)
    assert [found.sentences[one] for one in found.first] == [*TABLE["sentence1"]]
    assert [found.sentences[one] for one in found.second] == [*TABLE["sentence2"]]
    few = scored_pairs.read(write(tmp_path), pairs=12, seed=1)
    assert len(few) == 12
    assert few.merge(TABLE).equals(few)
    both = ScoredPairs(["The film", "the plot", "me"], np.array([0, 0]), np.array([1, 2]), np.zeros(2))
    assert both.overlap.tolist() == [1 / 3, 0.0]


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"score": ["x", *["1"] * 19]}, "row 1: column 'score' is 'x'; expected a finite number"),
        ({"score": [*[1.0] * 19, None]}, "row 20: column 'score' is empty"),
        ({"score": 1.0}, "20 pairs with 1 different scores; expected at least 10 pairs and two scores"),
        ({"sentence2": ["a", " ", *["b"] * 18]}, "row 2: column 'sentence2' is empty"),
        ({"sentence2": 1}, "column 'sentence2' holds int64; expected text"),
    ],
)
def test_what_is_no_scored_pair_is_named_by_its_row(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        scored_pairs.read(write(tmp_path, "parquet", **changes))
    TABLE.rename(columns={"score": "gold"}).to_csv(tmp_path / "other.csv", index=False)
    with pytest.raises(InputError, match=r"no column 'score' \(STS needs sentence1, sentence2 and score\)"):
        scored_pairs.read(tmp_path / "other.csv")


def test_sentences_are_encoded_alone_and_pooled_without_padding(tmp_path: Path) -> None:
    pairs, model = encoded(tmp_path), bert()
    found = pairs.arrays(model, pad_id=0, batch_size=3)
    every = len({*TEXTS, *sentences()["sentence"].to_pylist()})
    shapes = {name: one.shape for name, one in found.items()}
    assert shapes == dict.fromkeys(("pairs_first", "pairs_mean"), (3, every, 16))
    for row, ids in enumerate(pairs.encoded.ids):
        with torch.no_grad():
            states = model(torch.tensor(ids[None].astype(int)), output_hidden_states=True).hidden_states
        for depth, state in enumerate(states):
            np.testing.assert_allclose(found["pairs_first"][depth, row], state[0, 0], atol=1e-5)
            np.testing.assert_allclose(found["pairs_mean"][depth, row], state[0].mean(0), atol=1e-5)
    decoder = pairs.arrays(gpt2(), causal=True, pad_id=0, batch_size=3)
    assert set(decoder) == {"pairs_last", "pairs_mean"}
    tokenizer = pieces(tmp_path / "own")
    asked, probe = SimpleNamespace(batch_size=8, precision="fp32"), chosen(tokenizer)
    for of, kind in ((gpt2(), "pairs_last"), (bert(), "pairs_first")):
        arrays = snapshot_arrays(of, probe, None, pairs, asked, pad_id=tokenizer.pad_id)
        assert {name for name in arrays if name.startswith("pairs")} == {kind, "pairs_mean"}, "also in a study"


def test_sts_is_measured_by_layer_and_pooling_beside_the_random_weights_control(tmp_path: Path) -> None:
    run = probed(tmp_path)
    table = measured(run, ["sts", "similarity"], ["mean"], FEW, title="")["geometry"]
    rows = table[table["measure"] == "sts"]
    asked = {(kind, depth) for kind in ("pairs_first", "pairs_mean") for depth in range(3)} | {("pairs_first_last", 2)}
    assert {*zip(rows["vectors"], rows["layer"], strict=True)} == asked
    assert {*rows["snapshot"]} == {"step-1", RANDOM}
    assert {*rows["n"]} == {20}
    assert {*table.loc[table["measure"] != "sts", "vectors"]} == {"mean"}
    mean = run.arrays(run.best).whole("pairs_mean").astype(float)
    pairs = read_pairs(tmp_path)
    assert pairs is not None
    for kind, points in (("pairs_mean", mean[2]), ("pairs_first_last", (mean[1] + mean[2]) / 2)):
        expected = sts.spearman_of_cosines(points[pairs.first], points[pairs.second], pairs.score).spearman
        row = rows[(rows["vectors"] == kind) & (rows["layer"] == 2) & (rows["metric"] == "sts") & rows["best"]].iloc[0]
        np.testing.assert_allclose(row[["value", "low", "high"]].astype(float), expected, atol=1e-4)
        assert abs(row["baseline"]) < 0.9
    with pytest.raises(InputError, match=r"measures\.names: sts needs scored pairs of sentences; set ext"):
        measured(write_run(tmp_path / "none"), ["sts"], ["mean"], FEW, title="")


def test_vectors_whose_cosines_are_the_scores_have_an_sts_of_one(tmp_path: Path) -> None:
    score = np.linspace(1, 0.1, 20)
    table = TABLE.assign(sentence1="the film", sentence2=[f"text {row}" for row in range(20)], score=score)
    table.to_parquet(tmp_path / PAIRS)
    vectors = np.vstack([[1.0, 0.0], np.column_stack([score, np.sqrt(1 - score**2)])])[None]
    only = Snapshot("step-0", 0, 0, True, "a")
    run = planted(tmp_path, {"step-0": {"pairs_mean": vectors}}, snapshots=[only])
    assert [*places(run)] == [(only, "pairs_mean", 0)]  # a single layer has no first and last
    found = measured(run, ["sts"], [], FEW, title="")["geometry"].set_index("metric")["value"]
    assert found["sts"] == pytest.approx(1.0)
    assert np.isnan(found["sts_overlap"])  # all overlaps are 0


def test_transforms_are_fitted_on_other_sentences_than_those_that_are_measured(tmp_path: Path) -> None:
    run = probed(tmp_path)
    tables = measured(run, ["sts", "similarity"], ["mean", "words"], FEW, title="", transforms=[*TRANSFORMS])
    alone = measured(run, ["sts", "similarity"], ["mean", "words"], FEW, title="")
    assert set(alone) == {"geometry"}
    pd.testing.assert_frame_equal(tables["geometry"], alone["geometry"])
    table, cells = tables["transformed"], Cells(run, FEW)

    def values(vectors: str, metric: str, depth: int) -> dict[str, float]:
        own = table[(table["vectors"] == vectors) & (table["metric"] == metric) & (table["layer"] == depth)]
        return own[own["best"]].set_index("transform")["value"].to_dict()

    states, pairs = run.arrays(run.best), read_pairs(tmp_path)
    assert pairs is not None
    texts = sentences()["sentence"].to_pylist()
    others = np.array([text not in TEXTS for text in texts])
    assert 0 < others.sum() < len(texts)
    for name, value in values("pairs_mean", "sts", 2).items():
        own = layer(states, "pairs_mean", 2)[: len(pairs.sentences)]
        points: Floats = getattr(transforms, name)(states.layer("mean", 2)[others])(own)
        expected = sts.spearman_of_cosines(points[pairs.first], points[pairs.second], pairs.score).spearman.value
        assert value == pytest.approx(expected), name
    assert {*table.loc[table["measure"] == "sts", "fitted_on"]} == {int(others.sum())}
    fitted, left = cells.cell(states.layer("mean", 2), "mean").halves()
    assert not {*fitted.groups} & {*left.groups}
    assert (len(fitted.points), len(left.points)) == (16, 16)
    assert values("mean", "avg_sim", 2)["none"] == pytest.approx(avg_sim(left.points))
    one, other = cells.cell(states.layer("words", 2), "words").halves()
    assert not {*one.groups} & {*other.groups}
    assert len(one.points) + len(other.points) == len(run.words)
    assert {*table["transform"]} == {*TRANSFORMS}


def test_without_other_sentences_a_transform_has_a_reason_and_the_measure_stays(tmp_path: Path) -> None:
    run = write_run(tmp_path, models=[bert(0)])
    pairs = EncodedPairs(write(tmp_path), pieces(tmp_path / "tokenizer"), [], max_length=32, seed=0)
    pairs.write(tmp_path)
    known = {one.name: pairs.arrays(bert(0), pad_id=0, batch_size=3) for one in run.snapshots}
    run = planted(tmp_path, known, snapshots=run.snapshots)
    tables = measured(run, ["sts"], [], FEW, title="", transforms=["none", "whitened"])
    geometry, transformed = (one[one["vectors"] == "pairs_mean"] for one in tables.values())
    assert geometry.loc[geometry["metric"] == "sts", "value"].notna().all()
    rows = transformed.groupby("transform")
    assert rows.get_group("whitened")["value"].isna().all()
    assert {*rows.get_group("whitened")["note"]} == {
        "0 points to fit them on, apart from those that are measured; give other texts"
    }
    plain = rows.get_group("none")
    assert plain.loc[plain["metric"] == "sts", "value"].notna().all()


def test_the_command_asks_for_pairs_if_a_measure_is_of_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(sts: str | None, *measures: str) -> None:
        text = tmp_path / "text.txt"
        text.write_text("\n".join(TEXTS))
        geometry(text, sts=sts, **DEFAULTS._replace(measures=measures)._asdict())

    given, hub = write(tmp_path), tmp_path / "hub/bank"
    hub.mkdir(parents=True)
    write(hub, "parquet").rename(hub / "test.parquet")
    monkeypatch.setenv("ISOSCOPE_HUB", str(tmp_path / "hub"))
    for file in (str(given), "bank"):
        asked(file, "sts")
        asked(file)
    asked(None)
    with pytest.raises(InputError, match=r"^--measure sts: needs pairs of sentences with scores; .* with --sts$"):
        asked(None, "sts")
    with pytest.raises(InputError, match=f"^--sts {given}: no measure of pairs is asked for; add --measure sts$"):
        asked(str(given), "isoscore")
    with pytest.raises(InputError, match=r"^--sts: 'other': no such file, and no <name>/test.parquet below ISOSCOPE"):
        asked("other", "sts")
