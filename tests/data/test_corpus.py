"""A corpus that cannot train and evaluate a classifier is refused in one line."""

import pyarrow as pa
import pytest

from isoscope.data.corpus import SPLITS, Corpus, check, text_columns, texts
from isoscope.errors import InputError

GOOD = pa.table({"sentence": ["a b", "c d", "e"], "label": [0, 1, 1]})


def corpus(labels: tuple[str, ...] = ("no", "yes"), **splits: pa.Table) -> Corpus:
    return Corpus({split: splits.get(split, GOOD) for split in SPLITS}, labels, "source", "CC0-1.0", None, {})


def with_labels(*labels: int | None) -> pa.Table:
    return pa.table({"sentence": [f"text {row}" for row in range(len(labels))], "label": pa.array(labels, pa.int64())})


def test_accepts_single_sentences_and_pairs_of_any_number_of_classes() -> None:
    check(corpus())
    pair = pa.table({"sentence1": list("abc"), "sentence2": list("def"), "label": [0, 1, 2]})
    check(Corpus(dict.fromkeys(SPLITS, pair), ("x", "y", "z"), "source", "CC0-1.0", None, {}))
    assert texts(GOOD) == [("a b",), ("c d",), ("e",)]
    assert texts(pair)[1] == ("b", "e")


@pytest.mark.parametrize(
    "bad, message",
    [
        (corpus(train=GOOD.drop_columns("label")), "source: train: column 'label' is missing; found sentence"),
        (corpus(test=GOOD.drop_columns("sentence")), "source: test: text columns: expected 'sentence', or 'sentence1'"),
        (corpus(test=GOOD.slice(0, 0)), "source: test: the split is empty"),
        (corpus(train=with_labels(0, 0)), "source: train has only one class ('no')"),
        (corpus(validation=with_labels(1, 1)), "source: validation has only one class ('yes')"),
        (corpus(test=with_labels(0, 1, 2)), "source: test, row 3: label 2 does not occur in train"),
        (corpus(test=with_labels(0, 1, -1)), "source: test, row 3: label -1 does not occur in train"),
        (corpus(("no", "yes", "perhaps")), "source: train labels must be 0..2, one per class name; found [0, 1]"),
        (corpus(("no", "no")), "source: class names repeat: no, no"),
        (corpus(train=with_labels(0, 1, None)), "source: train, row 3: 'label' is null (1 in all)"),
        (
            corpus(validation=pa.table({"sentence": ["a", None, None], "label": [0, 1, 1]})),
            "source: validation, row 2: 'sentence' is null (2 in all)",
        ),
        (
            corpus(validation=GOOD.set_column(1, "label", pa.array(["0", "1", "1"]))),
            "source: validation: column 'label' is string; expected int64",
        ),
        (
            corpus(test=pa.table({"sentence1": ["a"], "sentence2": ["b"], "label": [0]})),
            "source: test: text columns sentence1, sentence2, while train has sentence",
        ),
        (
            corpus()._replace(splits={"train": GOOD, "dev": GOOD}),
            "source: splits must be train, validation, test; found dev, train",
        ),
    ],
)
def test_refuses_in_one_line(bad: Corpus, message: str) -> None:
    with pytest.raises(InputError) as caught:
        check(bad)
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_a_table_is_of_single_sentences_or_of_pairs_never_both() -> None:
    both = pa.table({name: ["a"] for name in ("sentence", "sentence1", "sentence2")})
    with pytest.raises(InputError, match="text columns"):
        text_columns(both)
