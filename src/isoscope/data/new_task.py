"""The task of a new project: a user's own text, from files or a hub, or generated text."""

import re
from collections.abc import Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data import embedded, hub
from isoscope.data.columns import column_of
from isoscope.data.corpus import PAIR, SINGLE, SPLITS, build, texts
from isoscope.data.files import Raw, is_saved, read_splits, splits_in
from isoscope.data.manifest import nearly
from isoscope.data.scripts import glued, has_vowel_signs
from isoscope.data.text_options import TARGETS, WORDS, Target

EXAMPLES = 2400
"""Examples of generated text."""
HELD_OUT, MOST_HELD_OUT = 0.15, 2000
"""Share and maximum rows of the validation split, and of the test split."""
NO_SPLIT = "none"
"""Stands in place of a split's name for a split that is held out from train."""
HUB = "hub:"
"""Begins a hub name, where a file or folder could stand."""
POSITIONS = (64, 128, 256, 512)
PIECES = 1.5
"""Tokens that a model may read, and how many tokens a word has at most, mostly."""
ALL_TRAIN: dict[str, str | None] = {"train": "train", "validation": None, "test": None}
_NO_TEXT = re.compile(r"[0-9][0-9._]*(e[0-9]+)?|0[box][0-9a-f_]+|true|false|null|yes|no|on|off|y|n", re.IGNORECASE)
"""What YAML, 1.1 or 1.2, may read as a number, as true or false, or as null."""
_USUAL = {"train": ("train",), "validation": ("validation", "valid", "val", "dev"), "test": ("test",)}
"""Split → its names in folders and on the hub."""
_OPTIONS = {"sentence": "column", "sentence1": "pair", "sentence2": "pair"}
"""Column → its option, if it has another name."""


class NewTask(NamedTuple):
    """A task, and what there is to say of it.

    `source`: the section `data.source` of its overlay; `text`: what is read, in words; `target`, `column`: what is
    predicted, and its column (None: masked words); `train_rows`: rows of its train split; `positions`: tokens that hold
    nearly all of its texts; `files`: the user's files by their path in the project; `trees`: whether it has a treebank
    of its own; `marked`: whether its script has vowel signs, which WordPiece in lower case would remove; `notes`: about
    its text.
    """

    name: str
    source: dict[str, Any]
    text: str
    target: Target
    column: str | None
    train_rows: int
    positions: int = POSITIONS[0]
    files: Mapping[str, Path] = {}
    trees: bool = False
    marked: bool = False
    notes: tuple[str, ...] = ()


_Text = tuple[dict[str, Any], Mapping[str, Raw], str, Mapping[str, Path]]
"""A text that was read: what `data.source` says of its place, its splits, its name, and `files` as of `NewTask`."""


def read(given: Mapping[str, Any]) -> NewTask:
    """Return the task of a text, after reading it as the stage `prepare` does; without options, of generated text.

    `given`: the options of `text_options.task` that are not None. Raises `InputError` for options that do not agree,
    and for a text that cannot be read.
    """
    if wrong := [line for holds, line in _conflicts(given) if holds]:
        raise InputError(wrong[0])
    if not given:
        return _generated()
    read_from = given.get("pair") or (given.get("column", "text"),)
    columns = dict(zip(PAIR if "pair" in given else SINGLE, read_from, strict=True))
    columns |= {one: given[one] for one in (*TARGETS, "group") if one in given}
    place, splits, name, files = (_one_text if "text" in given else _file_each)(given, columns)
    raw = splits["train"]
    named = {own: f"--{_OPTIONS.get(ours, ours)}" for ours, own in columns.items()}
    types = [{own: column_of(one, own, option).type for own, option in named.items()} for one in splits.values()]
    held = types[0].get(columns.get("labels", ""))
    if held is not None and "separator" not in given and not pa.types.is_nested(held):
        raise InputError(
            f"--labels {given['labels']}: {raw.place} holds {held}, not lists; for several labels in a text give what "
            f"stands between them, such as --separator '|'; for one class per text: --label {given['labels']}"
        )
    rows = max(raw.table.num_rows, 1)
    held_out = HELD_OUT if rows * HELD_OUT <= MOST_HELD_OUT else float(f"{MOST_HELD_OUT / rows:.2g}")
    options: dict[str, Any] = {"columns": columns, "held_out": held_out, "seed": 0, "licence": "unknown"}
    options |= {one: given[one] for one in ("separator",) if one in given}
    corpus = build(splits, source=name, **options)
    train, *others = (texts(corpus.splits[split]) for split in SPLITS)
    notes, known = [*corpus.notes], {*map(nearly, train)}
    if "labels" in given and all(len(one) == 1 for one in corpus.splits["train"]["labels"].to_pylist()):
        notes.append(f"each row has one label in {given['labels']!r}; as one class per text: --label {given['labels']}")
    if any(repeated := [sum(nearly(text) in known for text in other) for other in others]):
        notes.append(
            f"{repeated[0]} rows of validation and {repeated[1]} of test repeat a text of train (case, spaces and "
            "signs at the end aside), so scores may be too good"
        )
    whole = glued([*chain(*train)])  # no spaces: a token has one letter or more
    tokens = sorted(sum(len(part) if whole else PIECES * len(part.split()) for part in text) for text in train)
    if marked := any(map(has_vowel_signs, zip(*train, strict=True))):
        notes.append("data.tokenizer.lowercase is false: in lower case WordPiece would remove the text's marks")
    said = (
        f"pairs of {' and '.join(read_from)} in {name}" if "pair" in given else f"the column {read_from[0]} of {name}"
    )
    target = next((one for one in TARGETS if one in given), None)
    return NewTask(
        _named(Path(name).stem),
        {**place, **options},
        f"the lines of {name}" if name.endswith(".txt") else said,
        TARGETS.get(target or "", WORDS),
        target and columns[target],
        len(train),
        next((size for size in POSITIONS if size >= tokens[int(0.95 * len(tokens))] + 3), POSITIONS[-1]),
        files,
        marked=marked,
        notes=tuple(notes),
    )


