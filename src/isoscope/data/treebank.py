"""Words of a treebank with POS tags, and depths in the dependency tree for word probes."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.data import tokens
from isoscope.data.arrays import Indices
from isoscope.data.batches import shuffled
from isoscope.data.tokens import Encoded, WordPieces

TAGGED = ("tokens", "upos")
COLUMNS = (*TAGGED, "head")


class Treebank(NamedTuple):
    """Encoded sentences; for every word: sentence, tokens `begin` … `end` − 1, text, tag and depth (root: 0)."""

    encoded: Encoded
    sentence: Indices
    begin: Indices
    end: Indices
    text: list[str]
    tag: list[str]
    depth: Indices


def read(path: Path, tokenizer: WordPieces, *, sentences: int, max_length: int, seed: int) -> Treebank:
    """Return a seeded draw of `sentences` of the treebank that fit into `max_length` tokens.

    Columns as in Universal Dependencies: `tokens`, `upos` and `head` (1-based, 0 for the root), a list each. Entries
    without a head (`None`) are left out, because they are not words: multiword tokens, whose words follow, and empty
    nodes. Raises `InputError` for missing columns, lists of different lengths, and invalid heads.
    """
    rows = _rows(path, COLUMNS)
    encodings, known = [], []
    for row in shuffled(len(rows), seed, 4):
        where = f"{path}, row {row + 1}"
        words, tags, heads = _words(rows[row], where)
        if len(words) < 2:
            continue
        depths = _depths(heads, where)
        encoding = tokenizer.backend.encode(words, is_pretokenized=True)
        if len(encoding.ids) <= max_length:
            encodings.append(encoding)
            known.append((words, tags, depths))
        if len(encodings) == sentences:
            break
    if not encodings:
        raise InputError(f"{path}: no sentence with two or more words fits into {max_length} tokens")
    places = [
        (number, *span, words[word].lower(), tags[word], depths[word])
        for number, (one, (words, tags, depths)) in enumerate(zip(encodings, known, strict=True))
        for word in range(len(words))
        if (span := one.word_to_tokens(word))
    ]
    sentence, begin, end, text, tag, depth = map(list, zip(*places, strict=True))
    numbers = np.array([sentence, begin, end], np.int64)
    encoded = tokens.encoded(encodings, np.full(len(encodings), -1, np.int64))
    return Treebank(encoded, numbers[0], numbers[1], numbers[2], text, tag, np.array(depth, np.int64))


def tagged(path: Path) -> list[tuple[list[str], list[str]]] | None:
    """Return the tokens of each sentence of a treebank, and their tags; None for a file that is no treebank.

    A treebank is a parquet file with lists in the columns `tokens` and `upos`. Entries without a head are left out, see
    `read`; without a column `head`, none is. Raises `InputError` for lists of different lengths, and for tokens or tags
    that are not text.
    """
    try:
        schema = pq.read_schema(path) if path.suffix == ".parquet" and path.is_file() else pa.schema([])
    except pa.ArrowException:
        return None
    if not all(name in schema.names and _is_list(schema.field(name).type) for name in TAGGED):
        return None
    found = []
    for row, lists in enumerate(_rows(path, COLUMNS if "head" in schema.names else TAGGED), 1):
        where = f"{path}, row {row}"
        words, tags, *_ = _words(lists, where)
        if wrong := [one for one in (*words, *tags) if not isinstance(one, str)]:
            raise InputError(f"{where}: {wrong[0]!r} is not text; tokens and upos must be lists of strings")
        found.append((words, tags))
    return found


def _is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _rows(path: Path, columns: Sequence[str]) -> list[tuple[list[Any], ...]]:
    """Return the lists of each row. Raises `InputError` if the file is no parquet or lacks a column."""
    try:
        table = pq.read_table(path)
    except pa.ArrowException as error:
        raise InputError(f"{path}: not valid parquet: {str(error).splitlines()[0]}") from None
    if missing := set(columns) - set(table.column_names):
        raise InputError(f"{path}: no column {', '.join(sorted(missing))}; a treebank has {', '.join(columns)}")
    if wrong := [name for name in columns if not _is_list(table.schema.field(name).type)]:
        raise InputError(f"{path}: column {wrong[0]!r} holds no lists; a treebank has one per sentence")
    return list(zip(*([own or [] for own in table[column].to_pylist()] for column in columns), strict=True))


def _words(lists: Sequence[list[Any]], where: str) -> Sequence[list[Any]]:
    """Return tokens, tags and, if given, heads of a sentence without the entries without a head."""
    if len({*map(len, lists)}) > 1:
        counts = zip(map(len, lists), ("tokens", "tags", "heads"), strict=False)
        raise InputError(f"{where}: " + ", ".join(f"{count} {name}" for count, name in counts))
    kept = [place for place, head in enumerate(lists[-1]) if len(lists) < 3 or head not in (None, "None", "_")]
    return [[own[place] for place in kept] for own in lists]


def _depths(given: list[Any], where: str) -> list[int]:
    """Return the depth of each word. Raises `InputError` for a head out of range, a non-number, or a cycle."""
    try:
        heads = [int(head) for head in given]
    except ValueError:
        raise InputError(f"{where}: heads {given[:12]} are not all numbers") from None
    depths = []
    for word in range(1, len(heads) + 1):
        depth, at = 0, word
        while (above := heads[at - 1]) != 0:
            if not 0 < above <= len(heads) or depth > len(heads):
                raise InputError(f"{where}: heads {heads[:12]} are not a tree")
            depth, at = depth + 1, above
        depths.append(depth)
    return depths
