"""A manifest counts the data correctly, and equal corpora give equal bytes.

A bag of words learns what single words tell, and nothing that only their order tells.
"""

import hashlib
import json
import random
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import Ridge

from isoscope.data.baselines import baselines, overlap
from isoscope.data.corpus import Corpus
from isoscope.data.manifest import nearly, write


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
    assert made["baselines"].keys() == {"majority_class", "tfidf_unigrams", "tfidf_bigrams"}
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


SENTENCES = st.lists(st.text("aB .!\t", min_size=1, max_size=4), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(train=SENTENCES, test=SENTENCES)
def test_nearly_equal_texts_are_at_least_the_equal_ones(train: list[str], test: list[str]) -> None:
    splits = {"train": train, "validation": ["other"], "test": test}
    corpus = Corpus({split: pa.table({"sentence": own}) for split, own in splits.items()}, (), "s", "MIT", None, {})
    with TemporaryDirectory() as folder:
        made = write(corpus, Path(folder) / "task")
    exact, near = (made[key]["train/test"] for key in ("shared", "shared_nearly"))
    assert len({*train} & {*test}) == exact <= near <= len({*test})


def test_letters_whose_accents_are_apart_are_near() -> None:
    """As macOS and some scanners write them."""
    assert {nearly((normalize(form, "Sää on kirkas, Ärgernis"),)) for form in ("NFC", "NFD")} == {
        ("sää on kirkas, ärgernis",)
    }


def test_case_spaces_and_signs_at_the_end_are_near_and_words_and_their_order_are_not(tmp_path: Path) -> None:
    test = ["a good FILM", "A good  film.", " a good film !", "A good, film", "a film good", "...", "a good films"]
    splits = {"train": ["A good film", "!!!", "other"], "validation": ["none"], "test": test}
    corpus = Corpus({split: pa.table({"sentence": own}) for split, own in splits.items()}, (), "s", "MIT", None, {})
    made = write(corpus, tmp_path)
    assert (made["shared"]["train/test"], made["shared_nearly"]["train/test"]) == (0, 3)
    assert (made["target"], made["baselines"]) == (None, {})


PAIRS = {"sentence1": ["a red dog", "one two", "x", "big cat"] * 30, "sentence2": ["a dog", "three", "x y", "cat"] * 30}


def of_target(values: pa.Array, name: str, labels: tuple[str, ...] = ()) -> Corpus:
    table = pa.table({one: [f"{text} {row % 7}" for row, text in enumerate(own)] for one, own in PAIRS.items()})
    table = table.append_column(name, values)
    parts = {"train": table.slice(0, 80), "validation": table.slice(80, 20), "test": table.slice(100)}
    return Corpus(parts, labels, "s", "MIT", None, {})


def test_scores_have_the_mean_and_ridge_regression_as_baselines() -> None:
    """Ridge on TF-IDF equals scikit-learn's pipeline, its correlations scipy's."""
    values = [2.0 + (row % 4) + (row % 7) / 10 for row in range(120)]
    corpus = of_target(pa.array(values), "score")
    found = baselines(corpus)
    assert list(found) == ["mean_score", "tfidf_unigrams", "tfidf_bigrams", "word_overlap"]
    true = np.array(values[100:])
    mean = np.mean(values[:80])
    assert found["mean_score"]["test"] == pytest.approx(
        {"n": 20, "spearman": 0, "pearson": 0, "rmse": np.sqrt(((true - mean) ** 2).mean()),
         "mae": np.abs(true - mean).mean()}, abs=1e-6)  # fmt: skip

    def side(number: int) -> list[str]:
        return corpus.splits["train"][f"sentence{number}"].to_pylist()

    bag = TfidfVectorizer(token_pattern=r"\w+").fit(side(1) + side(2))
    both = [[bag.transform(part[f"sentence{one}"].to_pylist()).toarray() for one in (1, 2)]
            for part in (corpus.splits["train"], corpus.splits["test"])]  # fmt: skip
    train, test = (np.hstack([one, other, np.abs(one - other)]) for one, other in both)
    predicted = Ridge(alpha=1.0).fit(train, values[:80]).predict(test)
    own = found["tfidf_unigrams"]["test"]
    assert own["pearson"] == pytest.approx(pearsonr(predicted, true).statistic, abs=1e-4)
    assert own["rmse"] == pytest.approx(np.sqrt(((predicted - true) ** 2).mean()), rel=1e-3)
    assert own["spearman"] == pytest.approx(spearmanr(predicted, true).statistic, abs=0.01)
    assert [*own][:2] == ["n", "spearman"]


def test_labels_have_the_best_constant_set_and_one_model_each_as_baselines() -> None:
    """A label of words is learned, a label of all rows and a label of none are constant."""
    sets = [[0, 2] if row % 4 == 0 else [2] for row in range(120)]
    found = baselines(of_target(pa.array(sets), "labels", ("dog", "never", "always")))
    assert found["frequent_labels"]["test"]["micro_f1"] == pytest.approx(2 * 20 / (20 + 25), abs=1e-6)
    for name in ("tfidf_unigrams", "tfidf_bigrams"):
        assert found[name]["test"]["subset_accuracy"] == 1
    # Of the four pairs only "a red dog", "a dog" has two words of three that both have.
    assert found["word_overlap"]["test"]["micro_f1"] > found["frequent_labels"]["test"]["micro_f1"]


def test_words_that_both_texts_have_are_shares_of_all_words_and_of_each_side() -> None:
    assert overlap(["a", "b", "b", "c"], ["b", "c", "d"]) == (2 / 4, 2 / 3, 2 / 3)
    assert overlap([], ["a"]) == overlap([], []) == (0, 0, 0)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_constant_of_classes_is_the_majority_of_train(classes: int) -> None:
    found = baselines(generated(word, classes))["majority_class"]["test"]
    assert (found["n"], found["accuracy"], found["matthews"]) == (200, pytest.approx(1 / classes), 0)
    found = baselines(generated(paraphrase))
    assert found["word_overlap"]["test"]["accuracy"] == 1 > found["majority_class"]["test"]["accuracy"]
