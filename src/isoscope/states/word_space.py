"""A space: the states of a word table's words at every layer of a model, on disk, read layer by layer."""

import json
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save_file

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.data.tokens import WordPieces
from isoscope.data.word_table import KEY, Located, WordTable, common, located
from isoscope.geometry.moments import Floats
from isoscope.states.choices import Pooling

KEYS, STATES, FACTS, ARRAY = "keys.parquet", "states.safetensors", "facts.json", "words"


class Space:
    """The states in a folder. `keys`: the rows of the word table, and whether the model has the word (`found`).

    `facts`: layers (their numbers, see `WordStates`), width, pooling, max_length.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.keys = pd.read_parquet(folder / KEYS)
        self.facts: dict[str, Any] = json.loads((folder / FACTS).read_text("utf-8"))
        self.stored = np.arange(int(self.keys["found"].sum()))
        """Place in the file of each word that the model has."""

    @property
    def layers(self) -> list[int]:
        """Numbers of the layers."""
        found: list[int] = self.facts["layers"]
        return found

    def layer(self, number: int, kept: npt.NDArray[np.bool_]) -> Floats:
        """Return the states `[W, D]` of the words `kept` of the table, all of which the model must have."""
        with safe_open(self.folder / STATES, framework="numpy") as file:
            states = file.get_slice(ARRAY)[self.layers.index(number)]
        rows: Floats = np.asarray(states, np.float64).reshape(-1, states.shape[-1])
        return rows[self.stored[kept[self.keys["found"].to_numpy(bool)]]]

    def linked(self, table: WordTable, rows: npt.NDArray[np.int64]) -> "Space":
        """Return the states of linked words of another text as those of a table's words.

        `rows`: the row of this space that is linked to each word of `table`, −1 for none. Raises `InputError` if the
        model has none of them.
        """
        there = self.keys["found"].to_numpy(bool)
        found = (rows >= 0) & there[rows]
        if not found.any():
            raise InputError("text: no word of it is linked to a word of its translation")
        other = copy(self)
        other.keys = table.rows[KEY].assign(found=found)
        other.stored = self.stored[(np.cumsum(there) - 1)[rows[found]]]
        return other


def write_space(
    folder: Path,
    model: Any,
    tokenizer: WordPieces,
    table: WordTable,
    *,
    pooling: Pooling,
    max_length: int,
    batch_size: int,
    bf16: bool = False,
) -> None:
    """Write the states of a bare encoder or decoder into an empty folder.

    Raises `InputError` if the model has none of the words, and for NaN or infinity.
    """
    from isoscope.states.word_states import word_states  # torch takes seconds; reading a space needs none

    there = located(table, tokenizer, max_length=max_length)
    if not there.found.any():
        raise InputError(f"text: no word fits into {max_length} tokens")
    found = there.found
    kept = Located(there.encoded, there.sentence[found], there.begin[found], there.end[found], found[found])
    given: dict[str, Any] = {"pooling": pooling, "pad_id": tokenizer.pad_id, "batch_size": batch_size, "bf16": bf16}
    states = word_states(model, kept, whole=True, **given)
    write_parquet(table.rows[KEY].assign(found=there.found), folder / KEYS)
    save_file({ARRAY: states.values}, folder / STATES)
    known = {"layers": states.layers, "width": states.values.shape[-1], "pooling": pooling, "max_length": max_length}
    write_text(folder / FACTS, json.dumps(known, indent=1) + "\n", "states")


def joined(table: WordTable, spaces: list[Space]) -> npt.NDArray[np.bool_]:
    """Return which words of the table all spaces have. Raises `InputError` as `common`, and if there is none."""
    kept = common(table, [space.keys for space in spaces])
    if not kept.any():
        raise InputError("no word is in all spaces; give a larger max_length or shorter sentences")
    return kept
