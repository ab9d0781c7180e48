"""What checkpoints make of sentences: hidden states and attention, their own and their twins', kept by content."""

import hashlib
import json
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from tqdm import tqdm

from isoscope.analysis.trajectory import RANDOM, Snapshot, Trajectory, write_arrays, write_probe, write_snapshots
from isoscope.code import code_version
from isoscope.corpora import probe, tokens
from isoscope.corpora.plain import Texts
from isoscope.errors import InputError
from isoscope.sealing import fault, write_whole

OWN = "checkpoint"
"""Name of the snapshot that is the checkpoint itself."""
BLOCK = 40
"""Sentences whose tokens' embedding parts are kept."""


class Settings(NamedTuple):
    """What is looked at, and how; see the command's options. No `vectors`: `catalogue.usual_vectors`."""

    analyses: tuple[str, ...]
    measures: tuple[str, ...]
    vectors: tuple[str, ...]
    alignment: Any
    sentences: int
    words: int
    attended: int
    max_length: int
    subsample: int
    draws: int
    confidence: float
    folds: int
    seed: int
    batch_size: int
    device: str
    precision: str
    threads: int


class Checkpoint(NamedTuple):
    """A checkpoint's short name, its folder, its digest, and the path or hub name that was given for it."""

    name: str
    folder: Path
    digest: str
    given: str = ""


def hidden_states(one: Checkpoint, texts: Texts, settings: Settings, cache: Path) -> Trajectory:
    """Hidden states of a checkpoint and its twin, made if they are not there, whole and unaltered.

    `facts`: `causal`, `cls` (whether sentences begin with a special token), and `pieces`, the text of each token id in
    the sentences whose embedding parts are kept.
    """
    depends = ("sentences", "words", "max_length", "seed", "precision", "device")
    return _kept(one, texts, settings, cache, depends, attended=False)


def attention(one: Checkpoint, texts: Texts, settings: Settings, cache: Path) -> Trajectory:
    """Attention of both, by an eager pass. Of a model that gives none there are no arrays: `facts["lacking"]` says."""
    return _kept(one, texts, settings, cache, ("sentences", "attended", "max_length", "seed", "device"), attended=True)


def _kept(
    one: Checkpoint, texts: Texts, settings: Settings, cache: Path, depends: tuple[str, ...], *, attended: bool
) -> Trajectory:
    chosen = {name: getattr(settings, name) for name in depends}
    about = {"weights": one.digest, "texts": texts.digest, "code": code_version("geometry"), **chosen}
    key = hashlib.sha256(json.dumps(about, sort_keys=True).encode()).hexdigest()
    folder = cache / "states" / key
    if fault(folder) is not None:
        fill = partial(_extract, one, texts, settings, key, attended=attended)
        write_whole(folder, fill, "states")
    return Trajectory(folder)


def _extract(one: Checkpoint, texts: Texts, settings: Settings, key: str, folder: Path, *, attended: bool) -> None:
    import torch  # seconds, which a call that finds everything need not wait

    from isoscope.analysis import hidden_states as passes
    from isoscope.models.encoder import TWIN_SEED, causal, load_encoder, positions, random_encoder
    from isoscope.models.precision import warn_of_emulation

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: not available on this machine; use cpu")
    torch.set_num_threads(settings.threads)
    warn_of_emulation(settings.precision, device=settings.device, key="--precision")
    model = load_encoder(one.folder)
    tokenizer = tokens.load(one.folder, padded=False)
    rows = probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed)
    chosen = probe.probe_set(
        tokenizer,
        texts.table,
        rows,
        max_length=min(settings.max_length, positions(model)),
        words=settings.words,
        block=BLOCK,
        attended=settings.attended,
        seed=settings.seed,
    )
    facts: dict[str, Any] = {
        "sha256": chosen.digest,
        "sentences": len(rows),
        "truncated": chosen.encoded.truncated,
        "causal": causal(model, max(chosen.encoded.ids, key=len)),
        "cls": chosen.begins_special,
        "pieces": {
            str(one): _piece(tokenizer, one) for row in chosen.block for one in chosen.encoded.ids[row].tolist()
        },
    }
    given = {"pad_id": tokenizer.pad_id, "batch_size": settings.batch_size}
    snapshots = [Snapshot(OWN, 0, None, True, one.digest), Snapshot(RANDOM, None, None, False, one.digest)]
    what = "attention" if attended else "hidden states"
    for snapshot in tqdm(snapshots, desc=f"{one.name}: {what}", unit="model", disable=None):
        if snapshot.name == RANDOM:
            model = random_encoder(one.folder, seed=TWIN_SEED + settings.seed)
        model.to(settings.device)
        if not attended:
            found = passes.hidden_states(model, chosen, bf16=settings.precision == "bf16", **given)
        elif "lacking" not in facts:
            found, lacking = _attended(model, chosen, given)
            facts |= {"lacking": lacking} if lacking else {}
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", found, key)
    if not attended:
        write_probe(folder, chosen)
    write_snapshots(folder, snapshots, facts)


def _attended(model: Any, chosen: probe.ProbeSet, given: dict[str, int]) -> tuple[Any, str | None]:
    """The arrays of the attention pass, or none and why."""
    from isoscope.analysis import hidden_states as passes

    try:
        return passes.attention(model, chosen, **given), None
    except InputError as error:
        return {}, str(error)


def _piece(tokenizer: tokens.WordPieces, number: int) -> str:
    """A token as people read it."""
    text = tokenizer.backend.decode([number], skip_special_tokens=False).strip()
    return text or str(tokenizer.backend.id_to_token(number))
