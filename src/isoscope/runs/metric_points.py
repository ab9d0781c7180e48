"""Read metrics.jsonl, the metric points of a training run: one JSON object per line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isoscope.errors import InputError


def points_of(path: Path) -> Iterator[dict[str, Any]]:
    """Yield every point of a metrics file, under any file name. Raises `InputError` if it is damaged or missing."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; get it with dvc pull, or train the run")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            point = json.loads(line)
            epoch = point.get("epoch")
            if epoch is not None and epoch != int(epoch):
                raise ValueError("epoch is not an integer")
            yield {**point, "name": str(point["name"]), "value": float(point["value"])}
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}:{number}: not a metric point (name, value, step, epoch): {line[:80]!r}") from None
