"""States of a checkpoint for `isoscope spaces`, cached by content: a second call extracts only what is new.

A file of its own, so that a changed measure or figure extracts nothing again.
"""

import hashlib
import sys
from functools import partial
from pathlib import Path

from isoscope.base.atomic_files import kept
from isoscope.base.code_closure import code_version
from isoscope.data import tokens
from isoscope.data.word_table import KEY, WordTable
from isoscope.platform.stages.geometry_tables import Checkpoint
from isoscope.states.choices import SpaceSettings
from isoscope.states.translated_words import Linked
from isoscope.states.word_space import Space, relinked, write_space

TWIN = ", random weights"


def states(
    one: Checkpoint, twin: int | None, texts: str, table: WordTable, settings: SpaceSettings, cache: Path
) -> Space:
    """Return the space of a checkpoint, or of its twin of this seed; extract it if it is not cached.

    `texts`: digest of the sentences.
    """
    names = ("occurrences", "per_sentence", "pooling", "max_length", "seed", "precision", "device")
    about = {"weights": one.digest, "twin": twin, "texts": texts, "code": code_version("space_states")}
    about |= {name: getattr(settings, name) for name in names}
    return Space(kept(cache / "states", about, partial(_extract, one, twin, table, settings), "states"))


def linked_states(space: Space, table: WordTable, linked: Linked, cache: Path) -> Space:
    """Return the states of linked words as those of a table's words, cached."""
    rows = hashlib.sha256(table.rows[KEY].to_csv().encode()).hexdigest()
    about = {"of": space.folder.name, "links": linked.links, "rows": rows, "code": code_version("space_states")}
    fill = partial(relinked, space=space, table=table, rows=linked.rows)
    return Space(kept(cache / "states", about, fill, "states"))


def _extract(one: Checkpoint, twin: int | None, table: WordTable, settings: SpaceSettings, folder: Path) -> None:
    import torch  # takes seconds to import; not needed if everything is cached

    from isoscope.models.build import check_device, warn_of_emulation
    from isoscope.models.encoder import TWIN_SEED, load_encoder, positions, random_encoder

    check_device(settings.device, key="--device", cure="cpu")
    torch.set_num_threads(settings.threads)
    warn_of_emulation(settings.precision, device=settings.device, key="--precision")
    if not sys.stderr.isatty():
        print(f"{one.name}{TWIN * (twin is not None)}: states", file=sys.stderr, flush=True)
    model = load_encoder(one.folder) if twin is None else random_encoder(one.folder, seed=TWIN_SEED + twin)
    write_space(
        folder,
        model.to(settings.device),
        tokens.load(one.folder, padded=False),
        table,
        pooling=settings.pooling,
        max_length=min(settings.max_length, positions(model)),
        batch_size=settings.batch_size,
        bf16=settings.precision == "bf16",
    )
    one.check_unchanged()
