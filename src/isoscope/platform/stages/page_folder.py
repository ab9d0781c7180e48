"""The folder of what a command makes of any checkpoints outside a project: whose it is, and what it holds."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.platform.figures.csv_text import csv_text
from isoscope.platform.runs.lines import is_part
from isoscope.platform.runs.locks import writing


def check_out(out: Path, command: str) -> None:
    """Raise `InputError` unless `out` is new, empty, made by this command, or the cache of an interrupted call."""
    above = next(one for one in (out.absolute(), *out.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}: {above} is not a writable folder")
    if above != out.absolute():
        return
    begun = {path.relative_to(out).parts for path in (*out.glob("*"), *out.glob("cache/*"))}
    # The manifest is the first file, so a call that is stopped while writing it leaves no other file.
    if begun <= {("cache",), ("cache", "states"), ("cache", "tables"), ("cache", "grids"), (".manifest.json.writing",)}:
        return
    if not _made_by(command).items() <= manifest(out).items():
        raise InputError(f"--out {out}: contains other files than an earlier page; give a new folder")


def _made_by(command: str) -> dict[str, str]:
    """Return the entry that marks a manifest as a command's: other outputs have manifests, too."""
    return {"made_by": f"isoscope {command}"}


@contextmanager
def page_folder(out: Path, command: str) -> Iterator[None]:
    """Hold the only right to write the folder; checks that it is free, as `check_out`, before and after."""
    check_out(out, command)
    with writing(out, called=f"--out {out}"):
        check_out(out, command)
        yield


def manifest(out: Path) -> dict[str, Any]:
    """Read the manifest in `out`, of a page or of another output; empty if there is none."""
    try:
        facts = json.loads((out / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def write_page(
    out: Path,
    command: str,
    facts: Mapping[str, Any],
    tables: Mapping[str, pd.DataFrame],
    values: Mapping[str, Mapping[str, Any]] = MappingProxyType({}),
) -> None:
    """Write a manifest and tables, that of measures as CSV too; remove tables of an earlier call.

    `values`: file → its JSON object; a file without one is removed.
    """
    named = manifest(out).get("tables")
    earlier = [one for one in named if isinstance(one, str) and is_part(one)] if isinstance(named, list) else []
    text = json.dumps({**_made_by(command), **facts, "tables": sorted(tables)}, indent=1) + "\n"
    write_text(out / "manifest.json", text, "table")  # first, because it marks the folder as ours
    for name in earlier:
        (out / f"{name}.parquet").unlink(missing_ok=True)
    for name, table in tables.items():
        write_parquet(table, out / f"{name}.parquet")
    for name, one in values.items():
        (out / name).unlink(missing_ok=True)
        if one:
            write_text(out / name, json.dumps(one, indent=1) + "\n", "table")
    if "geometry" in tables:
        write_text(out / "geometry.csv", csv_text(tables["geometry"]), "table")
