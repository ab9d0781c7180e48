"""The points of a training run as its metrics.jsonl has them: one JSON object a line."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from isoscope.errors import InputError


def points_of(path: Path) -> Iterator[dict[str, Any]]:
    """Every point of such a file, whatever it is called here. Raises `InputError` where it is damaged or missing."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; get it with dvc pull, or train the run")
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            point = json.loads(line)
            epoch = point.get("epoch")
            if epoch is not None and epoch != int(epoch):
                raise ValueError("part of an epoch")
            yield {**point, "name": str(point["name"]), "value": float(point["value"])}
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}:{number}: not a metric point (name, value, step, epoch): {line[:80]!r}") from None
