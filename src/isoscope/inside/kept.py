"""A cache by content: what was made once lies in a sealed folder under what it was made from."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isoscope.sealing import Point, fault, write_whole


def kept(cache: Path, made_from: Mapping[str, Any], fill: Callable[[Path], None], point: Point) -> Path:
    """The folder for `made_from` in `cache`; `fill` writes it where it is missing or a file of it was altered.

    `made_from`: plain values, as JSON takes them; equal values give the same folder.
    """
    folder = cache / hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    if fault(folder) is not None:
        write_whole(folder, fill, point)
    return folder
