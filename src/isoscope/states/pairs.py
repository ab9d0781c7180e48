"""States of the sentences in pairs that people scored: where they are stored, and the kinds of their vectors."""

from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from isoscope.base.parquet import write_parquet
from isoscope.data import scored_pairs, tokens
from isoscope.data.arrays import Vectors
from isoscope.data.scored_pairs import ScoredPairs
from isoscope.states.trajectory import Arrays, Snapshot, Trajectory

PAIRS = "pairs.parquet"
PAIRED = "pairs_"
"""Begins the names of these vectors, such as `pairs_mean`."""
FIRST_LAST = "first_last"
"""Mean of the means over tokens at layer 1 and at a layer; of pairs, at the last layer."""


def read_pairs(folder: Path) -> ScoredPairs | None:
    """Return the pairs of a run's folder; None if it was extracted without pairs."""
    file = folder / PAIRS
    return ScoredPairs.of(pd.read_parquet(file)) if file.is_file() else None


class EncodedPairs:
    """The distinct sentences of pairs in a file, as tokens; `most` pairs, drawn by `seed`, of more.

    After them come the distinct texts of `others` that are in no pair: transforms are fitted on those. Each text is
    encoded alone, also where the others are pairs.
    """

    def __init__(
        self,
        path: Path,
        tokenizer: tokens.Tokenizer,
        others: Iterable[Iterable[str]],
        *,
        most: int | None = None,
        max_length: int,
        seed: int,
    ) -> None:
        self.table = scored_pairs.read(path, pairs=most, seed=seed)
        every = dict.fromkeys([*ScoredPairs.of(self.table).sentences, *chain.from_iterable(others)])
        self.sentences = [*every]
        self.encoded = tokens.encode(tokenizer, pa.table({"sentence": self.sentences}), max_length=max_length)

    def write(self, folder: Path) -> None:
        """Write the pairs beside the states."""
        write_parquet(self.table, folder / PAIRS)

    def arrays(self, model: Any, *, causal: bool = False, **options: Any) -> dict[str, Vectors]:
        """Return `pairs_first` (of a causal model `pairs_last`) and `pairs_mean`, `[L + 1, sentences, D]`.

        `options`: those of `hidden_states.pooled`.
        """
        from isoscope.states.hidden_states import pooled  # imports torch, which a reader does without

        kinds = ("last" if causal else "first", "mean")
        return {PAIRED + name: one for name, one in pooled(model, self.encoded, kinds, **options).items()}


def places(run: Trajectory) -> Iterator[tuple[Snapshot, str, int]]:
    """Yield every (snapshot, kind, layer) of the sentences in pairs; `pairs_first_last` at the last layer."""
    for snapshot in run.snapshots:
        arrays = run.arrays(snapshot)
        kinds = {name: arrays.layers(name) for name in sorted(arrays.names) if name.startswith(PAIRED)}
        yield from ((snapshot, kind, layer) for kind, layers in kinds.items() for layer in layers)
        if len(means := kinds.get(PAIRED + "mean", range(0))) > 1:
            yield snapshot, PAIRED + FIRST_LAST, means[-1]


def layer(arrays: Arrays, vectors: str, layer: int) -> Vectors:
    """Return a layer of any kind of representation, also of `FIRST_LAST`."""
    if not vectors.endswith(FIRST_LAST):
        return arrays.layer(vectors, layer)
    mean = vectors.replace(FIRST_LAST, "mean")
    return np.asarray((arrays.layer(mean, 1) + arrays.layer(mean, layer)) / 2, np.float32)
