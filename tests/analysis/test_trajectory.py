"""Hidden states on the disk: read back to the last bit, in order of training, and refused where they are damaged."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors import SafetensorError, safe_open

from isoscope.analysis.trajectory import (
    PROBE,
    RANDOM,
    SNAPSHOTS,
    TOKENS,
    WORDS,
    Arrays,
    Snapshot,
    Trajectory,
    holds,
    write_arrays,
    write_probe,
    write_snapshots,
    write_treebank,
)
from isoscope.corpora.treebank import Treebank
from isoscope.errors import InputError
from probe_material import chosen, pieces, planted, sentences

STEPS = [
    Snapshot("step-64", 64, 2, False, "c"),
    Snapshot(RANDOM, None, None, False, "d"),
    Snapshot("step-0", 0, None, False, "a"),
    Snapshot("step-8", 8, 1, True, "b"),
]


def arrays(seed: int = 0) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    return {name: random.standard_normal((3, 5, 4)).astype(np.float32) for name in ("words", "first", "mean")}


def refused(act: Any, *said: str) -> None:
    with pytest.raises(InputError) as caught:
        act()
    assert "\n" not in str(caught.value)
    for part in (*said, "run: isoscope repro"):
        assert part in str(caught.value)


def test_arrays_come_back_bit_for_bit_a_layer_at_a_time(tmp_path: Path) -> None:
    given = {one.name: arrays(place) | {"kernel": np.ones((2, 3, 3))} for place, one in enumerate(STEPS)}
    run = planted(tmp_path, given, snapshots=STEPS)
    for one in run.snapshots:
        found = run.arrays(one)
        assert found.vectors == ["first", "mean", "words"]
        assert found.names == {"first", "mean", "words", "kernel"}
        assert found.shape("first") == (3, 5, 4)
        for name, values in arrays(STEPS.index(one)).items():
            assert np.array_equal(found.whole(name), values)
            for layer in range(3):
                assert np.array_equal(found.layer(name, layer), values[layer])
                assert found.layer(name, layer).dtype == np.float32


def test_an_array_that_is_no_block_of_memory_is_written_as_it_looks(tmp_path: Path) -> None:
    values = arrays()["first"]
    write_arrays(tmp_path / "one", {"turned": values.T, "thinned": values[:, ::2]}, "key")
    found = Arrays(tmp_path / "one")
    assert np.array_equal(found.whole("turned"), values.T)
    assert np.array_equal(found.whole("thinned"), values[:, ::2])


def test_snapshots_go_by_step_and_the_twin_is_none_of_them(tmp_path: Path) -> None:
    write_snapshots(tmp_path, STEPS, {"sha256": "abc", "sentences": 5})
    run = Trajectory(tmp_path)
    assert run.snapshots == STEPS
    assert [one.step for one in run.trained] == [0, 8, 64]
    assert run.best.name == "step-8"
    assert run.facts == {"sha256": "abc", "sentences": 5}
    assert run.file(run.best) == tmp_path / "states/step-8.safetensors"
    write_snapshots(tmp_path, [one._replace(best=False) for one in STEPS], {})
    assert Trajectory(tmp_path).best.name == "step-64"


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "{}", '{"facts": {}}', '{"facts": {}, "snapshots": [{}]}', '{"facts": {}, "snapshots": 3}'],
)
def test_a_list_of_snapshots_that_is_none_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / SNAPSHOTS).write_text(text)
    refused(lambda: Trajectory(tmp_path), str(tmp_path / SNAPSHOTS), "not a list of snapshots")


@pytest.mark.parametrize("kept", [[], [one for one in STEPS if one.step is None]], ids=["none", "the twin alone"])
def test_a_list_without_a_trained_snapshot_is_refused(tmp_path: Path, kept: list[Snapshot]) -> None:
    write_snapshots(tmp_path, kept, {})
    refused(lambda: Trajectory(tmp_path), str(tmp_path / SNAPSHOTS), "no snapshot of a training run in it")


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    refused(lambda: Trajectory(tmp_path / "nowhere"), "snapshots.json: no such file")


@pytest.mark.parametrize("harm", ["missing", "empty", "cut", "other"])
def test_a_snapshot_that_cannot_be_read_is_refused(tmp_path: Path, harm: str) -> None:
    path = tmp_path / "step-0.safetensors"
    write_arrays(path, arrays(), "key")
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": path.read_bytes()[:-1], "other": b"{" * 99}[harm])
    assert not holds(path, "key")
    refused(lambda: Arrays(path), str(path), "cannot be read")


def test_a_file_holds_what_it_was_made_from(tmp_path: Path) -> None:
    path = tmp_path / "states/step-0.safetensors"
    write_arrays(path, arrays(), "weights and probe set")
    assert holds(path, "weights and probe set")
    assert not holds(path, "weights and another probe set")
    with safe_open(path, "numpy") as file:
        assert file.metadata() == {"key": "weights and probe set"}
    assert [one.name for one in path.parent.iterdir()] == [path.name]


def test_arrays_that_cannot_be_written_leave_the_old_ones(tmp_path: Path) -> None:
    path = tmp_path / "step-0.safetensors"
    write_arrays(path, arrays(), "old")
    before = path.read_bytes()
    with pytest.raises(SafetensorError):
        write_arrays(path, {"first": np.array(["no number"])}, "new")
    assert path.read_bytes() == before
    assert holds(path, "old")


def test_equal_arrays_and_probe_sets_are_equal_bytes(tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path / "tokenizer")
    for name in ("one", "two"):
        write_arrays(tmp_path / name / "arrays", dict(sorted(arrays().items(), reverse=name == "two")), "key")
        write_probe(tmp_path / name, chosen(tokenizer))
    for file in ("arrays", PROBE, WORDS, TOKENS):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()
    write_probe(tmp_path / "three", chosen(tokenizer, seed=1))
    assert (tmp_path / "one" / WORDS).read_bytes() != (tmp_path / "three" / WORDS).read_bytes()


def test_the_tables_of_a_probe_set_say_what_is_in_it(tmp_path: Path) -> None:
    tokenizer = pieces(tmp_path / "tokenizer")
    given = chosen(tokenizer)
    write_probe(tmp_path, given)
    write_snapshots(tmp_path, STEPS, {})
    run = Trajectory(tmp_path)
    assert run.probe["text"].tolist() == sentences()["sentence"].to_pylist()
    assert run.probe["label"].tolist() == sentences()["label"].to_pylist()
    for row, ids in enumerate(given.encoded.ids):
        kept = run.probe.iloc[row]
        assert kept["ids"].tolist() == ids.tolist()
        assert (kept["tokens"], kept["token_1"], kept["token_2"]) == (len(ids), ids[1], ids[2])
    assert np.flatnonzero(run.probe["shifted"]).tolist() == given.shifted.sentence.tolist() != []
    for text, sentence, position in zip(run.words["text"], run.words["sentence"], run.words["position"], strict=True):
        first = tokenizer.backend.id_to_token(int(given.encoded.ids[sentence][position]))
        assert text.startswith(first)
    assert run.tokens["sentence"].unique().tolist() == given.block.tolist()
    for sentence, rows in run.tokens.groupby("sentence"):
        ids = given.encoded.ids[int(sentence)]
        assert rows["token"].tolist() == ids.tolist()
        assert rows["position"].tolist() == list(range(len(ids)))
        assert rows["end"].tolist() == [True, *[False] * (len(ids) - 2), True]


def test_pairs_of_sentences_have_two_columns(tmp_path: Path) -> None:
    text = sentences()["sentence"].to_pylist()
    table = pa.table({"sentence1": text, "sentence2": text[::-1]})
    write_probe(tmp_path, chosen(pieces(tmp_path / "tokenizer"), table=table))
    found = pq.read_table(tmp_path / PROBE).to_pydict()
    assert (found["text1"], found["text2"]) == (text, text[::-1])
    assert "text" not in found
    assert set(found["label"]) == {-1}


def test_a_treebank_is_kept_where_there_is_one(tmp_path: Path) -> None:
    write_snapshots(tmp_path, STEPS, {})
    assert Trajectory(tmp_path).treebank is None
    begin = np.array([1, 2, 1])
    bank = Treebank(
        encoded=chosen(pieces(tmp_path / "tokenizer")).encoded,
        sentence=np.array([0, 0, 3]),
        begin=begin,
        end=begin + 1,
        text=["a", "film", "good"],
        tag=["DET", "NOUN", "ADJ"],
        depth=np.array([1, 0, 2]),
    )
    write_treebank(tmp_path, bank)
    found = Trajectory(tmp_path).treebank
    assert found is not None
    expected = {"sentence": [0, 0, 3], "text": bank.text, "tag": bank.tag, "depth": [1, 0, 2]}
    assert found.to_dict("list") == expected


def test_nothing_is_read_before_it_is_asked_for(tmp_path: Path) -> None:
    write_snapshots(tmp_path, STEPS, {})
    run = Trajectory(tmp_path)
    refused(lambda: run.arrays(run.best), "step-8.safetensors: cannot be read")
