"""Train defines the label numbers, held-out splits are valid parts of train, and bad data is refused in one line."""

import json
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from isoscope.base.errors import InputError
from isoscope.data.corpus import Corpus, build, hold_out, texts
from isoscope.data.files import Raw

COLUMNS = {"sentence": "text", "label": "class"}


def assemble(held_out: float = 0.25, seed: int = 0, names: tuple[str, ...] = (), **labels: list) -> Corpus:
    about = {"huggingface": json.dumps({"info": {"features": {"class": {"names": names}}}})} if names else None
    raw = {}
    for split, values in labels.items():
        table = pa.table({"text": [f"{split} {row}" for row in range(len(values))], "class": values})
        raw[split] = Raw(f"{split}.csv", table.replace_schema_metadata(about))
    return build(raw, columns=COLUMNS, held_out=held_out, seed=seed, source="source", licence="CC0-1.0")


@pytest.mark.parametrize(
    "labels, names, numbers",
    [
        ([10, 9, 10, 9], ("9", "10"), [1, 0, 1, 0]),
        (["10", "9", "10", "9"], ("9", "10"), [1, 0, 1, 0]),
        (["pos", "neg", "pos", "neg"], ("neg", "pos"), [1, 0, 1, 0]),
        ([True, False, True, False], ("false", "true"), [1, 0, 1, 0]),
        ([-1, 1, 0, 1], ("-1", "0", "1"), [0, 2, 1, 2]),
        (["01", "1", "01", "1"], ("01", "1"), [0, 1, 0, 1]),
        (["b", "9", "10", "b"], ("10", "9", "b"), [2, 1, 0, 2]),
    ],
)
def test_integers_keep_their_order_and_names_are_sorted(labels: list, names: tuple[str, ...], numbers: list) -> None:
    made = assemble(train=labels, validation=labels, test=labels)
    assert made.labels == names
    assert made.splits["train"]["label"].to_pylist() == numbers
    assert made.splits["train"].schema.types == [pa.string(), pa.int64()]


def test_names_of_integer_classes_are_taken_over() -> None:
    labels = [0, 2, 0, 2]  # class 1 of three does not occur
    made = assemble(names=("bad", "fair", "good"), train=labels, validation=labels, test=labels)
    assert made.labels == ("bad", "good")
    assert made.splits["test"]["label"].to_pylist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    "test, message",
    [
        ([0, 1, -1, -1], "test.csv, row 3: label '-1' does not occur in train (0, 1)"),
        (["0", "1", "2"], "test.csv, row 3: label '2' does not occur in train (0, 1)"),
        (["yes", "no"], "test.csv, row 1: label 'yes' does not occur in train (0, 1)"),
        ([0.5, 1.0], "train.csv: column 'class' holds numbers such as 0.5; classes are integers or text"),
        (["0.5", "1"], "train.csv: column 'class' holds numbers such as 0.5; classes are integers or text"),
        ([0, None, 1], "test.csv, row 2: column 'class' is null (1 in all)"),
        ([], "test.csv: no rows; add rows (or set validation or test to null, to hold it out from train)"),
        ([1, 1], "source: test has only one class ('1'); a classifier needs two or more"),
    ],
)
def test_labels_that_train_cannot_teach_are_refused(test: list, message: str) -> None:
    with pytest.raises(InputError) as caught:
        assemble(train=[0, 1], validation=[0, 1], test=test)
    assert str(caught.value).startswith(message)


def test_class_names_that_repeat_are_refused() -> None:
    with pytest.raises(InputError, match="source: class names repeat: no, no"):
        assemble(names=("no", "no"), train=[0, 1], validation=[0, 1], test=[0, 1])


@pytest.mark.parametrize(
    "columns, message",
    [
        (
            {"sentence": "text", "label": "target"},
            "train.csv: no column 'target' (for label); there are: text, class",
        ),
        ({"sentence1": "text", "label": "class"}, "columns: expected sentence, or sentence1 and"),
        ({"sentence1": "text"}, "columns: expected sentence, or sentence1 and sentence2, with at most one of"),
        ({"sentence1": "text", "sentence2": "mt"}, "train.csv: no column 'mt' (for sentence2); there are: text, class"),
        (
            {"sentence": "text"},
            "source: train has 2 rows with 2 different texts, but train and each split that is held",
        ),
        (COLUMNS, "source: class '0' has 1 rows with 1 different texts, but train and each split that is held out"),
        ({"sentence": "class", "label": "class"}, "columns: each must name a different column; got class, class"),
        ({"sentence": "class", "label": "text"}, "train.csv: column 'class' holds int64; expected text"),
    ],
)
def test_columns_that_are_not_there_are_refused(columns: dict[str, str], message: str) -> None:
    raw = {"train": Raw("train.csv", pa.table({"text": ["a", "b"], "class": [0, 1]}))}
    with pytest.raises(InputError) as caught:
        build(raw, columns=columns, held_out=0.25, seed=0, source="source", licence="CC0-1.0")
    assert str(caught.value).startswith(message)


rows = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 2)), min_size=60, max_size=200)


