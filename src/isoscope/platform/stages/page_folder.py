"""The folder of a page, which is made of any checkpoints outside a project: whose it is, and what it holds."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from isoscope.base.errors import InputError
from isoscope.platform.runs.folder_lock import writing


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
