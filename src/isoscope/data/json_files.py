"""Read JSON of users and published checkpoints; every fault is a one-line error."""

import json
from pathlib import Path
from typing import Any

from isoscope.errors import InputError


def parse_json(text: str, place: str) -> Any:
    """Return the data in JSON text. Raises `InputError` that starts with `place`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        raise InputError(f"{place}: not JSON: {error.msg} at {line}column {error.colno}") from None
    except RecursionError:
        raise InputError(f"{place}: JSON nested too deeply; flatten it") from None
    except ValueError as error:  # an integer with thousands of digits
        raise InputError(f"{place}: not JSON: {error}") from None


def read_mapping(path: Path) -> dict[str, Any]:
    """Return the JSON object in a file. Raises `InputError` if there is no file or no object in it."""
    if not path.is_file():  # a fifo would block
        raise InputError(f"{path}: no such file")
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not JSON: byte {error.start} is not UTF-8") from None
    found = parse_json(text, str(path))
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected a JSON object, got {type(found).__name__}")
    return found