@settings(max_examples=60, deadline=None)
@given(rows=rows, seed=st.integers(0, 5), fraction=st.sampled_from([0.1, 0.2, 0.3]))
def test_what_is_held_out_is_a_lawful_part_of_train(rows: list[tuple[int, int]], seed: int, fraction: float) -> None:
    """Nothing is lost or doubled; equal texts stay together and away from a given split; each class gives its share."""
    rows += [
        (100 + 3 * row + label, label) for row in range(20) for label in range(3)
    ]  # every class has texts of its own
    train = pa.table(
        {"sentence": [f"text {text}" for text, _ in rows], "label": pa.array([label for _, label in rows], pa.int64())}
    )
    given_test = pa.table({"sentence": ["text 3", "text 5"], "label": [0, 1]})
    parts = hold_out({"train": train, "test": given_test}, ["validation"], fraction=fraction, seed=seed, source="s")
    pairs = {split: list(zip(*table.to_pydict().values(), strict=True)) for split, table in parts.items()}
    everything = list(zip(*train.to_pydict().values(), strict=True))
    assert Counter(pairs["train"]) + Counter(pairs["validation"]) == Counter(everything)
    held = set(texts(parts["validation"]))
    assert not held & set(texts(parts["train"]))
    assert not held & set(texts(given_test))
    everywhere, there = (Counter(label for _, label in part) for part in (everything, pairs["validation"]))
    for label, count in everywhere.items():
        quota = round(fraction * count)
        assert min(quota, 20) <= there[label] <= quota  # exact, unless texts that repeat do not fit
    # The order of rows within a part is that of train.
    positions = [everything.index(pair) for pair in dict.fromkeys(pairs["validation"])]
    assert positions == sorted(positions)


def test_shares_are_exact_when_texts_differ() -> None:
    labels = [0] * 100 + [1] * 40 + [2] * 7
    made = assemble(held_out=0.1, train=labels)
    counts = {split: Counter(table["label"].to_pylist()) for split, table in made.splits.items()}
    assert counts["validation"] == counts["test"] == {0: 10, 1: 4, 2: 1}
    assert counts["train"] == {0: 80, 1: 32, 2: 5}
    assert made.facts == {"held_out": {"validation": 0.1, "test": 0.1}}


def test_the_draw_depends_on_seed_and_text_and_not_on_the_order_of_rows() -> None:
    train = pa.table({"sentence": [f"text {row}" for row in range(200)], "label": [row % 2 for row in range(200)]})

    def drawn(table: pa.Table, seed: int) -> set[str]:
        parts = hold_out({"train": table}, ["validation", "test"], fraction=0.2, seed=seed, source="s")
        return set(parts["validation"]["sentence"].to_pylist())

    assert drawn(train, 0) == drawn(train.take(list(range(199, -1, -1))), 0)
    overlap = len(drawn(train, 0) & drawn(train, 1))
    assert 1 <= overlap <= 20  # of 40, by chance 8


@pytest.mark.parametrize(
    "labels, fraction, message",
    [
        ([0, 1] * 20, 0.5, "held_out: 0.5 of train for each of validation, test: must leave rows on both sides"),
        ([0, 1] * 20, 0.0, "held_out: 0.0 of train for each of validation, test: must leave rows on both sides"),
        (
            [0] * 20 + [1],
            0.1,
            "source: class '1' has 1 rows with 1 different texts, but train and each split that is held out need",
        ),
        ([0] * 20 + [1] * 2, 0.1, "source: class '1' has 2 rows with 2 different texts"),
    ],
)
def test_too_little_to_hold_out_is_refused(labels: list[int], fraction: float, message: str) -> None:
    with pytest.raises(InputError) as caught:
        assemble(held_out=fraction, train=labels)
    assert str(caught.value).startswith(message)


def test_text_encoded_as_a_dictionary_reads_as_text() -> None:
    table = pa.table({"text": pa.array(["a", "b", "a", "b"]).dictionary_encode(), "class": [0, 1, 0, 1]})
    made = build(dict.fromkeys(("train", "validation", "test"), Raw("p", table)), columns=COLUMNS, held_out=0.5, seed=0,
                 source="s", licence="CC0-1.0")  # fmt: skip
    assert made.splits["train"]["sentence"].to_pylist() == ["a", "b", "a", "b"]


grouped_rows = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), min_size=60, max_size=150)


