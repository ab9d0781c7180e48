"""A space: the states of a word table's words at every layer of a model, on disk, read layer by layer.

And the pass that makes them, of words in sentences of any kind.
"""

import json
from copy import copy
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from isoscope.base.atomic_files import write_text
from isoscope.base.parquet import write_parquet
from isoscope.data import tokens
from isoscope.data.arrays import Flags, Indices, Vectors
from isoscope.data.batches import evaluation_batches
from isoscope.data.treebank import Treebank
from isoscope.data.word_table import KEY, Located, WordTable, common, located
from isoscope.geometry.moments import Floats
from isoscope.states.choices import WORD_TABLE, Pooling, SpaceSettings
from isoscope.states.trajectory import Arrays, write_arrays

KEYS, STATES, FACTS = "keys.parquet", "states.safetensors", "facts.json"
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

    @cached_property
    def facts(self) -> list[list[str]]:
        """Facts of the model, a line each, and its warnings; see `model_facts`. Empty if they were not asked for."""
        file = self.folder / FACTS
        found: list[list[str]] = json.loads(file.read_text("utf-8")) if file.is_file() else [[], []]
        return found

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


class WordStates(NamedTuple):
    """States of words `[layers, W, D]`, fp32, and the numbers of the layers: 0 (after the embedding block) … L.

    If `whole`, `WORD_TABLE` comes before them; and in a model with a LayerNorm after its last layer (pre-norm), L is
    the last layer's output and L + 1 is the output of that LayerNorm, which is L otherwise.
    """

    values: Vectors
    layers: list[int]


def word_states(
    model: Any,
    words: Treebank | Located,
    *,
    pooling: Pooling = "mean",
    whole: bool = False,
    pad_id: int,
    batch_size: int,
    bf16: bool = False,
) -> WordStates:
    """Return the states of words; a word's vector is the mean over its tokens, or its first or last token.

    `model` is the bare encoder or decoder. Raises `InputError` for NaN or infinity.
    """
    import torch  # takes seconds; reading a space needs none

    from isoscope.states.filled_arrays import FilledArrays
    from isoscope.states.hidden_states import embedding_parts, layers_of, word_means
    from isoscope.states.model_facts import final_norm, norms_outside_layers

    model.eval()
    found, first = FilledArrays(), 0
    norm: str | None = ""
    with torch.no_grad(), embedding_parts(model) as parts, norms_outside_layers(model) as norms:
        for rows in evaluation_batches(words.encoded.lengths, batch_size=batch_size):
            layers, _ = layers_of(model, words.encoded, rows, pad_id, bf16)
            if whole and norm == "":  # compared once: an answer stops a card
                norm = final_norm(norms, layers[-1])
            if norm:
                layers = torch.cat([layers[:-1], *(one.float()[None] for one in norms[norm])])
            if whole and "word" in parts and parts["word"].shape[-1] == layers.shape[-1]:
                layers, first = torch.cat([parts["word"].float()[None], layers]), WORD_TABLE
            found.put(WORDS, len(words.sentence), *word_means(layers, words, rows, pooling))
            parts.clear()
            norms.clear()
            found.next_batch()
    states = found.whole().get(WORDS, np.empty(0, np.float32))
    return WordStates(states, [*range(first, first + len(states))])


def write_space(
    folder: Path, model: Any, checkpoint: Path, table: WordTable, settings: SpaceSettings, *, name: str = ""
) -> Space:
    """Write the states of a bare encoder or decoder into a new or empty folder, and return them.

    `checkpoint`: folder of its tokenizer. `name`: of the model, whose `facts` are then written, too. Raises
    `InputError` for NaN or infinity.
    """
    from isoscope.models.encoder import longest
    from isoscope.states.model_facts import model_facts

    tokenizer = tokens.load(checkpoint, padded=False)
    there = located(table, tokenizer, max_length=longest(model, settings.max_length))
    found = there.found
    kept = Located(there.encoded, there.sentence[found], there.begin[found], there.end[found], found[found])
    given: dict[str, Any] = {"pooling": settings.pooling, "pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}
    bf16 = settings.precision == "bf16"
    states = word_states(model, kept, whole=True, bf16=bf16, **given)
    if name:
        lines, warning = model_facts(model, kept.encoded, pad_id=tokenizer.pad_id, bf16=bf16, name=name)
        write_text(folder / FACTS, json.dumps([lines, [warning] * bool(warning)]), "states")
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
