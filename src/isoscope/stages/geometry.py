"""`isoscope geometry`: the geometry of any encoder's or decoder's representations of any sentences, as one page.

What was computed is kept in the output's `cache/`, in sealed folders: hidden states by (weights, sentences, classes,
code), each measure's figures by (hidden states, code, settings). A second call works out what is new or was altered,
and nothing else.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope.data.checkpoints import checkpoint_digest, fetch_checkpoint, loadable_config
from isoscope.data.parquet import write_parquet
from isoscope.data.plain import Texts
from isoscope.data.short_names import short_names
from isoscope.errors import InputError
from isoscope.inside.catalogue import MAPPED, Tables
from isoscope.inside.choices import Settings
from isoscope.inside.measures import measure
from isoscope.inside.trajectory import Trajectory
from isoscope.sealing import write_text
from isoscope.stages.geometry_states import Checkpoint, hidden_states
from isoscope.stages.geometry_tables import analysis, code_of, planes

PAGE = {"made_by": "isoscope geometry"}
"""Marks a manifest as that of a page; others have manifests too."""


def find(given: Sequence[str]) -> list[Checkpoint]:
    """Checkpoints by folder or by hub name, `@revision` at its end; each is called by a short name of its own.

    Raises `InputError` where one is not to be had, or is given twice.
    """
    folders: list[Path] = []
    for name in given:
        if name.startswith((".", "/", "~")) and not Path(name).is_dir():
            raise InputError(f"checkpoint {name}: no such folder")
        if Path(name).is_dir():
            folder = Path(name).resolve()
        else:
            bare, _, revision = name.partition("@")
            try:
                folder = fetch_checkpoint(bare, revision=revision or "main")
            except InputError as error:
                raise InputError(f"{error}; nor is there a folder {bare} here") from error
        loadable_config(folder)
        if folder in folders:
            raise InputError(f"checkpoints: {given[folders.index(folder)]} and {name} are one folder; give it once")
        folders.append(folder)
    return [
        Checkpoint(name, folder, checkpoint_digest(folder), asked)
        for name, folder, asked in zip(short_names(_paths(given)), folders, given, strict=True)
    ]


def _paths(given: Sequence[str]) -> list[str]:
    """What names are made of: `.` and `..` as the folders that they are. Whole paths where two would be one."""
    plain = [os.path.normpath(name) for name in given]
    plain = [os.path.realpath(name) if name.endswith(".") and Path(name).is_dir() else name for name in plain]
    return plain if len(set(plain)) == len(plain) else [os.path.realpath(name) for name in given]


def check_out(out: Path) -> None:
    """Raise `InputError` unless `out` is new, empty, an earlier page, or the cache of a call that got to none."""
    above = next(one for one in (out.absolute(), *out.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}: {above} is no folder that can be written to")
    if above != out.absolute():
        return
    begun = {path.relative_to(out).parts for path in (*out.glob("*"), *out.glob("cache/*"))}
    # The page's manifest is its first file: a call that was stopped while writing it leaves no more than that.
    if begun <= {("cache",), ("cache", "states"), ("cache", "tables"), (".manifest.json.writing",)}:
        return
    if not PAGE.items() <= _manifest(out).items():
        raise InputError(f"--out {out}: holds something other than an earlier page; give a new folder")


def _manifest(out: Path) -> dict[str, Any]:
    """That of an earlier page, or of anything else; empty where there is none."""
    try:
        facts = json.loads((out / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def geometry(checkpoints: Sequence[Checkpoint], texts: Texts, settings: Settings, out: Path) -> Tables:
    """The tables of every analysis of every checkpoint and of its random twin, by name; also written to `out`.

    All have a column `checkpoint`; `geometry` is that of measures, with columns as in `analysis.geometry`. Raises
    `InputError` for what is no text transformer, NaN weights, too few sentences and measures that none of the
    representations has.
    """
    for name in settings.measures:
        measure(name)
    cache = out / "cache"
    runs = {one.name: hidden_states(one, texts, settings, cache, attended=False) for one in checkpoints}
    found: dict[str, list[pd.DataFrame]] = {}
    notes = [note for name, run in runs.items() for note in _first_token(name, run, settings)]
    with threadpool_limits(settings.threads):
        for one, name in product(checkpoints, (name for name in settings.analyses if name != "planes")):
            if not sys.stderr.isatty():  # a log, where no bar is drawn
                print(f"{one.name}: {name}", file=sys.stderr, flush=True)
            run = runs[one.name]
            if name == "attention":
                run = hidden_states(one, texts, settings, cache, attended=True)
            tables, note = analysis(name, run, settings, cache, one.name)
            for kind, table in tables.items():
                found.setdefault(kind, []).append(table.assign(checkpoint=one.name))
            notes += [{"checkpoint": one.name, "analysis": name, "note": note}] if note else []
        whole = {name: pd.concat(parts, ignore_index=True) for name, parts in found.items()}
        whole |= planes(runs, settings, cache) if "planes" in settings.analyses else {}
    looked_at = {"vectors": [*whole["geometry"]["vectors"].unique()]} if "geometry" in whole else {}
    facts = {
        **PAGE,
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "given": {one.name: one.given or one.name for one in checkpoints},
        "causal": [name for name, run in runs.items() if run.facts["causal"]],
        "pieces": {name: _pieces(run) for name, run in runs.items()},
        "notes": notes,
        "tables": sorted(whole),
        "file": texts.sha256,
        "origin": texts.origin,
        "truncated": {name: run.facts["truncated"] for name, run in runs.items() if run.facts["truncated"]},
        "left_out": texts.left_out,
        "sentences": {"looked at": next(iter(runs.values())).facts["sentences"], "there": len(texts.table)},
        "text": texts.digest,
        "classes": list(texts.classes),
        "settings": settings._asdict() | looked_at,
        "measures": {name: code_of(name) for name in settings.measures},
    }
    earlier = _manifest(out).get("tables", ())
    write_text(out / "manifest.json", json.dumps(facts, indent=1) + "\n", "table")  # first: it makes the folder ours
    for name in earlier:
        (out / f"{name}.parquet").unlink(missing_ok=True)
    for name, table in whole.items():
        write_parquet(table, out / f"{name}.parquet")
    if "geometry" in whole:
        write_text(out / "geometry.csv", whole["geometry"].to_csv(index=False, lineterminator="\n"), "table")
    return whole


def _first_token(name: str, run: Trajectory, settings: Settings) -> Iterator[dict[str, str]]:
    """What to know of a first token that was asked for, and is no [CLS]. Raises `InputError` where it means nothing."""
    if "first" not in settings.vectors or (run.facts["cls"] and not run.facts["causal"]):
        return
    if not run.facts["causal"]:
        why = "its tokenizer has none, so that `first` is a sentence's first word"
        yield {"checkpoint": name, "analysis": "[CLS]", "note": why}
        return
    why = "its first token has seen no other, so it says nothing about the sentence"
    if settings.vectors == ("first",):
        raise InputError(f"checkpoint {name}: --vectors first: it is a decoder: {why}; ask for last or mean")
    yield {"checkpoint": name, "analysis": "[CLS]", "note": f"it is a decoder: {why}"}


def _pieces(run: Trajectory) -> list[str]:
    """The tokens of a cosine map, as people read them."""
    inner = run.tokens[~run.tokens["end"]].iloc[:MAPPED]
    return [run.facts["pieces"][str(token)] for token in inner["token"]]
