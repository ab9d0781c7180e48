"""Collect what the page shows of a kind: its figures, claims, tested differences, published numbers and own section."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from isoscope.base.paths import FIGURES, TABLES
from isoscope.platform.report.drawing import by_question, numbered, read_drawings, read_rows, reading
from isoscope.platform.report.sentences import of_figures, sentence
from isoscope.studies.published import of_kind, published
from isoscope.studies.registry import Kind
from isoscope.studies.tables import Tables
from isoscope.studies.view import View


def show_kind(
    kind: Kind, tables: Tables, folder: Path, *, key: str, chapter: int, command: str, before: tuple[View, ...] = ()
) -> dict[str, Any]:
    """Return what the template needs of a study's or comparison's kind.

    `before`: views that stand before those of the kind. `folder`: where the stage `command` wrote. `key` makes ids
    unique; figures have numbers of the `chapter`. Raises `InputError` for missing or damaged files.
    """
    with reading(folder, command):
        found = read_drawings((*before, *kind.views), tables.by_name, folder / FIGURES, key=key)
        tested = [(caption, read_rows(file)) for file, caption in _tested(kind, folder)]
        known = of_kind(kind, tables.by_name)
        extra = _section(kind, folder / TABLES, key)
    drawings = numbered(found, chapter)
    claims = kind.claims(tables.by_name, confidence=tables.confidence, margin=tables.margin)
    questions = by_question(drawings)
    plain = questions[: bool(questions) and not questions[0][0]]
    return {
        "question": kind.question,
        "figures": drawings,
        "first": drawings[0] if drawings else None,
        "plain": plain,  # figures that belong to no question
        "questions": questions[len(plain) :],
        "inner": [*map(sentence, claims), *of_figures(drawings)],
        "published": known if known and known.cells else None,
        "source": published(kind.folder).get("source"),
        "tested": tested,
        "extra": extra,
    }


def _tested(kind: Kind, folder: Path) -> list[tuple[Path, str]]:
    files = [(folder / TABLES / f"{name}.parquet", caption) for name, caption in kind.tested.items()]
    return [(file, caption) for file, caption in files if file.is_file()]


def _section(kind: Kind, folder: Path, key: str) -> Markup:
    """Return the kind's own section, rendered with the data that its tables have for it; empty if it has none."""
    data = {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))}
    if kind.section is None or not data:
        return Markup()
    own = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    own.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return Markup(own.from_string(kind.section).render(key=key, **data))
