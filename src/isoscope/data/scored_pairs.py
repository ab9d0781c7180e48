"""Pairs of sentences with people's scores of how alike they are, such as STS-B; each distinct sentence is one row."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.base.errors import InputError
from isoscope.data.arrays import Indices
from isoscope.data.batches import drawn_rows
from isoscope.data.plain import read_targets

COLUMNS = ("sentence1", "sentence2", "score")
NAMED = "STS needs sentence1, sentence2 and score"
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

    Raises `InputError` as `read_targets`; for fewer than `FEWEST` pairs; and for scores that are all equal.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    found = read_targets(path, column=COLUMNS[0], other=COLUMNS[1], target=COLUMNS[2], kind="score", named=NAMED)
    table = found.table.to_pandas().assign(score=found.true)
    if len(table) < FEWEST or table["score"].nunique() < 2:
        raise InputError(
            f"{path}: {len(table)} pairs with {table['score'].nunique()} different scores; expected at least {FEWEST} "
            "pairs and two scores"
        )
    rows = drawn_rows(len(table), pairs or len(table), seed)
    return table.iloc[rows].reset_index(drop=True)
