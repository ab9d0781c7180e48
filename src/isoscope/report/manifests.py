"""Format a task's manifest for the page."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from isoscope.errors import InputError
from isoscope.report import numbers
from isoscope.studies.results import NAMES

SPLITS = ("train", "validation", "test")


class Split(NamedTuple):
    """One split, ready to print."""

    name: str
    rows: str
    balance: str
    words: str
    tokens: str
    duplicates: str
    sha256: str


class Task(NamedTuple):
    """One prepared task, ready to print."""

    name: str
    about: Mapping[str, str]
    splits: list[Split]
    baselines: list[tuple[str, str]]


def task(name: str, manifest: Mapping[str, Any]) -> Task:
    """Return a task's facts, splits and baselines. Raises `InputError` if the manifest lacks any of them."""
    try:
        facts = {str(key).replace("_", " ").capitalize(): _text(value) for key, value in manifest["facts"].items()}
        shared = [f"{pair} {n:,}" for pair, n in manifest["shared"].items()]
        about = {
            "Source": str(manifest["source"]),
            "Licence": str(manifest["licence"]),
            "Revision": str(manifest["revision"] or "none"),
            "Classes": ", ".join(map(str, manifest["labels"])),
            "Texts in two splits": "; ".join(shared),
            **facts,
        }
        splits = [_split(part, manifest["splits"][part], manifest["files"]) for part in SPLITS]
        baselines = [
            (NAMES.get(key, key), f"{figures['test']['accuracy']:.3f} (n = {figures['test']['n']:,})")
            for key, figures in manifest["baselines"].items()
        ]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise InputError(f"manifest of {name}: {error} is missing or malformed; prepare the task again") from None
    return Task(name, about, splits, baselines)


def _split(name: str, found: Mapping[str, Any], files: Mapping[str, Any]) -> Split:
    rows = int(found["rows"])
    balance = ", ".join(f"{label} {n:,} ({n / rows:.1%})" for label, n in found["labels"].items())
    return Split(
        name,
        numbers.count(rows, "row"),
        balance,
        _lengths(found["words"]),
        _lengths(found["tokens"]) if "tokens" in found else numbers.NOTHING,
        f"{found['duplicates']:,}",
        str(files[f"{name}.parquet"]["sha256"]),
    )


def _lengths(found: Mapping[str, Any]) -> str:
    return f"{found['min']:g} / {found['q50']:g} / {found['q95']:g} / {found['max']:g}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "; ".join(f"{str(key).replace('_', ' ')}: {_text(one)}" for key, one in value.items())
    if isinstance(value, list):
        return " to ".join(map(_text, value)) if len(value) == 2 else ", ".join(map(_text, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