def _named(stem: str) -> str:
    """Return the name of a file's task: letters, digits, `_` and `.`; before what YAML reads as no text, `text_`."""
    name = re.sub(r"[^A-Za-z0-9_.]+", "_", stem).strip("_.") or "text"
    return f"text_{name}" if _NO_TEXT.fullmatch(name) else name


def _generated() -> NewTask:
    """Return a task of generated sentences with two classes."""
    source = {"kind": "embedded", "generator": "sentiment", "size": EXAMPLES, "difficulty": 2, "seed": 0}
    rows = round(EXAMPLES * (1 - 2 * embedded.HELD_OUT))
    return NewTask("sentiment", source, "generated sentences", TARGETS["label"], "sentiment", rows, trees=True)


def _conflicts(given: Mapping[str, Any]) -> Sequence[tuple[bool, str]]:
    """Return whether options disagree, with the line that says so."""
    targets = [f"--{name} {given[name]}" for name in TARGETS if name in given]
    pair, said = f"--pair {' '.join(given.get('pair', ()))}", next((f"--{name} {given[name]}" for name in given), "")
    return (
        (bool(given) and not {"text", "train"} & {*given}, f"{said}: there is no text; name it with --from or --train"),
        (len(targets) > 1, f"{' and '.join(targets)}: a task has one target; give one of them"),
        ({"pair", "column"} <= {*given}, f"{pair} and --column {given.get('column')}: give one of them"),
        (
            "pair" in given and not targets,
            f"{pair}: say what to predict, with --{', --'.join(TARGETS)}; for translation see: isoscope docs studies",
        ),
        (
            "separator" in given and "labels" not in given,
            f"--separator {given.get('separator')}: splits the column of --labels; name that column, too",
        ),
    )


def _file_each(given: Mapping[str, Any], columns: Mapping[str, str]) -> _Text:
    """Return the text of a file per split; the project gets them in a folder."""
    files = {split: Path(given[split]) for split in SPLITS if split in given}
    if lost := [split for split, file in files.items() if not file.is_file()]:
        raise InputError(f"--{lost[0]} {files[lost[0]]}: no such file")
    raw = {split: read_splits(file, columns=columns, splits=ALL_TRAIN)["train"] for split, file in files.items()}
    name = re.sub(r"[-_.]?train$", "", files["train"].stem) or files["train"].resolve().parent.name
    splits = {split: split if split in files else None for split in SPLITS}
    place = {"kind": "local", "path": f"texts/{name}", "splits": splits}
    return place, raw, name, {f"texts/{name}/{split}{file.suffix}": file for split, file in files.items()}


def _one_text(given: Mapping[str, Any], columns: Mapping[str, str]) -> _Text:
    """Return the text of --from: a file, a folder, or a name of the hub."""
    text, path = given["text"], Path(given["text"]).absolute()
    if text.startswith(HUB):
        name, _, config = text.removeprefix(HUB).partition(":")
        of_hub = {"name": name, "config": config or None, "revision": "main"}
        splits = _splits(given, hub.split_names(**of_hub))
        found = hub.find_splits(**of_hub, columns=columns, splits=splits)
        commit = {"revision": found.commit or "main"}
        return {"kind": "hub", **of_hub, **commit, "splits": splits}, found.raw, found.name, {}
    if not path.exists():
        raise InputError(f"--from {text}: no such file or folder" + f"; on the hub: {HUB}{text}" * (not path.suffix))
    if path.is_file() and (split := next((split for split in SPLITS if split in given), None)):
        raise InputError(f"--from {text} --{split}: one file has no splits; give the file of each, and no --from")
    splits = ALL_TRAIN if path.is_file() else _splits(given, splits_in(path))
    raw = read_splits(Path(text), columns=columns, splits=splits)
    name = path.name if path.is_file() else path.resolve().name
    root = path.parent if path.is_file() else path
    inputs = [root / file for one in raw.values() for file in one.inputs]
    files = [file for file in sorted(path.rglob("*")) if file.is_file()] if is_saved(path) else inputs
    place = {"kind": "local", "path": f"texts/{name}", "splits": splits}
    return place, raw, name, {(Path("texts", name) / file.relative_to(path)).as_posix(): file for file in files}


def _splits(given: Mapping[str, Any], there: Collection[str]) -> dict[str, str | None]:
    """Return the name of each split in a folder or data set: as given, else a usual name, if it is there."""
    names = {
        split: given.get(split) or next((name for name in usual if name in there), None)
        for split, usual in _USUAL.items()
    }
    names |= {split: None for split in SPLITS[1:] if given.get(split) == NO_SPLIT}
    for split, name in names.items():
        if name not in there and (name or split == "train"):
            raise InputError(
                f"--from {given['text']}: no split {name or split!r}; there are: {', '.join(there) or 'none'}; give "
                f"--{split} NAME"
            )
    used = [name for name in names.values() if name]
    if twice := [name for name in used if used.count(name) > 1]:
        raise InputError(
            f"--from {given['text']}: the split {twice[0]!r} stands for two of train, validation and test; give "
            f"another name, or {NO_SPLIT} to hold a split out from train"
        )
    return names
