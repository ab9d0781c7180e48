"""`isoscope geometry`: analyse the representations of any encoder or decoder on any sentences, on a single page.

Results are cached in sealed folders in the output's `cache/`: hidden states by (weights, sentences, classes, code),
values of each measure by (hidden states, code, settings). A second call computes only what is new or was altered.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path

import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.data.checkpoints import checkpoint_digest, fetch_checkpoint, loadable_config, weights_digest
from isoscope.data.parquet import write_parquet
from isoscope.data.plain import Texts
from isoscope.data.short_names import RunCheckpoint, checkpoint_names
from isoscope.platform.figures.csv_text import csv_text
from isoscope.platform.outputs import CONFIG, read_output
from isoscope.platform.stages.geometry_tables import Checkpoint, analysis, code_of, hidden_states, planes
from isoscope.platform.stages.page_folder import manifest
from isoscope.states.catalogue import MAPPED, Tables
from isoscope.states.choices import SPACES_COMPARED, Settings
from isoscope.states.measures import measure
from isoscope.states.trajectory import Trajectory

PAGE = {"made_by": "isoscope geometry"}
"""Entry that marks a manifest as that of a page: other outputs have manifests, too."""


def find(given: Sequence[str]) -> list[Checkpoint]:
    """Find checkpoints by folder or by hub name (`name@revision`); each gets a unique short name.

    Checkpoints with equal weights are named on stderr. Raises `InputError` if a checkpoint cannot be found or is given
    twice.
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
                raise InputError(f"{error}; and there is no folder {bare} here") from error
        loadable_config(folder)
        if folder in folders:
            raise InputError(
                f"checkpoints: {given[folders.index(folder)]} and {name} are the same folder; give it once"
            )
        folders.append(folder)
    _name_equal(given, folders)
    plain = [os.path.normpath(name) for name in given]
    plain = [os.path.realpath(name) if name.endswith(".") and Path(name).is_dir() else name for name in plain]
    if len(set(plain)) < len(plain):
        plain = [os.path.realpath(name) for name in given]
    return [
        Checkpoint(name, folder, checkpoint_digest(folder), asked)
        for name, folder, asked in zip(checkpoint_names(plain, [*map(_trained, folders)]), folders, given, strict=True)
    ]


def _name_equal(given: Sequence[str], folders: Sequence[Path]) -> None:
    """Warn of checkpoints with the same weights, such as a copy that was meant to be another step."""
    seen: dict[str, str] = {}
    for name, folder in zip(given, folders, strict=True) if len(given) > 1 else ():
        with suppress(InputError):  # weights that cannot be read are named when they are loaded
            if (other := seen.setdefault(weights_digest(folder), name)) != name:
                print(f"warning: {other} and {name} have equal weights; is one of them a copy?", file=sys.stderr)


def _trained(folder: Path) -> RunCheckpoint | None:
    """Return the cell of a checkpoint in the published output of a run; None for another folder."""
    output = folder.parent.parent
    if folder.parent.name not in ("checkpoints", "snapshots") or not (output / CONFIG).is_file():
        return None
    try:
        run = read_output(output).run
    except InputError:
        return None
    return RunCheckpoint(f"{run.study}/{run.arm}/seed-{run.seed}", folder.name, str(output.parents[3]))


def geometry(
    checkpoints: Sequence[Checkpoint], texts: Texts, settings: Settings, out: Path, *, grids: Tables | None = None
) -> Tables:
    """Run every analysis on every checkpoint and its random twin. Return the tables by name, and write them to `out`.

    Every table has a column `checkpoint`, except `grids`: the tables of `stages.spaces.grids`, for the same page.
    `geometry` is the table of measures, with columns as in `inside.measures`. Raises `InputError` for a model that is
    no text transformer, for NaN weights, too few sentences, and measures that apply to none of the representations.
    """
    for name in settings.measures:
        measure(name)
    cache = out / "cache"
    runs = {one.name: hidden_states(one, texts, settings, cache, attended=False) for one in checkpoints}
    found: dict[str, list[pd.DataFrame]] = {}
    each = [name for name in settings.analyses if name not in ("planes", SPACES_COMPARED)]
    notes = [note for name, run in runs.items() for note in _first_token(name, run, settings)]
    with threadpool_limits(settings.threads):
        for one, name in product(checkpoints, each):
            if not sys.stderr.isatty():  # a log has no progress bar
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
        whole |= grids or {}
    looked_at = {"vectors": [*whole["geometry"]["vectors"].unique()]} if "geometry" in whole else {}
    facts = {
        **PAGE,
        "checkpoints": {one.name: one.digest for one in checkpoints},
        "given": {one.name: one.given or one.name for one in checkpoints},
        "causal": [name for name, run in runs.items() if run.facts["causal"]],
        "pieces": {
            name: [
                run.facts["pieces"][str(token)] for token in run.tokens.loc[~run.tokens["end"], "token"].head(MAPPED)
            ]
            for name, run in runs.items()
        },
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
    earlier = manifest(out).get("tables", ())
    write_text(
        out / "manifest.json", json.dumps(facts, indent=1) + "\n", "table"
    )  # first, because it marks the folder as ours
    for name in earlier:
        (out / f"{name}.parquet").unlink(missing_ok=True)
    for name, table in whole.items():
        write_parquet(table, out / f"{name}.parquet")
    if "geometry" in whole:
        write_text(out / "geometry.csv", csv_text(whole["geometry"]), "table")
    return whole


def _first_token(name: str, run: Trajectory, settings: Settings) -> Iterator[dict[str, str]]:
    """Yield notes if the requested first token is no [CLS]. Raises `InputError` if it carries no information."""
    if "first" not in settings.vectors or (run.facts["cls"] and not run.facts["causal"]):
        return
    if not run.facts["causal"]:
        why = "its tokenizer has none, so `first` is a sentence's first word"
        yield {"checkpoint": name, "analysis": "[CLS]", "note": why}
        return
    why = "its first token attends to no other token, so it carries no information about the sentence"
    if settings.vectors == ("first",):
        raise InputError(f"checkpoint {name}: --vectors first: it is a decoder: {why}; use last or mean")
    yield {"checkpoint": name, "analysis": "[CLS]", "note": f"it is a decoder: {why}"}
