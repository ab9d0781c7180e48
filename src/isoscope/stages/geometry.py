"""`isoscope geometry`: the geometry of any encoder's or decoder's representations of any sentences, as one page.

What was computed is kept in the output's `cache/`, in sealed folders: hidden states by (weights, sentences, classes,
code), each measure's figures by (hidden states, code, settings). A second call works out what is new or was altered,
and nothing else.
"""

import hashlib
import json
import os
from collections.abc import Sequence
from functools import partial
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

ROWS = "rows.json"
PAGE = {"made_by": "isoscope geometry"}
"""Marks a manifest as that of a page; others have manifests too."""


class Settings(NamedTuple):
    """What is looked at, and how; see the command's options. No `vectors`: all, of a causal model not `first`."""

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


def check_out(out: Path) -> None:
    """Raise `InputError` unless `out` is new, empty, an earlier page, or the cache of a call that got to none."""
    above = next(one for one in (out.absolute(), *out.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}: {above} is no folder that can be written to")
    if above != out.absolute():
        return
    begun = {path.relative_to(out).parts for path in (*out.glob("*"), *out.glob("cache/*"))}
    if begun <= {("cache",), ("cache", "states"), ("cache", "measures")}:
        return
    try:
        facts = json.loads((out / "manifest.json").read_text("utf-8"))
        own = PAGE.items() <= facts.items()
    except (OSError, ValueError, AttributeError):
        own = False
    if not own:
        raise InputError(f"--out {out}: holds something other than an earlier page; give a new folder")


def geometry(checkpoints: Sequence[Checkpoint], texts: Texts, settings: Settings, out: Path) -> pd.DataFrame:
    """The table of every measure at every layer of every checkpoint and of its random twin; also written to `out`.

    Columns as in `analysis.geometry`, and `checkpoint`. Raises `InputError` for what is no text transformer, NaN
    weights, too few sentences and measures that none of the representations has.
    """
    for name in settings.measures:
        measure(name)
    tables, planes, frames = [], [], []
    for one in checkpoints:
        states = _states(one, texts, settings, out / "cache")
        run = Trajectory(states)
        labels = run.probe["label"].to_numpy()
        with threadpool_limits(settings.threads):
            tables.append(_table(run, states.name, settings, out / "cache", one.name))
            for vectors in ("last", "mean") if run.facts["causal"] else ("first",):
                coordinates, shown = feature_dynamics(run, "sign", vectors=vectors)
                about = {"checkpoint": one.name, "vectors": vectors}
                planes.append(coordinates.assign(**about, label=labels[coordinates["sentence"]]))
                frames.append(shown.assign(**about))
    found = pd.concat(tables, ignore_index=True)
    facts = {
        **PAGE,
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "file": texts.sha256,
        "text": texts.digest,
        "classes": list(texts.classes),
        "settings": {**settings._asdict(), "vectors": list(found["vectors"].unique())},
        "measures": {name: _code_of(name) for name in settings.measures},
    }
    write_text(out / "manifest.json", json.dumps(facts, indent=1) + "\n", "table")  # first: it makes the folder ours
    for file, table in (
        ("geometry.parquet", found),
        ("planes.parquet", pd.concat(planes, ignore_index=True)),
        ("frames.parquet", pd.concat(frames, ignore_index=True)),
    ):
        write_parquet(table, out / file)
    write_text(out / "geometry.csv", found.to_csv(index=False, lineterminator="\n"), "table")
    return found


def _states(one: Checkpoint, texts: Texts, settings: Settings, cache: Path) -> Path:
    """The folder of a checkpoint's hidden states, made if it is not there, whole and unaltered."""
    chosen = {name: getattr(settings, name) for name in ("sentences", "words", "max_length", "seed", "precision")}
    parts = {"weights": one.digest, "texts": texts.digest, "code": code_version("geometry"), **chosen}
    key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
    folder = cache / "states" / key
    if not folder.is_dir() or fault(folder) is not None:
        write_whole(folder, lambda fresh: _extract(one, texts, settings, fresh, key), "states")
    return folder


def _extract(one: Checkpoint, texts: Texts, settings: Settings, folder: Path, key: str) -> None:
    import torch  # seconds, which a call that finds everything need not wait

    from isoscope.analysis import hidden_states as passes
    from isoscope.models.encoder import TWIN_SEED, causal, load_encoder, positions, random_encoder

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
    back = causal(model, max(chosen.encoded.ids, key=len))
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
    facts = {"sha256": chosen.digest, "sentences": len(rows), "truncated": chosen.encoded.truncated, "causal": back}
    write_snapshots(folder, snapshots, facts)


def _table(run: Trajectory, key: str, settings: Settings, cache: Path, title: str) -> pd.DataFrame:
    """Every measure's rows; each measure's are kept by themselves."""
    cells = Cells(
        run, subsample=settings.subsample, draws=settings.draws, confidence=settings.confidence, seed=settings.seed
    )
    usual = (kind for kind in run.arrays(run.best).vectors if kind != "first" or not run.facts["causal"])
    vectors = settings.vectors or tuple(usual)
    sampled = (settings.subsample, settings.draws, settings.confidence, settings.seed, vectors)
    rows: list[dict[str, Any]] = []
    for name in settings.measures:
        known = hashlib.sha256(repr((key, name, _code_of(name), sampled)).encode()).hexdigest()
        folder = cache / "measures" / known
        if fault(folder) is not None:
            made = [
                row
                for snapshot, kind, layer in tqdm(
                    list(places(run, vectors)), desc=f"{title}: {name}", unit="cell", disable=None
                )
                for row in cells.measured(snapshot, kind, layer, [name])
            ]
            write_whole(folder, partial(_write_rows, made), "table")
        rows += json.loads((folder / ROWS).read_text("utf-8"))
    if not rows:
        raise InputError(
            f"--measure {', '.join(settings.measures)}: nothing to measure in {', '.join(vectors)}; "
            "classes need --labels, and classes and shape are of sentences, not of words"
        )
    return frame(rows).assign(checkpoint=title)


def _code_of(name: str) -> str:
    """What a measure's figures depend on in the code; a plugin's also on its file."""
    one = plugins.MEASURES.get(name)
    return code_version("geometry") + (plugins.digest(one.file) if one else "")


def _write_rows(rows: list[dict[str, Any]], folder: Path) -> None:
    write_text(folder / ROWS, json.dumps(rows, default=_plain), "table")


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else str(value)