@settings(max_examples=60, deadline=None)
@given(rows=grouped_rows, seed=st.integers(0, 5), labelled=st.booleans())
def test_no_group_is_in_two_splits(rows: list[tuple[int, int]], seed: int, labelled: bool) -> None:
    """For any groups, also where a text links two of them; rows drawn singly from the same table share groups."""
    rows += [(100 + row, 13 + row // 3) for row in range(60)]  # groups of three with texts of their own
    table = {"text": [f"text {text}" for text, _ in rows], "author": [f"a{group}" for _, group in rows]}
    table |= {"class": [row % 2 for row in range(len(rows))]} if labelled else {}
    raw = {"train": Raw("train.csv", pa.table(table))}
    columns = {"sentence": "text", "group": "author"} | ({"label": "class"} if labelled else {})
    settings_ = {"held_out": 0.2, "seed": seed, "source": "s", "licence": "MIT"}
    made = build(raw, columns=columns, **settings_)  # type: ignore[arg-type]
    author = {text: {group for other, group in rows if f"text {other}" == text} for text in table["text"]}

    def groups(corpus: Corpus) -> list[set[str]]:
        return [{one for (text,) in texts(part) for one in author[text]} for part in corpus.splits.values()]

    train, validation, test = groups(made)
    assert not train & (validation | test)
    assert not validation & test
    assert sum(part.num_rows for part in made.splits.values()) == len(rows)
    counted = made.facts["groups"]
    assert isinstance(counted, dict)
    assert counted["column"] == "author"
    assert sum(counted[split] for split in made.splits) == len({*table["author"]})
    assert "group" not in made.splits["train"].column_names
    for split in ("validation", "test"):  # at most half a group of three away, unless linked groups are larger
        assert made.splits[split].num_rows <= 2 * 0.2 * len(rows)
    singly = groups(build(raw, columns={"sentence": "text"}, **settings_))  # type: ignore[arg-type]
    assert singly[0] & singly[1]


def test_groups_of_equal_size_fill_their_share() -> None:
    table = pa.table({"text": [f"text {row}" for row in range(1000)], "author": [row // 10 for row in range(1000)]})
    made = build({"train": Raw("t", table)}, columns={"sentence": "text", "group": "author"}, held_out=0.15, seed=0,
                 source="s", licence="MIT")  # fmt: skip
    assert [part.num_rows for part in made.splits.values()] == [700, 150, 150]
    assert made.facts["groups"] == {"column": "author", "train": 70, "validation": 15, "test": 15}


def test_groups_that_cannot_be_held_out_are_given_their_reason() -> None:
    """There are enough groups, but a group is too large, or holds all rows of a class."""
    large = {"author": ["a"] * 195 + ["b", "b", "b", "c", "c"], "class": [0, 1] * 100}
    alike = {"author": [row // 50 for row in range(200)], "class": [row // 50 for row in range(200)]}
    for columns in (large, alike):
        raw = {"train": Raw("t", pa.table({"text": [f"text {row}" for row in range(200)], **columns}))}
        named = {"sentence": "text", "group": "author", "label": "class"}
        with pytest.raises(InputError, match=r"different groups, but a group stays in train if it has too many rows"):
            build(raw, columns=named, held_out=0.15, seed=0, source="s", licence="MIT")


def test_groups_that_a_text_joins_are_counted_with_that_text() -> None:
    rows = [(f"text {row}", row // 10) for row in range(300)] + [("Good.", author) for author in range(30)]
    raw = {"train": Raw("t", pa.table({"text": [text for text, _ in rows], "author": [one for _, one in rows]}))}
    with pytest.raises(InputError, match=r"330 rows with 30 groups that equal texts, such as 'Good\.', join to 1, but"):
        build(raw, columns={"sentence": "text", "group": "author"}, held_out=0.15, seed=0, source="s", licence="MIT")


@pytest.mark.parametrize("written", [[0.0, 10.0, 11.0], ["0 ", "x", "y"]])
def test_a_group_that_is_written_otherwise_is_that_group(written: list[object]) -> None:
    """As pandas writes a column of integers with a missing cell, or with spaces around it."""
    authors = {"train": [0, 1, 2], "validation": [5, 6, 7], "test": written}
    raw = {
        split: Raw(f"{split}.csv", pa.table({"text": [f"{split} {row}" for row in range(3)], "author": own}))
        for split, own in authors.items()
    }
    with pytest.raises(InputError, match=r"^test\.csv: group '0' is in train, too"):
        build(raw, columns={"sentence": "text", "group": "author"}, held_out=0.2, seed=0, source="s", licence="MIT")


def test_a_group_in_two_given_splits_is_named() -> None:
    raw = {
        split: Raw(f"{split}.csv", pa.table({"text": [f"{split} {row}" for row in range(3)], "author": authors}))
        for split, authors in (("train", ["a", "b", "c"]), ("validation", ["d", "e", "f"]), ("test", ["g", "b", "b"]))
    }
    with pytest.raises(InputError, match=r"^test\.csv: group 'b' is in train, too \(1 such groups\); a group belongs"):
        build(raw, columns={"sentence": "text", "group": "author"}, held_out=0.2, seed=0, source="s", licence="MIT")


@pytest.mark.parametrize("seed", range(5))
def test_train_keeps_a_row_of_every_label(seed: int) -> None:
    """A label of one row is never held out; a score and a set of labels are drawn by rows alone."""
    rare = [[f"rare {row}"] if row < 8 else ["common", "other"][: row % 3] for row in range(40)]
    table = pa.table({"text": [f"text {row}" for row in range(40)], "topics": rare})
    made = build({"train": Raw("t", table)}, columns={"sentence": "text", "labels": "topics"}, held_out=0.2, seed=seed,
                 source="s", licence="MIT")  # fmt: skip
    assert {one for own in made.splits["train"]["labels"].to_pylist() for one in own} == {*range(len(made.labels))}
    assert [part.num_rows for part in made.splits.values()] == [24, 8, 8]
