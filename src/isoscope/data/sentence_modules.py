"""Read what a sentence-transformers folder says of its sentence vectors: modules, prompt and longest text."""

from pathlib import Path
from typing import NamedTuple

from isoscope.base.errors import InputError, brief
from isoscope.data.files import parse_json
from isoscope.data.hub import MODULES, PART


class Module(NamedTuple):
    """A module: its kind, such as Pooling, and the folder of its configuration and weights."""

    kind: str
    folder: Path


def sentence_modules(folder: Path) -> list[Module]:
    """Return the modules that modules.json lists, in order; none without this file.

    Raises `InputError` if the file is no list of modules, or names a folder elsewhere.
    """
    file = folder / MODULES
    if not file.is_file():
        return []
    found = parse_json(file.read_text("utf-8"), str(file))
    modules = []
    for one in found if isinstance(found, list) else [None]:
        kind, path = (one.get(key) for key in ("type", "path")) if isinstance(one, dict) else (None, None)
        if not isinstance(kind, str) or not isinstance(path, str) or not (path == "" or PART.fullmatch(path)):
            raise InputError(f"{file}: expected modules with a type and a folder here as path, got {brief(one)}")
        modules.append(
            Module(kind.rpartition(".")[2] if kind.startswith("sentence_transformers.") else kind, folder / path)
        )
    return modules
