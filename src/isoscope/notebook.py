"""isoscope from a notebook: a study's tables, and the geometry of any model's representations.

import isoscope
isoscope.load("fusion").table("geometry")
isoscope.geometry(model, texts)      # a Hugging Face model with its tokenizer, or a checkpoint's folder
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from isoscope import paths
from isoscope.config.explain import nearest
from isoscope.errors import InputError


class StudyTables(NamedTuple):
    """The tables of one study, in the folder where `isoscope explore` left them."""

    name: str
    folder: Path

    @property
    def tables(self) -> list[str]:
        """Names for `table`."""
        return sorted(path.stem for path in self.folder.glob("*.parquet"))

    def table(self, name: str) -> pd.DataFrame:
        """One table of all runs, with their arm and seed. Raises `InputError` where there is none of that name."""
        if name not in self.tables:
            raise InputError(f"study {self.name!r}: no table {name!r}{nearest(name, self.tables)}")
        return pd.read_parquet(self.folder / f"{name}.parquet")


def load(study: str, *, project: Path | None = None) -> StudyTables:
    """The tables of a study of the project around the working folder (or around `project`).

    Raises `InputError` where there is no project, or the study was not explored.
    """
    root = paths.find_project(project).folder
    folder = root / paths.inside(study)
    if not (folder / "stages.json").is_file():
        raise InputError(f"study {study!r}: {folder} is not there; run: isoscope repro")
    return StudyTables(study, folder)


def geometry(
    model: Any,
    texts: Sequence[str],
    *,
    labels: Sequence[int] | None = None,
    tokenizer: Any = None,
    measures: Sequence[str] | None = None,
    vectors: Sequence[str] = ("first", "last", "mean", "words"),
    words: int = 500,
    max_length: int = 128,
    subsample: int = 64,
    draws: int = 20,
    confidence: float = 0.95,
    seed: int = 0,
    batch_size: int = 32,
) -> pd.DataFrame:
    """Every measure at every layer of a model, over `texts`; a row per layer, kind of representation and figure.

    `model`: a Hugging Face encoder or decoder without a head, on any device, or the folder of a checkpoint.
    `tokenizer`: a fast Hugging Face tokenizer, needed unless `model` is a folder. Columns as in `analysis.geometry`;
    `baseline` is isotropic noise at the same n and d. Raises `InputError` for what is no such model or text.
    """
    import tempfile

    import numpy as np
    import pyarrow as pa

    from isoscope.analysis import hidden_states as passes
    from isoscope.analysis.geometry import Cells, frame, places
    from isoscope.analysis.measures import BUILT_IN
    from isoscope.analysis.trajectory import Snapshot, Trajectory, write_arrays, write_probe, write_snapshots
    from isoscope.corpora import probe, tokens
    from isoscope.models.encoder import load_encoder

    if isinstance(model, str | Path):
        folder = Path(model)
        pieces, model = tokens.load(folder, padded=False), load_encoder(folder)
    elif tokenizer is None or not getattr(tokenizer, "is_fast", False):
        raise InputError(
            "tokenizer: give the model's fast tokenizer (AutoTokenizer.from_pretrained), or a folder as model"
        )
    else:
        backend = tokenizer.backend_tokenizer
        backend.no_padding()
        backend.no_truncation()
        pieces = tokens.WordPieces(backend, tokenizer.pad_token_id or 0, len(tokenizer))
    columns: dict[str, Any] = {"sentence": list(texts)}
    if labels is not None:
        columns["label"] = np.asarray(labels, np.int64)
    table = pa.table(columns)
    chosen = probe.probe_set(
        pieces,
        table,
        np.arange(table.num_rows),
        max_length=max_length,
        words=words,
        block=min(40, table.num_rows),
        attended=1,
        seed=seed,
    )
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        arrays = passes.hidden_states(model, chosen, pad_id=pieces.pad_id, batch_size=batch_size)
        write_arrays(folder / "states" / "model.safetensors", arrays, "model")
        write_probe(folder, chosen)
        write_snapshots(folder, [Snapshot("model", 0, None, True, "")], {})
        run = Trajectory(folder)
        cells = Cells(run, subsample=subsample, draws=draws, confidence=confidence, seed=seed)
        names = list(measures or BUILT_IN)
        return frame([row for one in places(run, vectors) for row in cells.measured(*one, names)])
