"""Pairs of sentences with people's scores of how alike they are, such as STS-B; each distinct sentence is one row."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.data.batches import drawn_rows
from isoscope.data.columns import strings
from isoscope.data.files import read_file

COLUMNS = ("sentence1", "sentence2", "score")
FEWEST = 10
"""Minimum number of pairs."""


class ScoredPairs(NamedTuple):
    """Distinct sentences; for each pair its two sentences, by number, and its score."""

    sentences: list[str]
    first: Indices
    second: Indices
    score: npt.NDArray[np.float64]

    @classmethod
    def of(cls, table: pd.DataFrame) -> "ScoredPairs":
        """Return the pairs of a table with `COLUMNS`."""
        codes, sentences = pd.factorize(np.concatenate([table["sentence1"], table["sentence2"]]))
        first, second = codes.reshape(2, -1).astype(np.int64)
        return cls(sentences.tolist(), first, second, table["score"].to_numpy(np.float64))

    @property
    def overlap(self) -> npt.NDArray[np.float64]:
        """Share of two sentences' lower-case words that both have, of each pair: |A ∩ B| / |A ∪ B|."""
        words = [frozenset(text.lower().split()) for text in self.sentences]
        both = [(words[one], words[other]) for one, other in zip(self.first, self.second, strict=True)]
        return np.array([len(one & other) / max(1, len(one | other)) for one, other in both])


def read(path: Path, *, pairs: int | None = None, seed: int = 0) -> pd.DataFrame:
    """Return a table with `COLUMNS` of a parquet, csv, tsv or jsonl file; of more than `pairs`, a seeded draw.

    Raises `InputError` with file and row for a missing column, an empty sentence and a score that is no finite number;
    for fewer than `FEWEST` pairs; and for scores that are all equal.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    raw = read_file(path, COLUMNS, label="score")
    named = "STS needs sentence1, sentence2 and score"
    table = pd.DataFrame(
        {name: strings(raw, name, named, classes=name == "score").to_pylist() for name in COLUMNS}, dtype=object
    )
    scores = pd.to_numeric(table["score"], errors="coerce").astype(float)
    for name in COLUMNS:
        empty = ~np.isfinite(scores) if name == "score" else ~table[name].fillna("").str.strip().astype(bool)
        if empty.any():
            row = int(np.flatnonzero(empty)[0])
            wanted = "a finite number" if name == "score" else "text"
            raise InputError(f"{path}, row {row + 1}: {name} is {table[name][row]!r:.40}; expected {wanted}")
    if len(table) < FEWEST or scores.nunique() < 2:
        raise InputError(
            f"{path}: {len(table)} pairs with {scores.nunique()} different scores; expected at least {FEWEST} pairs "
            "and two scores"
        )
    rows = drawn_rows(len(table), pairs or len(table), seed)
    return table.assign(score=scores).iloc[rows].reset_index(drop=True)
