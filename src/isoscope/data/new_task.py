"""The task of a new project: a user's own file of text, or generated text."""

import re
from pathlib import Path
from typing import Any, NamedTuple

from isoscope.base.errors import InputError
from isoscope.data import embedded
from isoscope.data.columns import strings
from isoscope.data.corpus import build
from isoscope.data.files import read_splits
from isoscope.data.scripts import has_vowel_signs

EXAMPLES = 2400
"""Examples of generated text."""
HELD_OUT, MOST_HELD_OUT = 0.15, 2000
"""Share and maximum rows of the validation split, and of the test split."""


class NewTask(NamedTuple):
    """A task, and what there is to say of it.

    `source`: the section `data.source` of its overlay; `text`: what is read, in words; `classes`: what its classes are,
    in words (None: a text task); `train_rows`: rows of its train split; `trees`: whether it has a treebank of its own;
    `marked`: whether its script has vowel signs, which WordPiece in lower case would remove; `notes`: about its labels.
    """

    name: str
    source: dict[str, Any]
    text: str
    classes: str | None
    train_rows: int
    trees: bool = False
    marked: bool = False
    notes: tuple[str, ...] = ()

    @property
    def labelled(self) -> bool:
        """Whether it has classes."""
        return self.classes is not None


def generated() -> NewTask:
    """Return a task of generated sentences with two classes."""
    source = {"kind": "embedded", "generator": "sentiment", "size": EXAMPLES, "difficulty": 2, "seed": 0}
    rows = round(EXAMPLES * (1 - 2 * embedded.HELD_OUT))
    return NewTask("sentiment", source, "generated sentences", "sentiment", rows, trees=True)


def local(text: Path, column: str, label: str | None) -> NewTask:
    """Return the task of a file, after reading it as the stage `prepare` does. Raises `InputError` if it cannot."""
    if text.is_dir():
        raise InputError(
            f"--from {text}: is a folder; give one file, or describe a folder of splits in variants/task "
            "(see: isoscope docs studies)"
        )
    if not text.is_file():
        raise InputError(f"--from {text}: no such file")
    columns = {"sentence": column} | ({"label": label} if label is not None else {})
    splits = {"train": "train", "validation": None, "test": None}
    raw = read_splits(text, columns=columns, splits=splits)
    for name, option in ((column, "--column"), (label, "--label")):
        if name is not None:
            strings(raw["train"], name, option, classes=option == "--label")
    rows = max(raw["train"].table.num_rows, 1)
    held_out = HELD_OUT if rows * HELD_OUT <= MOST_HELD_OUT else float(f"{MOST_HELD_OUT / rows:.2g}")
    source: dict[str, Any] = {"kind": "local", "path": f"texts/{text.name}", "columns": columns, "splits": splits}
    source |= {"held_out": held_out, "seed": 0, "licence": "unknown"}
    corpus = build(raw, columns=columns, held_out=held_out, seed=0, source=str(text), licence="unknown")
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", text.stem).strip("_.") or "text"
    train, notes = corpus.splits["train"], [*corpus.notes]
    if marked := has_vowel_signs(train["sentence"].to_pylist()):
        notes.append("data.tokenizer.lowercase is false: in lower case WordPiece would remove the text's vowel signs")
    about = f"the column {column} of {text.name}"
    return NewTask(name, source, about, label, train.num_rows, marked=marked, notes=tuple(notes))
