"""A space: the states of a word table's words at every layer of a model, on disk, read layer by layer."""

from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from isoscope.base.parquet import write_parquet
from isoscope.data import tokens
from isoscope.data.arrays import Flags, Indices, Vectors
from isoscope.data.word_table import KEY, Located, WordTable, common, located
from isoscope.geometry.moments import Floats
from isoscope.states.choices import WORD_TABLE, SpaceSettings
from isoscope.states.trajectory import Arrays, write_arrays

KEYS, STATES = "keys.parquet", "states.safetensors"
WORDS, TABLE = "words", "word_table"
"""Arrays of the states: layers 0 … L, and the word table alone if the model has it."""


class Space:
    """The states in a folder. `keys`: the rows of the word table, and whether the model has the word (`found`)."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = pd.read_parquet(folder / KEYS)
        self.stored = np.arange(int(self.keys["found"].sum()))
        """Place in the file of each word that the model has."""

    @cached_property
    def layers(self) -> list[int]:
        """Numbers of the layers, see `WordStates`."""
        arrays = Arrays(self.folder / STATES)
        return [*([WORD_TABLE] if TABLE in arrays.names else []), *range(arrays.shape(WORDS)[0])]

    def layer(self, number: int, kept: Flags) -> Floats:
        """Return the states `[W, D]` of the words `kept` of the table, all of which the model must have."""
        arrays = Arrays(self.folder / STATES)
        states = arrays.whole(TABLE) if number == WORD_TABLE else arrays.layer(WORDS, number)
        rows: Floats = np.asarray(states, np.float64)
        return rows[self.stored[kept[self.keys["found"].to_numpy(bool)]]]

    def linked(self, table: WordTable, rows: Indices) -> "Space":
        """Return the states of linked words of another text as those of a table's words.

        `rows`: the row of this space that is linked to each word of `table`, −1 for none.
        """
        there = self.keys["found"].to_numpy(bool)
        found = (rows >= 0) & there[rows]
        other = copy(self)
        other.keys = table.rows[KEY].assign(found=found)
        other.stored = self.stored[(np.cumsum(there) - 1)[rows[found]]]
        return other


def write_space(folder: Path, model: Any, checkpoint: Path, table: WordTable, settings: SpaceSettings) -> Space:
    """Write the states of a bare encoder or decoder into a new or empty folder, and return them.

    `checkpoint`: folder of its tokenizer. Raises `InputError` for NaN or infinity.
    """
    from isoscope.models.encoder import positions  # torch takes seconds; reading a space needs none
    from isoscope.states.word_states import word_states

    tokenizer = tokens.load(checkpoint, padded=False)
    there = located(table, tokenizer, max_length=min(settings.max_length, positions(model)))
    found = there.found
    kept = Located(there.encoded, there.sentence[found], there.begin[found], there.end[found], found[found])
    given: dict[str, Any] = {"pooling": settings.pooling, "pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}
    states = word_states(model, kept, whole=True, bf16=settings.precision == "bf16", **given)
    return store(folder, table.rows[KEY].assign(found=found), states.values, first=states.layers[0])


def store(folder: Path, keys: pd.DataFrame, values: Vectors, *, first: int = 0) -> Space:
    """Write the states `[layers, W, D]` of the words of `keys` that are found; `first`: number of the first layer."""
    write_parquet(keys, folder / KEYS)
    table = {TABLE: values[0]} if first == WORD_TABLE else {}
    write_arrays(folder / STATES, {WORDS: values[len(table) :], **table}, "")
    return Space(folder)


def joined(table: WordTable, spaces: list[Space]) -> Flags:
    """Return which words of the table all spaces have. Raises `InputError` as `common`."""
    return common(table, [space.keys for space in spaces])
