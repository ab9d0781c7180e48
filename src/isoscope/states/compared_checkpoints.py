"""Tables of `isoscope spaces`: the spaces of any checkpoints, compared on the same words."""

from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope.base.atomic_files import kept
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_tables
from isoscope.base.workers import with_bar, workers
from isoscope.data.plain import Texts, read_pairs
from isoscope.data.word_links import Translation
from isoscope.data.word_table import word_table
from isoscope.data.words import segmenter_of
from isoscope.states.checkpoint_states import TWIN, page_facts, word_space
from isoscope.states.choices import SPACES, Settings, SpaceSettings
from isoscope.states.compared_items import compared_items
from isoscope.states.given_checkpoints import Checkpoint
from isoscope.states.space_tables import Compared, Named, of_pairs
from isoscope.states.space_tables import tables as tables_of

Tables = dict[str, pd.DataFrame]
SHARED = ("max_length", "confidence", "seed", "batch_size", "device", "precision", "threads")
"""Options that `isoscope geometry` has, too, with the same meaning."""


def spaces(
    checkpoints: Sequence[Checkpoint],
    texts: Texts,
    settings: SpaceSettings,
    cache: Path,
    *,
    translated: Translation | None = None,
) -> tuple[Tables, dict[str, Any]]:
    """Compare two or more checkpoints, and their random-weights controls. Return the tables, and the page's facts.

    Every pair of checkpoints is compared layer by layer, and the pair of their twins. `translated`: the second of two
    reads this instead; its states are those of the words that are linked to the text's. Raises `InputError` for fewer
    than two checkpoints, more than two with a translation, a model that is no text transformer, NaN weights, and too
    few sentences or links.
    """
    given = prepared(checkpoints, texts, settings, cache, translated)
    tables, there = made(tables_of, given, settings), given.linked
    about = [given.spaces[one.name].space.facts for one in checkpoints]
    return tables, page_facts(checkpoints, texts, settings, len(given.table.texts), about) | {
        "layers": {name: one.space.layers for name, one in given.spaces.items()},
        "origin": texts.origin + (f"; {checkpoints[1].name} reads {translated.origin}" if translated else ""),
        "words": given.table.by or (there and there.table.by),
        "translation": there and {"text": there.digest, "links": there.links},
    }


def translation(text: Path, column: str | None, other: str | None, links: Path | None) -> Translation | None:
    """Return what the second checkpoint reads; None if it reads the text. Raises `InputError` for a lacking option."""
    if other is None:
        if links is not None:
            raise InputError(f"--links {links}: without --other-column there is no translation to link")
        return None
    if column is None:
        raise InputError(f"--other-column {other}: name the column of the text, too: --column")
    pairs = read_pairs(text, column=column, references=other, sentences=None)
    assert pairs.references is not None
    return Translation(pairs.references, links, f"{text.name}, column {other!r}")


def prepared(
    checkpoints: Sequence[Checkpoint],
    texts: Texts,
    settings: SpaceSettings,
    cache: Path,
    translated: Translation | None = None,
) -> Compared:
    """Return the spaces of checkpoints and of their twins, from the cache or extracted. Raises as `spaces`."""
    if translated and len(checkpoints) != 2:
        raise InputError(f"--other-column: the second of two checkpoints reads it, but {len(checkpoints)} are given")
    if len(checkpoints) < 2:
        raise InputError("spaces: one checkpoint; give two or more")
    table = word_table(
        texts.table["sentence"].to_pylist(),
        occurrences=settings.occurrences,
        per_sentence=settings.per_sentence,
        seed=settings.seed,
        tagged=texts.tagged,
        origin=texts.origin,
    )
    compared_items(table, np.ones(len(table.rows), bool), probe=settings.probe, seed=settings.seed)  # is it enough?
    there = translated.linked(texts.table["sentence"].to_pylist(), table) if translated else None
    found: dict[str, Named] = {}
    for number, one in enumerate(checkpoints):
        reads = there if number else None
        # Twins of one architecture and seed would be the same model.
        for seed in (None, settings.seed + number):
            space = word_space(one, seed, (reads or texts).digest, reads.table if reads else table, settings, cache)
            space = space.linked(table, reads.rows) if reads else space
            twin, linked = seed is not None, reads is not None
            found[one.name + TWIN * twin] = Named(space, one.name, None, twin=twin, linked=linked)
    couples = [*combinations((one.name for one in checkpoints), 2)]
    return Compared(table, found, couples + [(one + TWIN, other + TWIN) for one, other in couples], there)


def grids(checkpoints: Sequence[Checkpoint], texts: Texts, asked: Settings, cache: Path) -> Tables:
    """Return the tables of pairs of `spaces` for the page of `isoscope geometry`, from its cache.

    The options that both commands have are those `asked`, the others the defaults of `isoscope spaces`. Raises as
    `spaces`.
    """
    settings = SPACES._replace(**{name: getattr(asked, name) for name in SHARED})
    chosen = {name: value for name, value in settings._asdict().items() if name not in ("threads", "batch_size")}
    by = segmenter_of(texts.table["sentence"].to_pylist(), texts.origin)
    about = {
        "checkpoints": [[one.name, one.digest] for one in checkpoints],
        "texts": texts.digest,
        "code": code_version("spaces"),
        "settings": chosen,
        **({"words": by} if by else {}),
    }

    def fill(folder: Path) -> None:
        write_tables(folder, made(of_pairs, prepared(checkpoints, texts, settings, cache), settings))

    folder = kept(cache / "grids", about, fill, "table")
    return {path.stem: pd.read_parquet(path) for path in folder.glob("*.parquet")}


def made(make: Callable[..., Tables], given: Compared, settings: SpaceSettings) -> Tables:
    """Make tables of spaces. Small matrices gain more from processes than from threads; a card has one process."""
    processes, threads = (1, settings.threads) if settings.device == "cuda" else (settings.threads, 1)
    with threadpool_limits(threads), workers(processes, key="--threads") as spread:
        over = with_bar(spread, lambda: None, "spaces")
        return make(given, settings, over)
