"""Sentences from a user's file: the same from every format, classes in order, errors named."""

import hashlib
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from isoscope.base.errors import InputError
from isoscope.data.plain import Texts, read_tagged_texts, read_texts
from text_material import FORMATS, write

SENTENCES = ["plain", "a, comma", 'a "quoted" word', "naïve café 电影 🎬", "2020-01-01", "NA", "null", "plain"]
LABELS = ["neg", "pos", "neg", "mixed"] * 2


def read(path: Path, *, column: str | None = None, labels: str | None = None) -> Texts:
    return read_texts(path, column=column, labels=labels)


def refusal(path: Path, *, column: str | None = None, labels: str | None = None) -> str:
    with pytest.raises(InputError) as caught:
        read(path, column=column, labels=labels)
    assert "\n" not in str(caught.value)
    assert path.name in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("column", ["sentence", "text", "review"])
def test_every_format_gives_the_same_sentences_and_classes(tmp_path: Path, format: str, column: str) -> None:
    path = write(tmp_path / f"all.{format}", {"stars": LABELS, column: SENTENCES, "extra": ["0.5"] * 8})
    named = column if column == "review" else None
    found = read(path, column=named, labels="stars")
    assert found.classes == ("mixed", "neg", "pos")
    assert found.table.to_pydict() == {"sentence": SENTENCES, "label": [1, 2, 1, 0] * 2}
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    plain = read(path, column=named)
    assert plain.table.to_pydict() == {"sentence": SENTENCES}
    assert plain.classes == ()


def test_plain_text_is_a_sentence_a_line_whatever_ends_the_line(tmp_path: Path) -> None:
    """As an editor counts lines: a line separator within a sentence ends none."""
    path = tmp_path / "all.txt"
    path.write_bytes('\ufefffirst\r\n\n  second, "quoted" \rthird\u2028goes on\x85here\x0ctoo\n \t\nlast'.encode())
    found = read(path)
    expected = ["first", 'second, "quoted"', "third\u2028goes on\x85here\x0ctoo", "last"]
    assert found.table.to_pydict() == {"sentence": expected}
    assert found.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_bytes(b"")
    assert read(path).table.to_pydict() == {"sentence": []}


def test_empty_sentences_are_left_out_with_their_labels(tmp_path: Path) -> None:
    path = tmp_path / "all.csv"
    path.write_text("sentence,label\n one ,b\n,only\n   ,\ntwo,a\n", "utf-8")
    found = read(path, labels="label")
    assert found.classes == ("a", "b")
    assert found.table.to_pydict() == {"sentence": ["one", "two"], "label": [1, 0]}


@pytest.mark.parametrize(
    "name, content, said",
    [
        ("all.txt", "one\n\n  \ntwo\nthree\nfour\n", "all.txt: 2 of 6 rows are empty; left out"),
        ("all.txt", "one\ntwo\none\nthree\nfour\n", "all.txt: 1 of 5 rows repeat an earlier sentence; left out"),
        ("all.txt", "one\ntwo\nthree\nfour\n", None),
        ("all.csv", "text\none\n\ntwo\n\"\"\nthree\nfour\n", "all.csv, column 'text': 2 of 6 rows are empty; left out"),
        ("all.csv", 'text\n"one\n\nmore"\ntwo\nthree\nfour\n', None),
        ("all.csv", "text,n\none,1\n,2\n ,3\ntwo,4\none,5\nx,6\ny,7\n\n",
         "all.csv, column 'text': 2 of 7 rows are empty and 1 of 7 rows repeat an earlier sentence; left out"),
        ("all.tsv", "text\none\n\ntwo\nthree\nfour\n", "all.tsv, column 'text': 1 of 5 rows are empty; left out"),
        ("all.jsonl", '{"text": "a"}\n{"text": null}\n\n{"text": ""}\n{"text": "b"}\n{"n": 1}\n',
         "all.jsonl, column 'text': 3 of 5 rows are empty; left out"),
    ],
)  # fmt: skip
def test_rows_that_are_left_out_are_counted(tmp_path: Path, name: str, content: str, said: str | None) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    assert read(path).left_out == said


@pytest.mark.parametrize(
    "content, found", [("", "0 different sentences in 0 rows"), ("a\n\nb\na\nc\n", "3 different sentences in 5 rows")]
)
def test_a_file_of_too_few_sentences_is_named_with_its_rows(tmp_path: Path, content: str, found: str) -> None:
    path = tmp_path / "few.txt"
    path.write_text(content, "utf-8")
    with pytest.raises(InputError, match=f"few.txt: {found}; at least 4 are needed"):
        read(path).check_enough()
    path.write_text("a\nb\nc\nd\n", "utf-8")
    read(path).check_enough()


LISTS = pa.array([["x"], ["x", "y"], [], None])


@pytest.mark.parametrize(
    "values",
    [LISTS, LISTS.cast(pa.large_list(pa.string())), pa.array([{"x": 1}] * 4),
     pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int8())),
     pa.array(["[1, 2]", "[1]", "[1]", "[1, 2]"]), pa.array(["['x']", "['x', 'y']", "('z',)", "{}"])],
    ids=lambda values: str(values.type),
)  # fmt: skip
def test_labels_that_are_lists_are_one_clear_line(tmp_path: Path, values: pa.Array) -> None:
    path = write(tmp_path / "all.parquet", {"text": list("abcd"), "stars": values})
    assert re.search(r"column 'stars' holds .*; expected one class per row: ", refusal(path, labels="stars"))


