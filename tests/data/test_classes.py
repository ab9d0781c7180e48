"""Labels as people write them: what is one class by mistake is said, what cannot be a class is refused."""

from pathlib import Path

import pytest

import text_material
from isoscope.base.errors import InputError
from isoscope.data.classes import read_classes
from isoscope.data.plain import read_texts
from text_material import FORMATS, refusal, write


def read(*labels: str) -> tuple[list[str], str]:
    found = read_classes(labels, "a.csv", "l")
    return [found.names[label] for label in labels], "\n".join(found.notes)


@pytest.mark.parametrize(
    "labels", [("pos", "neg"), ("0", "1"), ("-1", "01"), ("a.b", "c"), ("Paris, France", "Rome, Italy"), ("1.5x", "2")]
)
def test_labels_without_faults_are_as_they_are(labels: tuple[str, ...]) -> None:
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
    assert f"{joined!r} looks like several labels, but 1 such combinations are classes of their own" in said
    notes = read_classes(["a", "b", joined], "a.csv", "l", several=True).notes
    assert ["are labels of their own" in note for note in notes] == [True], "another separator stands between them"
    assert read_classes(["a", "b", "c"], "a.csv", "l", several=True).notes == ()


@pytest.mark.parametrize("kind", FORMATS)
def test_every_reader_says_the_same(tmp_path: Path, kind: str) -> None:
    """Float labels of pandas, which has them when one was missing."""
    path = write(tmp_path / f"a.{kind}", {"text": [f"t {n}" for n in range(40)], "class": [0.0, 1.0] * 20})
    corpus, texts = text_material.read(path), read_texts(path, column=None, labels="class")
    assert corpus.labels == texts.classes == ("0", "1")
    if kind != "parquet":
        assert corpus.notes == texts.notes == (f"{path}: column 'class': labels such as 0.0 are read as 0",)


def test_a_missing_label_among_floats_is_named_by_row(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", {"text": ["a", "b", "c"], "class": [0.0, float("nan"), 1.0]})
    assert refusal(path).startswith(f"{path}, row 2: column 'class' is null (1 in all)")
