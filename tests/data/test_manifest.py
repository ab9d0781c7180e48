"""A manifest counts the data correctly, and equal corpora give equal bytes.

A bag of words learns what single words tell, and nothing that only their order tells.
"""

import hashlib
import json
import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.data.corpus import Corpus
from isoscope.data.manifest import baselines, write


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


def test_it_counts_rows_words_and_duplicates_and_hashes_its_files(tmp_path: Path) -> None:
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
    made = write(CORPUS._replace(splits=dict.fromkeys(CORPUS.splits, pair)), tmp_path)
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


NOUNS = [f"noun{number}" for number in range(30)]


def generated(make, classes: int = 2, sizes: tuple[int, int, int] = (600, 200, 200)) -> Corpus:
    """Build a corpus; `make(random, label)` writes the text, or the two texts, of one example."""
    splits = {}
    for split, size in zip(("train", "validation", "test"), sizes, strict=True):
        draw = random.Random(split)
        labels = [row % classes for row in range(size)]
        columns = zip(*(make(draw, label) for label in labels), strict=True)
        names = ("sentence",) if (columns := list(columns)) and len(columns) == 1 else ("sentence1", "sentence2")
        splits[split] = pa.table(dict(zip(names, columns, strict=True)) | {"label": pa.array(labels, pa.int64())})
    return Corpus(splits, tuple(map(str, range(classes))), "made up", "CC0-1.0", None, {})


def word(draw: random.Random, label: int) -> tuple[str]:
    return (f"{draw.choice(NOUNS)} mark{label} {draw.choice(NOUNS)}",)


def adjacent(draw: random.Random, label: int) -> tuple[str]:
    """Both classes have the same words; "red" comes before "noun" in one class and after it in the other."""
    return (f"{draw.choice(NOUNS)} {'red thing' if label else 'thing red'} {draw.choice(NOUNS)}",)


def distant(draw: random.Random, label: int) -> tuple[str]:
    """The label is which of two distant words comes first: neither words nor neighbours predict it."""
    first, second = ("red", "blue") if label else ("blue", "red")
    between = " ".join(draw.choice(NOUNS) for _ in range(2))
    return (f"{draw.choice(NOUNS)} {first} {between} {second} {draw.choice(NOUNS)}",)


def paraphrase(draw: random.Random, label: int) -> tuple[str, str]:
    """Two sentences have class 1 if they name the same nouns: a single sentence does not predict it."""
    one = draw.sample(NOUNS, 4)
    other = draw.sample(one, 4) if label else draw.sample(sorted(set(NOUNS) - set(one)), 4)
    return " ".join(one), " ".join(other)


@pytest.mark.parametrize("make, classes, name, least, most", [
    (word, 2, "tfidf_unigrams", 1.0, 1.0),
    (word, 5, "tfidf_unigrams", 1.0, 1.0),
    (adjacent, 2, "tfidf_bigrams", 1.0, 1.0),
    (adjacent, 2, "tfidf_unigrams", 0.35, 0.65),
    (distant, 2, "tfidf_bigrams", 0.35, 0.65),
    (distant, 2, "tfidf_unigrams", 0.35, 0.65),
    (paraphrase, 2, "tfidf_unigrams", 0.95, 1.0),
])  # fmt: skip
def test_baselines_learn_words_and_neighbours_and_no_order_at_a_distance(
    make: Any, classes: int, name: str, least: float, most: float
) -> None:
    assert least <= baselines(generated(make, classes))[name]["test"]["accuracy"] <= most