@pytest.mark.parametrize("names", [["[UNK]", "b"], ["(good", "bad)"], ["{", "}"], ["(1)", "(2)"], ["[" * 5000, "b"]])
def test_classes_with_brackets_in_their_names_are_classes(tmp_path: Path, names: list[str]) -> None:
    path = write(tmp_path / "all.parquet", {"text": list("abcd"), "stars": names * 2})
    assert set(read(path, labels="stars").classes) == set(names)


def test_sentence_is_preferred_to_text_and_the_named_column_to_both(tmp_path: Path) -> None:
    path = write(tmp_path / "all.csv", {"text": ["a"], "sentence": ["b"], "third": ["c"]})
    for named, expected in ((None, "b"), ("text", "a"), ("third", "c")):
        assert read(path, column=named).table["sentence"].to_pylist() == [expected]


def test_a_treebank_gives_its_tokens_with_tags_unless_a_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "bank.parquet"
    rows = {"text": ["Don't stop", "x", " "], "tokens": [["do", "n't", "stop"], [" "], []]}
    pq.write_table(pa.table(rows | {"upos": [["AUX", "PART", "VERB"], ["X"], []]}), path)
    found = read_tagged_texts(path, column=None)
    assert found.table["sentence"].to_pylist() == ["do n't stop"]
    assert found.tagged == [(["do", "n't", "stop"], ["AUX", "PART", "VERB"])]
    assert found.left_out == "bank.parquet, columns 'tokens' and 'upos': 2 of 3 rows are empty; left out"
    pq.write_table(pa.table(rows | {"upos": [["AUX", "PART", "NOUN"], ["X"], []]}), path)
    assert read_tagged_texts(path, column=None).digest != found.digest
    assert read_tagged_texts(path, column="text") == read(path, column="text")
    assert read(path, column="text").tagged is None
    lines = tmp_path / "all.txt"
    lines.write_text("a b\n", "utf-8")
    assert read_tagged_texts(lines, column=None) == read(lines)


@pytest.mark.parametrize(
    "name, stars, classes, numbers",
    [
        ("all.csv", ["10", "2", "-1", "2"], ("-1", "2", "10"), [2, 1, 0, 1]),
        ("all.parquet", pa.array([10, 2, -1, 2], pa.int8()), ("-1", "2", "10"), [2, 1, 0, 1]),
        ("all.csv", ["10", "2", "x", "2"], ("10", "2", "x"), [0, 1, 2, 1]),
    ],
)
def test_integers_keep_their_order_and_their_names(
    tmp_path: Path, name: str, stars: Any, classes: tuple[str, ...], numbers: list[int]
) -> None:
    found = read(write(tmp_path / name, {"text": list("abcd"), "stars": stars}), labels="stars")
    assert (found.classes, found.table["label"].to_pylist()) == (classes, numbers)


@pytest.mark.parametrize(
    "name, content, options, said",
    [
        ("all.csv", "review,stars\na,1\n", {}, "no column 'text' (or 'sentence'; name it with --column); there are: "),
        ("all.csv", "text,stars\na,1\n", {"labels": "star"}, "no column 'star' (--labels); there are: text, stars"),
        ("all.csv", "review,stars\na,1\n", {"labels": "star"}, "no column 'text' (or 'sentence'; name it"),
        ("all.csv", "review,stars\na,1\n", {"labels": "stars"}, "no column 'text' (or 'sentence'; name it"),
        ("all.csv", "text\n" + "".join(f"s{k}\n" for k in range(21)), {"labels": "text"}, "21 values in 21 rows, so"),
        ("all.csv", "text,stars\na,1\n", {"column": "texts"}, "no column 'texts' (--column); there are: text, stars"),
        ("all.jsonl", "", {}, "; name it with --column); there are: none"),
        ("all.csv", "text,l\na,1\n,\nb,\n", {"labels": "l"}, "row 3: column 'l' is empty; fill it or drop the row"),
        ("all.csv", "text,l\na,1\nb,1\n,2\n", {"labels": "l"}, "column 'l' has only one value"),
        ("all.csv", "text,text\na,b\n", {}, "column 'text' repeats; there are: text, text"),
        ("all.csv", "text,l,l\na,b,c\n", {"labels": "l"}, "column 'l' repeats"),
        ("all.txt", "a\nb\n", {"labels": "l"}, "is plain text and has no columns; give csv, tsv, jsonl or parquet"),
        ("all.txt", "a\nb\n", {"column": "c"}, "all.txt: is plain text and has no columns"),
        ("all.jsonl", '{"text": "a", "l": [1, 2]}\n', {"labels": "l"}, "line 1: 'l' is [1, 2]; expected an integer or"),
        ("all.jsonl", '{"text": [1], "l": 1}\n', {"labels": "l"}, "line 1: 'text' is [1]; expected text"),
        ("all.txt", "text\ncaf\udce9\n", {}, "line 2, byte 4: 0xe9 is not UTF-8"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_named(
    tmp_path: Path, name: str, content: str, options: dict[str, str], said: str
) -> None:
    path = tmp_path / name
    assert "no such file" in refusal(path)
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    assert said in refusal(path, **options)
    assert "no such file" in refusal(tmp_path)


@pytest.mark.parametrize("values", [[["a"], ["b"]], [b"caf\xe9", b"b"], [1, 2]])
def test_a_parquet_column_that_is_no_text_is_named(tmp_path: Path, values: Any) -> None:
    assert "column 'text' holds" in refusal(write(tmp_path / "a.parquet", {"text": values}))
