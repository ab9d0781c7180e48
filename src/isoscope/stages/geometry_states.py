"""Extract hidden states and attention of a checkpoint and its random twin; cache them by content."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from isoscope.code import code_version
from isoscope.data import probe, tokens
from isoscope.data.batches import Indices
from isoscope.data.plain import Texts
from isoscope.errors import InputError
from isoscope.inside.choices import Settings
from isoscope.inside.kept import kept
from isoscope.inside.trajectory import RANDOM, Snapshot, Trajectory

OWN = "checkpoint"
"""Name of the snapshot that is the checkpoint itself."""
BLOCK = 40
"""How many sentences keep the embedding parts of their tokens."""
STATES = ("sentences", "words", "max_length", "seed", "precision", "device")
ATTENTION = ("sentences", "attended", "max_length", "seed", "device")
"""Settings that the pass for hidden states and the pass for attention depend on."""


class Checkpoint(NamedTuple):
    """A checkpoint: short name, folder, digest, and the path or hub name as given."""

    name: str
    folder: Path
    digest: str
    given: str = ""


def hidden_states(one: Checkpoint, texts: Texts, settings: Settings, cache: Path, *, attended: bool) -> Trajectory:
    """Return the hidden states of a checkpoint and its twin, or their attention (`attended`); extract if not cached.

    The trajectory's `facts` are those of `extract_model`.
    """
    chosen = {name: getattr(settings, name) for name in (ATTENTION if attended else STATES)}
    about = {"weights": one.digest, "texts": texts.digest, "code": code_version("geometry"), **chosen}
    return Trajectory(kept(cache / "states", about, partial(_extract, one, texts, settings, attended), "states"))


def _extract(one: Checkpoint, texts: Texts, settings: Settings, attended: bool, folder: Path) -> None:
    import torch  # takes seconds to import; not needed if everything is cached

    from isoscope.models.build import warn_of_emulation
    from isoscope.models.encoder import TWIN_SEED, load_encoder, random_encoder

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: not available on this machine; use cpu")
    torch.set_num_threads(settings.threads)
    warn_of_emulation(settings.precision, device=settings.device, key="--precision")
    extract_model(
        folder,
        load_encoder(one.folder).to(settings.device),
        lambda: random_encoder(one.folder, seed=TWIN_SEED + settings.seed).to(settings.device),
        tokens.load(one.folder, padded=False),
        texts.table,
        probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed),
        settings,
        attended=attended,
        title=f"{one.name}: {'attention' if attended else 'hidden states'}",
    )


def extract_model(
    folder: Path,
    model: Any,
    twin: Callable[[], Any] | None,
    tokenizer: tokens.WordPieces,
    table: Any,
    rows: Indices,
    settings: Settings,
    *,
    name: str = OWN,
    attended: bool = False,
    title: str = "hidden states",
) -> None:
    """Write the hidden states of a model in memory, or its attention (`attended`), over `rows` of a table of sentences.

    `twin` makes the same architecture with random weights; None: no twin. Facts in addition to those of every
    extraction:

    - `causal`: whether the model is causal.
    - `cls`: whether sentences begin with a special token.
    - `pieces`: text of each token id of the sentences whose embedding parts are kept.
    - `lacking`: why there is no attention.
    """
    from isoscope.inside import hidden_states as passes
    from isoscope.inside.extracted_states import extract_snapshots
    from isoscope.models.encoder import causal, positions

    chosen = probe.probe_set(
        tokenizer,
        table,
        rows,
        max_length=min(settings.max_length, positions(model)),
        words=settings.words,
        block=BLOCK,
        attended=settings.attended,
        seed=settings.seed,
    )
    ids = np.unique(np.concatenate([chosen.encoded.ids[row] for row in chosen.block])).tolist()
    facts: dict[str, Any] = {
        "causal": causal(model, max(chosen.encoded.ids, key=len)),
        "cls": chosen.begins_special,
        "pieces": {str(number): _piece(tokenizer, number) for number in ids},
    }
    given = {"pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}

    def arrays(snapshot: Snapshot) -> passes.Arrays:
        current = twin() if twin and snapshot.name == RANDOM else model
        if not attended:
            return passes.hidden_states(current, chosen, bf16=settings.precision == "bf16", **given)
        try:
            return passes.attention(current, chosen, **given)
        except InputError as error:
            facts["lacking"] = str(error)
            return {}

    snapshots = [Snapshot(name, 0, None, True, ""), *([Snapshot(RANDOM, None, None, False, "")] if twin else [])]
    extract_snapshots(folder, chosen, snapshots, arrays, key="geometry", facts=facts, title=title)


def _piece(tokenizer: tokens.WordPieces, number: int) -> str:
    """Return a token as readable text."""
    text = tokenizer.backend.decode([number], skip_special_tokens=False).strip()
    return text or str(tokenizer.backend.id_to_token(number))
