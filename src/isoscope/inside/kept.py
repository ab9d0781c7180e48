"""A content-addressed cache: each result is a sealed folder named by the hash of its inputs."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from isoscope.sealing import Point, fault, write_whole


def kept(cache: Path, made_from: Mapping[str, Any], fill: Callable[[Path], None], point: Point) -> Path:
    """Return the folder for `made_from` in `cache`; call `fill` to write it if it is missing or damaged.

    `made_from`: JSON-serialisable values; equal values give the same folder.
    """
    folder = cache / hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    if fault(folder) is not None:
        write_whole(folder, fill, point)
    return folder
