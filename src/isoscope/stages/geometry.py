"""`isoscope geometry`: the geometry of any encoder's or decoder's representations of any sentences, as one page.

What was computed is kept in the output's `cache/`: hidden states by (weights, sentences, code), each measure's figures
by (hidden states, measure's code, settings). A second call works out what is new and nothing else.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits
from tqdm import tqdm

from isoscope import plugins
from isoscope.analysis.dynamics import feature_dynamics
from isoscope.analysis.geometry import Cells, frame, places
from isoscope.analysis.measures import measure
from isoscope.analysis.parquet import write_parquet
from isoscope.analysis.trajectory import RANDOM, Snapshot, Trajectory, write_arrays, write_probe, write_snapshots
from isoscope.code import code_version
from isoscope.corpora import probe, tokens
from isoscope.corpora.checkpoints import fetch_checkpoint
from isoscope.corpora.hub import checkpoint_digest
from isoscope.corpora.plain import Texts
from isoscope.errors import InputError
from isoscope.sealing import fault, write_text, write_whole

TWIN_SEED = 10_000


class Settings(NamedTuple):
    """What is looked at, and how; see the command's options."""

    measures: tuple[str, ...]
    vectors: tuple[str, ...]
    sentences: int
    words: int
    max_length: int
    subsample: int
    draws: int
    confidence: float
    seed: int
    batch_size: int
    device: str
    precision: str
    threads: int | None


class Checkpoint(NamedTuple):
    """A checkpoint as people call it, the folder it stands in, and its digest."""

    name: str
    folder: Path
    digest: str


def find(names: Sequence[str]) -> list[Checkpoint]:
    """Checkpoints by folder or by hub name, `@revision` at its end. Raises `InputError` where one is not to be had."""
    found = []
    for name in names:
        if Path(name).is_dir():
            folder = Path(name).resolve()
            if not (folder / "config.json").is_file():
                raise InputError(f"checkpoint {name}: no config.json in it; give a Hugging Face checkpoint's folder")
        else:
            bare, _, revision = name.partition("@")
            folder = fetch_checkpoint(bare, revision=revision or "main")
        found.append(Checkpoint(name.rstrip("/"), folder, checkpoint_digest(folder)))
    if len({one.name for one in found}) < len(found):
        raise InputError("checkpoints: one is named twice")
    return found


def geometry(checkpoints: Sequence[Checkpoint], texts: Texts, settings: Settings, out: Path) -> pd.DataFrame:
    """The table of every measure at every layer of every checkpoint and of its random twin; also written to `out`.

    Columns as in `analysis.geometry`, and `checkpoint`. Raises `InputError` for what is no text transformer, NaN
    weights and too few sentences.
    """
    for name in settings.measures:
        measure(name)
    tables, planes, frames = [], [], []
    for one in checkpoints:
        states = _states(one, texts, settings, out / "cache")
        run = Trajectory(states)
        with threadpool_limits(settings.threads):
            rows = _rows(run, states.name, settings, out / "cache", one.name)
            tables.append(frame(rows).assign(checkpoint=one.name))
            coordinates, shown = feature_dynamics(run, "sign")
        labels = run.probe["label"].to_numpy()
        planes.append(coordinates.assign(checkpoint=one.name, label=labels[coordinates["sentence"]]))
        frames.append(shown.assign(checkpoint=one.name))
    found = pd.concat(tables, ignore_index=True)
    out.mkdir(parents=True, exist_ok=True)
    for file, table in (
        ("geometry.parquet", found),
        ("planes.parquet", pd.concat(planes, ignore_index=True)),
        ("frames.parquet", pd.concat(frames, ignore_index=True)),
    ):
        write_parquet(table, out / file)
    write_text(out / "geometry.csv", found.to_csv(index=False, lineterminator="\n"), "table")
    facts = {
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "text": texts.sha256,
        "classes": list(texts.classes),
        "settings": settings._asdict(),
        "measures": {name: _code_of(name) for name in settings.measures},
    }
    write_text(out / "manifest.json", json.dumps(facts, indent=1) + "\n", "table")
    return found


def _states(one: Checkpoint, texts: Texts, settings: Settings, cache: Path) -> Path:
    """The folder of a checkpoint's hidden states, made if it is not there, whole and unaltered."""
    chosen = {name: getattr(settings, name) for name in ("sentences", "words", "max_length", "seed", "precision")}
    parts = {"weights": one.digest, "text": texts.sha256, "code": code_version("extract"), **chosen}
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    folder = cache / "states" / key
    if not folder.is_dir() or fault(folder) is not None:
        write_whole(folder, lambda fresh: _extract(one, texts, settings, fresh, key), "states")
    return folder


def _extract(one: Checkpoint, texts: Texts, settings: Settings, folder: Path, key: str) -> None:
    import torch  # seconds, which a call that finds everything need not wait

    from isoscope.analysis import hidden_states as passes
    from isoscope.models.encoder import load_encoder, positions, random_encoder

    if settings.device == "cuda" and not torch.cuda.is_available():
        raise InputError("--device cuda: not available on this machine; use cpu")
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    model = load_encoder(one.folder)
    tokenizer = tokens.load(one.folder, padded=False)
    rows = probe.draw_rows(texts.table, [], share=1.0, most=settings.sentences, seed=settings.seed)
    chosen = probe.probe_set(
        tokenizer,
        texts.table,
        rows,
        max_length=min(settings.max_length, positions(model)),
        words=settings.words,
        block=40,
        attended=1,
        seed=settings.seed,
    )
    snapshots = [
        Snapshot("checkpoint", 0, None, True, one.digest),
        Snapshot(RANDOM, None, None, False, one.digest),
    ]
    for snapshot in tqdm(snapshots, desc=f"{one.name}: hidden states", unit="model", disable=None):
        if snapshot.name == RANDOM:
            model = random_encoder(one.folder, seed=TWIN_SEED + settings.seed)
        found = passes.hidden_states(
            model.to(settings.device),
            chosen,
            pad_id=tokenizer.pad_id,
            batch_size=settings.batch_size,
            bf16=settings.precision == "bf16",
        )
        write_arrays(folder / "states" / f"{snapshot.name}.safetensors", found, key)
    write_probe(folder, chosen)
    facts = {"sha256": chosen.digest, "sentences": len(rows), "truncated": chosen.encoded.truncated}
    write_snapshots(folder, snapshots, facts)


def _rows(run: Trajectory, key: str, settings: Settings, cache: Path, title: str) -> list[dict[str, Any]]:
    """Rows of every measure; each measure's are kept by themselves."""
    cells = Cells(
        run, subsample=settings.subsample, draws=settings.draws, confidence=settings.confidence, seed=settings.seed
    )
    sampled = (settings.subsample, settings.draws, settings.confidence, settings.seed, settings.vectors)
    rows: list[dict[str, Any]] = []
    for name in settings.measures:
        known = hashlib.sha256(repr((key, name, _code_of(name), sampled)).encode()).hexdigest()
        file = cache / "measures" / f"{known}.json"
        if not file.is_file():
            made = [
                row
                for snapshot, vectors, layer in tqdm(
                    list(places(run, settings.vectors)), desc=f"{title}: {name}", unit="cell", disable=None
                )
                for row in cells.measured(snapshot, vectors, layer, [name])
            ]
            write_text(file, json.dumps(made, default=_plain), "table")
        rows += json.loads(file.read_text("utf-8"))
    return rows


def _code_of(name: str) -> str:
    """What a measure's figures depend on in the code."""
    one = plugins.MEASURES.get(name)
    return plugins.digest(one.file) if one else code_version("measure")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
