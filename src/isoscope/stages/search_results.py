"""What came of a search, as files: its trials, the best of them as an overlay, and figures."""

from pathlib import Path
from typing import Any

from isoscope.search.study import Kept, Opened


def kept(target: Path) -> Kept | None:
    """The trials in what an earlier search has left, as one finds it in a fresh clone."""
    return None


def write_results(one: Opened, target: Path, *, identity: dict[str, Any], digest: str) -> Path:
    return target
