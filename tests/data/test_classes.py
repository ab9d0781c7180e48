"""Labels as people write them: what is one class by mistake is said, what cannot be a class is refused."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.data import files
from isoscope.data.classes import read_classes
from isoscope.data.plain import read_texts


def read(*labels: str) -> tuple[list[str], str]:
    found = read_classes(labels, "a.csv", "l")
    return [found.names[label] for label in labels], "\n".join(found.notes)


def test_labels_without_faults_are_as_they_are() -> None:
    for labels in (
        ("pos", "neg"),
        ("0", "1"),
        ("-1", "01"),
        ("a.b", "c"),
        ("Paris, France", "Rome, Italy"),
        ("1.5x", "2"),
    ):
        assert read(*labels) == ([*labels], "")


@pytest.mark.parametrize("label", ["pos ", " pos", "pos\t", "pos\u00a0", "\u3000pos"])
def test_spaces_around_labels_are_left_out_and_said(label: str) -> None:
    names, said = read(label, "pos", "neg")
    assert names == ["pos", "pos", "neg"]
    assert said == f"a.csv: column 'l': spaces around labels are left out, such as those of {label!r}"


@pytest.mark.parametrize("one, other", [("Pos", "pos"), ("very good", "very_good"), ("ﬁne", "fine"), ("e\u0301", "é")])
def test_classes_that_differ_only_in_form_are_named_in_pairs(one: str, other: str) -> None:
    names, said = read(one, other, "x")
    assert names == [one, other, "x"]
    first, second = sorted((one, other))
    assert f"{first!r} and {second!r} differ only in case or form, but are classes of their own" in said


@pytest.mark.parametrize(
    "labels, names",
    [(("0.0", "1.0"), ["0", "1"]), (("0", "1.0", "2."), ["0", "1", "2"]), (("-1.0", "1e1"), ["-1", "10"])],
)
def test_whole_numbers_are_integers(labels: tuple[str, ...], names: list[str]) -> None:
    found, said = read(*labels)
    assert found == names
    assert "are read as" in said


@pytest.mark.parametrize(
    "labels, expected",
    [
        (("0.5", "1.0"), "holds numbers such as 0.5; classes are integers or text"),
        (("1e99999999", "1"), "holds numbers such as 1e99999999"),
        (("", "a"), "has labels of spaces only, or empty"),
        ((" ", "a"), "has labels of spaces only, or empty"),
        (("['a', 'b']", "a"), "holds lists, such as"),
    ],
)
def test_what_is_no_class_is_refused(labels: tuple[str, ...], expected: str) -> None:
    with pytest.raises(InputError, match=r"^a\.csv: column 'l' ") as caught:
        read(*labels)
    assert expected in str(caught.value)


@pytest.mark.parametrize("joined", ["a|b", "a; b", "a,b", "b|c"])
def test_names_of_several_labels_are_said(joined: str) -> None:
    _, said = read("a", "b", joined)
    assert f"{joined!r} looks like several labels; each text has one class" in said


@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_every_reader_says_the_same(tmp_path: Path, kind: str) -> None:
    """Float labels of pandas, which has them when one was missing."""
    path, number = tmp_path / f"a.{kind}", range(40)
    if kind == "parquet":
        pq.write_table(pa.table({"text": [f"t {n}" for n in number], "l": [float(n % 2) for n in number]}), path)
    elif kind == "jsonl":
        path.write_text("".join(f'{{"text": "t {n}", "l": {n % 2}.0}}\n' for n in number))
    else:
        sign = "," if kind == "csv" else "\t"
        path.write_text(f"text{sign}l\n" + "".join(f"t {n}{sign}{n % 2}.0\n" for n in number))
    splits = {"train": "train", "validation": None, "test": None}
    columns = {"sentence": "text", "label": "l"}
    corpus = files.read(path, columns=columns, splits=splits, held_out=0.1, seed=0, licence="x")
    texts = read_texts(path, column=None, labels="l")
    assert corpus.labels == texts.classes == ("0", "1")
    if kind != "parquet":
        assert corpus.notes == texts.notes == (f"{path}: column 'l': labels such as 0.0 are read as 0",)


def test_a_missing_label_among_floats_is_named_by_row(tmp_path: Path) -> None:
    values = pa.array([0.0, float("nan"), 1.0])
    pq.write_table(pa.table({"text": ["a", "b", "c"], "l": values}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match=r"a\.parquet, row 2: column 'l' is null \(1 in all\)"):
        files.read(
            tmp_path / "a.parquet",
            columns={"sentence": "text", "label": "l"},
            splits={"train": "train", "validation": None, "test": None},
            held_out=0.1,
            seed=0,
            licence="x",
        )
