"""Scores and sets of labels read alike from every format; folders of `datasets` and plain text are read, too."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import ValidationError

from isoscope.base.errors import InputError
from isoscope.data import manifest
from isoscope.platform.config.data import Columns, Local
from isoscope.platform.report.task_section import task
from text_material import FORMATS, SAME, read, refusal, write

TEXTS = [f"text {row}" for row in range(6)]
SETS = [["red", "blue"], [], ["blue"], [" red", "red "], ["10"], ["9", "blue"]]
SCORES = [0.1, 2, -3.5, 1e3, 0.0, 5.0]
SCORED, SEVERAL = {"sentence": "text", "score": "y"}, {"sentence": "text", "labels": "y"}


def prepared(path: Path, to: Path, columns: dict[str, str], **changes: Any) -> dict[str, bytes]:
    manifest.write(read(path, SAME, columns, **changes), to)
    return {name: (to / name).read_bytes() for name in ("train.parquet", "validation.parquet", "test.parquet")}


def test_lists_and_separated_text_give_identical_tables(tmp_path: Path) -> None:
    joined = ["|".join(own) for own in SETS]
    files = [
        (write(tmp_path / "csv" / "train.csv", {"text": TEXTS, "y": joined}), "|"),
        (write(tmp_path / "tsv" / "train.tsv", {"text": TEXTS, "y": joined}), "|"),
        (write(tmp_path / "semicolon" / "train.csv", {"text": TEXTS, "y": ["; ".join(own) for own in SETS]}), ";"),
        (write(tmp_path / "jsonl" / "train.jsonl", {"text": TEXTS, "y": SETS}), None),
        (write(tmp_path / "parquet" / "train.parquet", {"text": TEXTS, "y": SETS}), None),
        (write(tmp_path / "both" / "train.parquet", {"text": TEXTS, "y": joined}), "|"),
    ]
    made = [prepared(path.parent, tmp_path / f"to {path.parent.name}", SEVERAL, separator=sign) for path, sign in files]
    assert all(one == made[0] for one in made)
    table = pq.read_table(tmp_path / "to csv" / "train.parquet")
    assert table.schema.field("labels").type.value_type == pa.int64()
    found = json.loads((tmp_path / "to csv" / "manifest.json").read_text("utf-8"))
    assert (found["target"], found["labels"]) == ("labels", ["10", "9", "blue", "red"])
    assert table["labels"].to_pylist() == [[2, 3], [], [2], [3], [0], [1, 2]]
    train = found["splits"]["train"]
    assert (train["labels"], train["cardinality"]) == ({"10": 1, "9": 1, "blue": 3, "red": 2}, 1.167)


@pytest.mark.parametrize("extension", FORMATS)
def test_scores_are_the_numbers_of_every_format(tmp_path: Path, extension: str) -> None:
    write(tmp_path / f"train.{extension}", {"text": TEXTS, "y": pa.array(SCORES) if extension == "parquet" else SCORES})
    manifest.write(read(tmp_path, SAME, SCORED), tmp_path / "to")
    assert pq.read_table(tmp_path / "to" / "test.parquet")["score"].to_pylist() == SCORES
    found = json.loads((tmp_path / "to" / "manifest.json").read_text("utf-8"))
    assert (found["target"], found["labels"], found["splits"]["test"]["labels"]) == ("score", [], {})
    assert found["splits"]["test"]["score"]["max"] == 1000.0


def test_integer_labels_are_named_as_the_library_names_them(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(
        text=datasets.Value("string"), y=datasets.List(datasets.ClassLabel(names=["joy", "fear", "anger"]))
    )
    made = datasets.Dataset.from_dict({"text": TEXTS, "y": [[0, 2], [], [2], [1], [1, 0], [0]]}, features=features)
    made.to_parquet(tmp_path / "train.parquet")
    corpus = read(tmp_path, SAME, SEVERAL)
    assert corpus.labels == ("joy", "fear", "anger")
    assert corpus.splits["train"]["labels"].to_pylist() == [[0, 2], [], [2], [1], [0, 1], [0]]


@pytest.mark.parametrize(
    "name, content, columns, separator, message",
    [
        ("a.csv", "text,y\na,1\nb,high\n", SCORED, None, ", row 2: column 'y' is 'high'; expected a finite number"),
        ("a.csv", "text,y\na,1\nb,nan\n", SCORED, None, ", row 2: column 'y' is 'nan'; expected a finite number"),
        ("a.csv", 'text,y\na,1\nb,"1,5"\n', SCORED, None, ", row 2: column 'y' is '1,5'; expected a finite number"),
        ("a.csv", "text,y\na,1_0\nb,1\n", SCORED, None, ", row 1: column 'y' is '1_0'; expected a finite number"),
        ("a.csv", "text,y\na,\nb,1\n", SCORED, None, ", row 1: column 'y' is null (1 in all); fill or drop the row"),
        ("a.jsonl", '{"text": "a", "y": true}\n', SCORED, None, ", row 1: column 'y' is 'true'; expected a finite"),
        ("a.jsonl", '{"text": "a", "y": 1e999}\n', SCORED, None, ", row 1: column 'y' is 'inf'; expected a finite"),
        ("a.jsonl", '{"text": "a", "y": [1]}\n', SCORED, None, ", line 1: 'y' is [1]; expected a number"),
        ("a.csv", "text,y\na,1\nb,6e300\n", SCORED, None, ", row 2: column 'y' is '6e300'; expected a finite number"),
        ("a.csv", "text,y\n" + "".join(f"{n},3\n" for n in range(20)), SCORED, None, "the same score: 3.0; there is"),
        ("a.csv", "text,y\n" + "".join(f"{n},{17 * 10**8 + n}\n" for n in range(50)), SCORED, None,
         "at most, and in single precision numbers of their size are 128 apart; subtract a constant"),
        ("a.csv", "text,y\n" + "".join(f"{n},{n}e-90\n" for n in range(50)), SCORED, None,
         "e-89 at most, which tables would show as 0; multiply them by a constant"),
        ("a.csv", "text,y\n" + "".join(f"{n},b\n" for n in range(20)), SEVERAL, "|", "the same labels: ['b']; there"),
        ("a.csv", "text,y\na,b|c\n", SEVERAL, "", ": column 'y' holds text; give lists of labels, or set"),
        ("a.csv", "text,y\na,b|c\n", SEVERAL, None, ": column 'y' holds text; give lists of labels, or set"),
        ("a.csv", "text,y\n" + "a,\nb,|\nc,\nd,\n" * 9, SEVERAL, "|", "local:a.csv: no row of train has a"),
        ("a.jsonl", '{"text": "a", "y": ["b", null]}\n', SEVERAL, None, ": column 'y' has rows or labels that are"),
        ("a.jsonl", '{"text": "a", "y": ["b", {}]}\n', SEVERAL, None, ", line 1: 'y': item 2 is {}; expected an"),
        ("a.jsonl", '{"text": "a", "y": ["b"]}\n{"text": "a", "y": "b"}\n', SEVERAL, None,
         ", line 2: 'y': some rows have a list, others have text"),
        ("a.jsonl", '{"text": "a", "y": ["b", ""]}\n', SEVERAL, None, ": column 'y' has labels of spaces only"),
        ("a.txt", "one\n\ntwo\n", {"sentence": "text", "label": "y"}, None, ": no column 'y' (for label); there are:"),
    ],
)  # fmt: skip
def test_targets_that_are_none_are_named(
    tmp_path: Path, name: str, content: str, columns: dict[str, str], separator: str | None, message: str
) -> None:
    (path := tmp_path / name).write_text(content, "utf-8")
    with pytest.raises(InputError) as caught:
        read(path, columns=columns, separator=separator)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_label_that_train_lacks_is_named(tmp_path: Path) -> None:
    write(tmp_path / "train.jsonl", {"text": TEXTS, "y": SETS})
    write(tmp_path / "dev.jsonl", {"text": ["a", "b"], "y": [["red"], ["blue", "green"]]})
    splits = {"train": "train", "validation": "dev", "test": "train"}
    expected = f"{tmp_path / 'dev.jsonl'}, row 2: label 'green' does not occur in train (10, 9, blue, red)"
    assert refusal(tmp_path, splits, SEVERAL) == expected


def test_classes_that_look_like_several_labels_are_noted_with_the_cure(tmp_path: Path) -> None:
    path = write(
        tmp_path / "a.csv", {"text": [f"text {row}" for row in range(40)], "class": ["a", "b", "a;b", "b;c"] * 10}
    )
    (note,) = read(path).notes
    assert note.endswith("name the column as data.source.columns.labels, and set data.source.separator to ';'")


def test_plain_text_is_a_text_task_of_its_lines(tmp_path: Path) -> None:
    (path := tmp_path / "a.txt").write_bytes("\ufefffirst\r\n\r\n  second one \n\nthird".encode())
    (tmp_path / "train.txt").write_bytes(path.read_bytes())
    corpus = read(tmp_path, SAME, {"sentence": "text"})
    assert corpus.splits["train"].to_pydict() == {"sentence": ["first", "second one", "third"]}
    assert corpus.labels == ()


def test_folders_of_datasets_are_read_by_the_names_of_their_splits(tmp_path: Path) -> None:
    datasets = pytest.importorskip("datasets")
    features = datasets.Features(text=datasets.Value("string"), **{"class": datasets.ClassLabel(names=["no", "yes"])})

    def part(size: int) -> Any:
        columns = {"text": [f"text {size} {row}" for row in range(size)], "class": [row % 2 for row in range(size)]}
        return datasets.Dataset.from_dict(columns, features=features)

    whole = datasets.DatasetDict({"train": part(20).shuffle(seed=0), "dev": part(4)})
    whole.save_to_disk(tmp_path / "dict")
    splits = {"train": "train", "validation": "dev", "test": None}
    corpus = read(tmp_path / "dict", splits)
    assert corpus.labels == ("no", "yes")
    assert [table.num_rows for table in corpus.splits.values()] == [16, 4, 4]
    everything = corpus.splits["train"]["sentence"].to_pylist() + corpus.splits["test"]["sentence"].to_pylist()
    assert {*everything} == {*whole["train"]["text"]}
    for name in corpus.facts["inputs"]:  # type: ignore[attr-defined]
        assert (tmp_path / "dict" / name).is_file()
    assert refusal(tmp_path / "dict", splits | {"test": "held"}).endswith("no split 'held'; it has train, dev")
    part(20).save_to_disk(tmp_path / "single")
    assert read(tmp_path / "single").splits["validation"].num_rows == 4
    assert "is a single data set, which is all train; set null" in refusal(tmp_path / "single", splits)
    (tmp_path / "single" / "data-00000-of-00001.arrow").unlink()
    assert "single: not a whole folder of datasets.save_to_disk" in refusal(tmp_path / "single")


@pytest.mark.parametrize("several", [False, True])
def test_the_page_speaks_of_the_target_that_a_task_has(tmp_path: Path, several: bool) -> None:
    path = write(tmp_path / "train.jsonl", {"text": TEXTS, "y": SETS if several else SCORES})
    made = manifest.write(read(path.parent, SAME, SEVERAL if several else SCORED), tmp_path / "to")
    shown = task("reviews", made)
    words = json.dumps(shown, ensure_ascii=False).casefold()
    assert "class" not in words
    assert several or "accuracy" not in words
    assert shown["splits"][0]["balance"] == (
        "10 1 (16.7%), 9 1 (16.7%), blue 3 (50.0%), red 2 (33.3%), 1.17 labels per row"
        if several
        else "-3.5 / 1.05 / 751.25 / 1000"
    )
    assert (
        "train/test 6; validation/test 6 (texts of the second split"
        in shown["about"]["Nearly equal texts in two splits"]
    )


def test_two_targets_and_a_separator_without_labels_are_refused() -> None:
    with pytest.raises(ValidationError, match="label and score name two targets; a task has one"):
        Columns(sentence="a", label="b", score="c")
    splits = {"train": "train", "validation": None, "test": None}
    given = {
        "kind": "local",
        "path": "a.csv",
        "columns": {"sentence": "a"},
        "splits": splits,
        "held_out": 0.1,
        "seed": 0,
    }
    with pytest.raises(ValidationError, match=r"separator splits the column of columns\.labels"):
        Local.model_validate(given | {"held_out": 0.1, "seed": 0, "licence": "MIT", "separator": "|"})
