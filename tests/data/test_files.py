"""Files of every format give the same corpus; errors name file, row and column."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from isoscope.data import files
from isoscope.data.columns import strings
from isoscope.platform.config.data import Splits
from text_material import FORMATS, LABELLED, SAME, read, refusal, write

TEXTS = ["plain", "a, comma", 'a "quoted" word', "naïve café 电影 🎬", "2020-01-01", "NA", "  spaces  ", "null"]
LABELS = ["neg", "pos"] * 4
DATA = {"text": TEXTS, "class": LABELS}
FOLDER = {"train": "train", "validation": "dev", "test": "test"}


@pytest.mark.parametrize("extension", FORMATS)
@pytest.mark.parametrize("labelled", [True, False])
def test_every_format_gives_the_same_corpus(tmp_path: Path, extension: str, labelled: bool) -> None:
    for stem in FOLDER.values():
        write(tmp_path / f"{stem}.{extension}", DATA | {"extra": [0.5] * 8})
    corpus = read(tmp_path, FOLDER, LABELLED if labelled else {"sentence": "text"})
    for table in corpus.splits.values():
        assert table.to_pydict() == {"sentence": TEXTS} | ({"label": [0, 1] * 4} if labelled else {})
    assert corpus.labels == (("neg", "pos") if labelled else ())
    assert corpus.source == f"local:{tmp_path.name}"
    assert set(corpus.facts["inputs"]) == {f"{stem}.{extension}" for stem in FOLDER.values()}


LONG = "first line\nsecond line, " + "x" * 3_000_000


@pytest.mark.parametrize(
    "name, content, texts",
    [
        ("train.csv", f'text,class\n"{LONG}",0\nb,1\n', [LONG, "b"]),
        ("train.csv", 'text,class\n"",0\nb,1\n', ["", "b"]),
        ("train.tsv", 'text\tclass\n"opened and not closed\t0\nnext\t1\n', ['"opened and not closed', "next"]),
    ],
    ids=["a quoted text may run over lines and be long", "an empty quoted text is a text", "tsv knows no quotes"],
)
def test_quotes(tmp_path: Path, name: str, content: str, texts: list[str]) -> None:
    (tmp_path / name).write_text(content, "utf-8")
    assert read(tmp_path, SAME).splits["train"]["sentence"].to_pylist() == texts


def test_pairs_keep_their_sides(tmp_path: Path) -> None:
    write(tmp_path / "train.parquet", {"q": list("abcd"), "p": list("efgh"), "y": [2, 0, 1, 0]})
    corpus = read(tmp_path, SAME, {"label": "y", "sentence1": "p", "sentence2": "q"})
    assert corpus.splits["test"].to_pydict() == {
        "sentence1": list("efgh"), "sentence2": list("abcd"), "label": [2, 0, 1, 0]
    }  # fmt: skip


def test_class_names_in_parquet_metadata_are_taken_over(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), **{"class": datasets.ClassLabel(names=["bad", "good"])})
    made = datasets.Dataset.from_dict({"text": list("abcd"), "class": [0, 1, 0, 1]}, features=features)
    made.to_parquet(tmp_path / "train.parquet")
    assert read(tmp_path, SAME).labels == ("bad", "good")


@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl"])
def test_bytes_that_are_not_utf8_are_named_by_line(tmp_path: Path, extension: str) -> None:
    path = write(tmp_path / f"train.{extension}", {"text": ["one", "café"], "class": [0, 1]})
    path.write_bytes(path.read_text("utf-8").encode("latin-1"))
    line = 2 if extension == "jsonl" else 3
    message = refusal(path)
    assert message.startswith(f"{path}, line {line}, byte ")
    assert "0xe9 is not UTF-8" in message


def test_a_column_that_repeats_in_parquet_is_named(tmp_path: Path) -> None:
    arrays = [pa.array(["a", "b"] * 2), pa.array(["c", "d"] * 2), pa.array([0, 1] * 2)]
    pq.write_table(pa.Table.from_arrays(arrays, ["text", "text", "class"]), tmp_path / "a.parquet")
    assert refusal(tmp_path / "a.parquet").startswith(f"{tmp_path / 'a.parquet'}: column 'text' repeats")


@pytest.mark.parametrize(
    "texts, said",
    [
        (["a", "b", None, None], ", row 3: column 'text' is null (2 in all)"),
        (pa.array(["a", "café".encode("latin-1"), "", ""], pa.binary()).view(pa.string()),
         ", row 2: column 'text' is not UTF-8"),
        (pa.array(["a", "b"] * 2, pa.binary()), ": column 'text' holds binary; expected text"),
    ],
)  # fmt: skip
def test_texts_in_parquet_that_are_none_are_named(tmp_path: Path, texts: Any, said: str) -> None:
    path = write(tmp_path / "a.parquet", {"text": texts, "class": [0, 1, 0, 1]})
    assert refusal(path).startswith(f"{path}{said}")


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.csv", "text,class\n,0\nb,1\n", ", row 1: column 'text' is null (1 in all); fill or drop the row"),
        ("a.csv", "text,class\na,\nb,1\n", ", row 1: column 'class' is null (1 in all); fill or drop the row"),
        ("a.csv", "text,class\na,0\nb,1,2\n", ", line 3: 3 cells, but the header has 2: 'b,1,2'; quote a text"),
        ("a.csv", "", ": is empty (0 bytes); its first line names the columns"),
        ("a.csv", "text,label\na,0\n", ": no column 'class' (for label); there are: text, label"),
        ("a.csv", "text,class\na,0\nb,0\nc,0\nd,0\n", "local:a.csv: train has only one class ('0')"),
        ("a.csv", "text,class\n", ": only a header, no rows; add rows below it"),
        ("a.csv", '"text","class"\n', ": only a header, no rows; add rows below it"),
        ("a.csv", "\n\n", ": is empty (2 bytes)"),
        ("a.csv", 'text,class\na,0\n"he said \\"good\\" ok",1\n', ", line 3: text follows a closing quote"),
        ("a.csv", 'text,class\n"a\nb",0\n"x" y,1\n', ", line 4: text follows a closing quote"),
        ("a.csv", 'text,class\na,0\nb,"1\nc,0\n', ", line 3: a quote opens and never closes; close it"),
        ("a.csv", "text,class\na,0\nb\n", ", line 3: 1 cells, but the header has 2: 'b'; add what is missing"),
        ("a.tsv", "text\tclass\na\t0\nb\tc\t1\n", ", line 3: 3 cells, but the header has 2: "),
        ("a.csv", "text,class\na,0\nb\0,1\n", ", line 3, byte 2: a NUL byte, which is no text; remove all: tr -d"),
        ("a.csv", "Text, class \na,0\n", ": no column 'text' (for sentence); there are: Text, ' class '; did"),
        ("a.csv", "text,class,text\na,0,b\n", ": column 'text' repeats; there are: text, class, text"),
        ("a.csv", ",class\na,0\n", ": no column 'text' (for sentence); there are: '', class"),
        ("a.csv", 'text,class\na,""\nb,1\n', ": column 'class' has labels of spaces only, or empty; fill them"),
        ("a.csv", "text,class\na,\"['x', 'y']\"\nb,1\n", ": column 'class' holds lists, such as ['x', 'y']; expected"),
        ("a.xls", "", ": unknown format; expected a name ending in parquet, csv, tsv, jsonl, txt; save the sheet"),
        ("a.json", "[]", ": unknown format; expected a name ending in parquet, csv, tsv, jsonl, txt; write one"),
        ("a.tsv", "text\tclass\na\t0.25\nb\t1\n", ": column 'class' holds numbers such as 0.25"),
        ("a.jsonl", '{"text": "a", "class": 0}\n{"text": "b", class: 1}\n', ", line 2: not JSON: Expecting property"),
        ("a.jsonl", '{"text": "a", "class": 0}\n' + "[" * 100_000, ", line 2: JSON nested too deeply; flatten it"),
        ("a.jsonl", '{"text": "a", "class": ' + "9" * 5000 + "}\n", ", line 1: not JSON: Exceeds the limit"),
        ("a.jsonl", '{"text": "a", "class": 0}\n\n[1]\n', ", line 3: expected one object per line, found list"),
        ("a.jsonl", '{"text": null, "class": 0}\n', ", row 1: column 'text' is null"),
        ("a.jsonl", '{"text": "a", "class": 0}\n{"class": 0}\n', ", row 2: column 'text' is null"),
        ("a.jsonl", '{"text": 5, "class": 0}\n', ", line 1: 'text' is 5; expected text"),
        ("a.jsonl", '{"text": "a", "class": 0.5}\n', ", line 1: 'class' is 0.5; expected an integer or text"),
        ("a.jsonl", '{"text": "\\ud83c", "class": 0}\n', ", line 1: 'text' contains an unpaired surrogate"),
        ("a.jsonl", '{"body": "a", "class": 0}\n', ": no column 'text' (for sentence); there are: body, class"),
        ("a.parquet", "no parquet", ": not valid parquet: "),
        ("a.xlsx", "", ": unknown format; expected a name ending in parquet, csv, tsv, jsonl"),
    ],
)  # fmt: skip
def test_bad_files_are_refused_in_one_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    path = tmp_path / name
    path.write_text(content, "utf-8")
    assert refusal(path).startswith(message if message.startswith("local:") else f"{path}{message}")


def test_folders_say_what_they_lack(tmp_path: Path) -> None:
    assert refusal(tmp_path / "gone", FOLDER) == f"{tmp_path / 'gone'}: no such file or folder"
    write(tmp_path / "train.csv", DATA)
    missing = refusal(tmp_path, FOLDER)
    assert missing == f"{tmp_path}: splits.validation: no dev.{{parquet,csv,tsv,jsonl,txt}}; the folder holds train.csv"
    write(tmp_path / "train.tsv", DATA)
    assert "train.csv and train.tsv both match; keep one" in refusal(tmp_path, FOLDER)
    assert "train.csv is a single file, which is all train; set null" in refusal(tmp_path / "train.csv", FOLDER)


@pytest.mark.parametrize("stem", ["../secret", "sub/secret", "{folder}/secret", "..", ".", "", "sub/../train", "a\0b"])
@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_no_split_is_read_from_elsewhere(tmp_path: Path, split: str, stem: str) -> None:
    splits = dict.fromkeys(FOLDER, "train") | {split: stem.format(folder=tmp_path)}
    with pytest.raises(ValidationError, match="is not a plain name; remove the folders"):
        Splits(**splits)


def repeated(path: Path, text: str, rows: int, *, stored: bool) -> Path:
    """Write a parquet file in which all rows share one text; `stored`: with the type of the table in Arrow."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [text])
    labels = pa.array([row % 2 for row in range(rows)])
    pq.write_table(pa.table({"text": texts, "class": labels}), path, compression="zstd", store_schema=stored)
    return path


