"""`isoscope spaces`: compare the spaces of any checkpoints on the same words; tables, figures and one page.

States are cached by content in the output's `cache/`: a second call extracts only what is new.
"""

import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope.code import code_version
from isoscope.data import tokens
from isoscope.data.parquet import write_parquet
from isoscope.data.plain import Texts
from isoscope.data.word_table import WordTable, word_table
from isoscope.errors import InputError
from isoscope.inside.choices import SpaceSettings
from isoscope.inside.similarity_tables import Sampling
from isoscope.inside.space import Space, write_space
from isoscope.sealing import kept, write_text
from isoscope.stages.geometry_tables import Checkpoint
from isoscope.studies.spaces.tables import tables as tables_of
from isoscope.workers import with_bar, workers

PAGE = {"made_by": "isoscope spaces"}
"""Entry that marks a manifest as that of a page."""
TWIN = ", random weights"


def spaces(
    checkpoints: Sequence[Checkpoint], texts: Texts, settings: SpaceSettings, out: Path
) -> dict[str, pd.DataFrame]:
    """Compare two or more checkpoints, and their twins with random weights. Write the tables to `out` and return them.

    Every pair of checkpoints is compared layer by layer, and the pair of their twins. Raises `InputError` for fewer
    than two checkpoints, a model that is no text transformer, NaN weights, and too few sentences.
    """
    if len(checkpoints) < 2:
        raise InputError("spaces: one checkpoint; give two or more")
    table = word_table(
        texts.table["sentence"].to_pylist(),
        occurrences=settings.occurrences,
        per_sentence=settings.per_sentence,
        seed=settings.seed,
    )
    found: dict[str, Space] = {}
    for number, one in enumerate(checkpoints):
        # Twins of one architecture and seed would be the same model.
        for seed in (None, settings.seed + number):
            found[one.name + TWIN * (seed is not None)] = _states(one, seed, texts, table, settings, out / "cache")
    names = [one.name for one in checkpoints]
    couples = [(one, other) for number, one in enumerate(names) for other in names[number + 1 :]]
    couples += [(one + TWIN, other + TWIN) for one, other in couples]
    sampling = Sampling(*(getattr(settings, name) for name in Sampling._fields))
    # Small matrices gain more from processes than from threads.
    with threadpool_limits(1), workers(settings.threads, key="--threads") as spread:
        tables = tables_of(
            found,
            couples,
            table,
            probe=settings.probe,
            draws=settings.draws,
            histogram=settings.histogram,
            sampling=sampling,
            over=with_bar(spread, lambda: None, "spaces"),
        )
    facts = {
        **PAGE,
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "given": {one.name: one.given or one.name for one in checkpoints},
        "layers": {name: space.layers for name, space in found.items()},
        "text": texts.digest,
        "origin": texts.origin,
        "left_out": texts.left_out,
        "settings": settings._asdict(),
        "tables": sorted(tables),
    }
    write_text(out / "manifest.json", json.dumps(facts, indent=1) + "\n", "table")
    for name, rows in tables.items():
        write_parquet(rows, out / f"{name}.parquet")
    return tables


def _states(
    one: Checkpoint, twin: int | None, texts: Texts, table: WordTable, settings: SpaceSettings, cache: Path
) -> Space:
    """Return the space of a checkpoint, or of its twin of this seed; extract it if it is not cached."""
    names = ("occurrences", "per_sentence", "pooling", "max_length", "seed", "precision", "device")
    about = {"weights": one.digest, "twin": twin, "texts": texts.digest, "code": code_version("spaces")}
    about |= {name: getattr(settings, name) for name in names}
    return Space(kept(cache / "states", about, partial(_extract, one, twin, table, settings), "states"))


def _extract(one: Checkpoint, twin: int | None, table: WordTable, settings: SpaceSettings, folder: Path) -> None:
    import torch  # takes seconds to import; not needed if everything is cached

    from isoscope.models.build import warn_of_emulation
    from isoscope.models.encoder import TWIN_SEED, load_encoder, positions, random_encoder

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: not available on this machine; use cpu")
    torch.set_num_threads(settings.threads)
    warn_of_emulation(settings.precision, device=settings.device, key="--precision")
    if not sys.stderr.isatty():
        print(f"{one.name}{TWIN * (twin is not None)}: states", file=sys.stderr, flush=True)
    model = load_encoder(one.folder) if twin is None else random_encoder(one.folder, seed=TWIN_SEED + twin)
    facts: dict[str, Any] = {"model": one.name, "seed": None, "twin": twin is not None}
    write_space(
        folder,
        model.to(settings.device),
        tokens.load(one.folder, padded=False),
        table,
        pooling=settings.pooling,
        max_length=min(settings.max_length, positions(model)),
        batch_size=settings.batch_size,
        bf16=settings.precision == "bf16",
        facts=facts,
    )
