"""What `isoscope new` is told about its text: options of the command line, and the kinds of target, without libraries.

A new kind of target is an option of `task` and an entry of `TARGETS`.
"""

from typing import Annotated, Any, NamedTuple


class Target(NamedTuple):
    """What the models of a first study predict.

    `objective`: the kind of training; `asked`: the question's predicate, with `{text}` and `{column}`; `classes`:
    whether each text has one class, as the kind of study `fusion` and some penalties need.
    """

    objective: str
    asked: str
    classes: bool = False


TARGETS = {
    "label": Target("classification", "classifies {text} by {column}", classes=True),
    "score": Target("regression", "predicts the {column} of {text}"),
    "labels": Target("multilabel", "predicts the {column} of {text}"),
}
"""Option that names a target's column, and its key in `data.source.columns` → target."""
WORDS = Target("masked", "predicts masked words of {text}")
"""The target of a text without any of these columns."""


def task(
    *,
    text: Annotated[
        str | None,
        "--from",
        "Your text: a file (csv, tsv, jsonl, parquet, or txt with a text per line), a folder of splits or of "
        "datasets.save_to_disk, or hub:NAME[:CONFIG] [default: generated text]",
    ] = None,
    column: Annotated[str | None, "Column of the text [default: text]"] = None,
    pair: Annotated[tuple[str, str] | None, "The two columns of a pair of texts: --pair premise hypothesis"] = None,
    label: Annotated[str | None, "Column of the class: one per row"] = None,
    score: Annotated[str | None, "Column of the score: a number per row"] = None,
    labels: Annotated[str | None, "Column of the labels: any number per row"] = None,
    separator: Annotated[str | None, "What stands between two labels in a csv or tsv, such as '|'"] = None,
    train: Annotated[str | None, "File of the train split, instead of --from; in a folder or data set its name"] = None,
    validation: Annotated[str | None, "The same of the validation split [default: held out from train]"] = None,
    test: Annotated[str | None, "The same of the test split [default: held out from train]"] = None,
    group: Annotated[str | None, "Column of what texts share, such as an author; no group is in two splits"] = None,
) -> Any:
    """Return the `NewTask` of a text, after reading it as the stage `prepare` does."""
    given = {name: value for name, value in locals().items() if value is not None}
    from isoscope.data.new_task import read

    return read(given)