@pytest.mark.parametrize("stored", [False, True])
def test_a_small_parquet_file_with_terabytes_of_text_is_refused_unread(tmp_path: Path, stored: bool) -> None:
    path = repeated(tmp_path / "bomb.parquet", "x" * 5_000_000, 300_000, stored=stored)
    assert path.stat().st_size < 2_000_000
    expected = f"{path}: its texts have 1,500.0 GB, more than 2.1 GB, when unpacked; give a file with fewer rows"
    assert refusal(path) == expected


def test_texts_that_repeat_are_read_up_to_a_number_of_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = files.read_file(repeated(tmp_path / "a.parquet", "a b", 50, stored=False), ["text", "class"])
    assert strings(found, "text", "").to_pylist() == ["a b"] * 50
    path = repeated(tmp_path / "bomb.parquet", "", 30_000, stored=False)
    monkeypatch.setattr(files, "MOST_BYTES", 100_000)
    assert refusal(path).startswith(f"{path}: its texts have 0.0 GB, more than")


def test_one_file_is_split_by_seed(tmp_path: Path) -> None:
    path = write(tmp_path / "all.jsonl", {"text": [f"text {row}" for row in range(100)], "class": [*range(4)] * 25})
    first, again, other = (read(path, seed=seed) for seed in (1, 1, 2))
    assert first == again
    assert first.splits["test"] != other.splits["test"]
    assert [first.splits[split].num_rows for split in ("train", "validation", "test")] == [52, 24, 24]
