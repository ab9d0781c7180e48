"""A manifest counts the data correctly, and equal corpora give equal bytes."""

import hashlib
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.data.corpus import Corpus
from isoscope.data.manifest import describe, write


def table(*rows: tuple[str, int]) -> pa.Table:
    texts, labels = zip(*rows, strict=True)
    return pa.table({"sentence": texts, "label": pa.array(labels, pa.int64())})


TRAIN = [
    ("good film", 1),
    ("bad film", 0),
    ("good film", 1),
    ("good film", 0),
    ("a very long and very bad one", 0),
    ("ok", 1),
]
CORPUS = Corpus(
    {
        "train": table(*TRAIN),
        "validation": table(("bad film", 0), ("bad film", 0), ("ok", 1), ("Ok", 1)),
        "test": table(("ok", 1), ("new", 0), ("good film ", 1)),
    },
    ("neg", "pos"),
    "made up",
    "CC0-1.0",
    "v1",
    {"bayes_ceiling": 1.0},
)


def test_it_counts_rows_words_and_duplicates(tmp_path: Path) -> None:
    made = write(CORPUS, tmp_path, lengths={split: [3] * part.num_rows for split, part in CORPUS.splits.items()})
    assert made == json.loads((tmp_path / "manifest.json").read_text("utf-8"))
    assert {key: made[key] for key in ("source", "licence", "revision", "labels", "columns", "facts")} == {
        "source": "made up", "licence": "CC0-1.0", "revision": "v1", "labels": ["neg", "pos"],
        "columns": ["sentence"], "facts": {"bayes_ceiling": 1.0},
    }  # fmt: skip
    train = made["splits"]["train"]
    assert (train["rows"], train["labels"], train["duplicates"]) == (6, {"neg": 3, "pos": 3}, 2)
    assert train["words"] == {
        "min": 1, "mean": 2.667, "q05": 1.25, "q25": 2.0, "q50": 2.0, "q75": 2.0, "q95": 5.75, "max": 7
    }  # fmt: skip
    assert train["tokens"]["max"] == 3
    assert [made["splits"][split]["duplicates"] for split in ("validation", "test")] == [1, 0]
    # "Ok" and "good film " are texts of their own.
    assert made["shared"] == {"train/validation": 2, "train/test": 1, "validation/test": 1}
    assert made["baselines"].keys() == {"tfidf_unigrams", "tfidf_bigrams"}
    assert made["baselines"]["tfidf_bigrams"]["test"]["n"] == 3


def test_its_hashes_are_those_of_the_files(tmp_path: Path) -> None:
    made = write(CORPUS, tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {*made["files"], "manifest.json"}
    for name, entry in made["files"].items():
        data = (tmp_path / name).read_bytes()
        assert entry == {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}


def test_the_tables_come_back_with_text_and_label_only(tmp_path: Path) -> None:
    extra = CORPUS.splits["test"].append_column("note", pa.array(["x"] * 3)).select(["note", "label", "sentence"])
    write(CORPUS._replace(splits=CORPUS.splits | {"test": extra}), tmp_path)
    for split, expected in CORPUS.splits.items():
        assert pq.read_table(tmp_path / f"{split}.parquet").equals(expected)


def test_pairs_are_one_text(tmp_path: Path) -> None:
    pair = pa.table(
        {"sentence1": ["a b", "a b", "c"], "sentence2": ["d", "e f", "d"], "label": pa.array([0, 1, 1], pa.int64())}
    )
    made = describe(CORPUS._replace(splits=dict.fromkeys(CORPUS.splits, pair)), lengths=None, files={})
    assert made["columns"] == ["sentence1", "sentence2"]
    assert made["splits"]["train"]["words"]["max"] == 4
    assert made["splits"]["train"]["duplicates"] == 0
    assert made["shared"] == {"train/validation": 3, "train/test": 3, "validation/test": 3}


def test_equal_corpora_give_equal_bytes(tmp_path: Path) -> None:
    def chunked(part: pa.Table) -> pa.Table:
        """The same table as another reader might hand it over: in pieces, with metadata."""
        return pa.concat_tables([part.slice(0, 1), part.slice(1)]).replace_schema_metadata({"a": "b"})

    write(CORPUS, tmp_path / "one")
    write(CORPUS._replace(splits={split: chunked(part) for split, part in CORPUS.splits.items()}), tmp_path / "two")
    write(CORPUS._replace(source="other"), tmp_path / "three")
    one, two, three = (
        {path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("one", "two", "three")
    )
    assert one == two
    assert {name for name in one if one[name] != three[name]} == {"manifest.json"}
