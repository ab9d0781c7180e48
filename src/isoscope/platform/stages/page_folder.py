"""The folder of a page, which is made of any checkpoints outside a project: whose it is, and what it holds."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope.base.atomic_files import write_text
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_parquet
from isoscope.platform.figures.csv_text import csv_text
from isoscope.platform.runs.folder_lock import writing

GEOMETRY, SPACES = {"made_by": "isoscope geometry"}, {"made_by": "isoscope spaces"}
"""Entries that mark the manifest of a page: other outputs have manifests, too."""


def check_out(out: Path, page: Mapping[str, str]) -> None:
    """Check that `out` is new, empty, an earlier page, or the cache of an interrupted call; else raise `InputError`.

    `page`: the entry that marks the manifest of such a page, since other outputs have manifests, too.
    """
    above = next(one for one in (out.absolute(), *out.absolute().parents) if one.exists())
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK):
        raise InputError(f"--out {out}: {above} is not a writable folder")
    if above != out.absolute():
        return
    begun = {path.relative_to(out).parts for path in (*out.glob("*"), *out.glob("cache/*"))}
    # The manifest is the page's first file, so a call that is stopped while writing it leaves no other file.
    if begun <= {("cache",), ("cache", "states"), ("cache", "tables"), ("cache", "grids"), (".manifest.json.writing",)}:
        return
    if not page.items() <= manifest(out).items():
        raise InputError(f"--out {out}: contains other files than an earlier page; give a new folder")


@contextmanager
def page_folder(out: Path, page: Mapping[str, str]) -> Iterator[None]:
    """Hold the only right to write the page's folder; checks again that it is free, as `check_out`."""
    with writing(out, called=f"--out {out}"):
        check_out(out, page)
        yield


def manifest(out: Path) -> dict[str, Any]:
    """Read the manifest in `out`, of a page or of another output; empty if there is none."""
    try:
        facts = json.loads((out / "manifest.json").read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return facts if isinstance(facts, dict) else {}


def write_page(
    out: Path, page: Mapping[str, str], facts: Mapping[str, Any], tables: Mapping[str, pd.DataFrame]
) -> None:
    """Write a page's manifest and its tables, that of measures as CSV too; remove an earlier page's tables."""
    earlier = manifest(out).get("tables", ())
    text = json.dumps({**page, **facts, "tables": sorted(tables)}, indent=1) + "\n"
    write_text(out / "manifest.json", text, "table")  # first, because it marks the folder as ours
    for name in earlier:
        (out / f"{name}.parquet").unlink(missing_ok=True)
    for name, table in tables.items():
        write_parquet(table, out / f"{name}.parquet")
    if "geometry" in tables:
        write_text(out / "geometry.csv", csv_text(tables["geometry"]), "table")
