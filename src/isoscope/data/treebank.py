"""Words of a treebank with POS tags, and depths in the dependency tree for word probes."""

from collections.abc import Sequence
from itertools import count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.data.batches import shuffled
from isoscope.data.tokens import Encoded, Tokenizer
from isoscope.data.word_table import WordTable, located

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


def read(path: Path, tokenizer: Tokenizer, *, sentences: int, max_length: int, seed: int) -> Treebank:
    """Return a seeded draw of `sentences` of the treebank that fit into `max_length` tokens.

    Columns as in Universal Dependencies: `tokens`, `upos` and `head` (1-based, 0 for the root), a list each. Entries
    without a head (`None`) are left out, because they are not words: multiword tokens, whose words follow, and empty
    nodes. Raises `InputError` for missing columns, lists of different lengths, and invalid heads.
    """
    rows = _rows(path, COLUMNS)
    texts: list[str] = []
    found: list[tuple[Any, ...]] = []
    for row in shuffled(len(rows), seed, 4):
        where = f"{path}, row {row + 1}"
        words, tags, heads = _words(rows[row], where)
        if len(words) < 2:
            continue
        depths = _depths(heads, where)
        if len(tokenizer.backend.encode(" ".join(words)).ids) <= max_length:
            ends = np.cumsum([len(word) + 1 for word in words]) - 1
            begins = ends - [len(word) for word in words]
            found += zip(repeat(len(texts)), count(), words, tags, depths, begins, ends, strict=False)
            texts.append(" ".join(words))
        if len(texts) == sentences:
            break
    if not texts:
        raise InputError(f"{path}: no sentence with two or more words fits into {max_length} tokens")
    table = pd.DataFrame(found, columns=["sentence", "position", "form", "tag", "depth", "begin", "end"])
    places = located(WordTable(texts, np.arange(len(texts)), table), tokenizer, max_length=max_length)
    whole = table[places.found]
    sentence, begin, end = (own[places.found] for own in places[1:4])
    text, tag, depth = whole["form"].str.lower().tolist(), whole["tag"].tolist(), whole["depth"].to_numpy(np.int64)
    return Treebank(places.encoded, sentence, begin, end, text, tag, depth)


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
        words, tags, *_ = _words(lists, f"{path}, row {row}")
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
    words, tags, *heads = ([own[place] for place in kept] for own in lists)
    if wrong := [one for one in (*words, *tags) if not isinstance(one, str)]:
        raise InputError(f"{where}: {wrong[0]!r} is not text; tokens and upos must be lists of strings")
    return [words, tags, *heads]


def _depths(given: list[Any], where: str) -> list[int]:
    """Return the depth of each word. Raises `InputError` for a head out of range, a non-number, or a cycle."""
    try:
        heads = [int(head) for head in given]
        if heads != [*map(float, given)]:
            raise ValueError
    except (ValueError, TypeError):
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
