"""Collect what the page shows of a kind: its figures, claims, tested differences, published numbers and own section."""

import json
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup

from isoscope.base.kind import Kind, kind
from isoscope.base.paths import FIGURES, TABLES
from isoscope.platform.report.drawing import by_question, numbered, read_drawings, read_rows, reading
from isoscope.platform.report.sentences import of_figures, sentence
from isoscope.platform.results.published import of_kind, published
from isoscope.platform.results.study_tables import Tables


def show_kind(name: str, tables: Tables, folder: Path, *, key: str, chapter: int, command: str) -> dict[str, Any]:
    """Return what the template needs of the kind of a study or comparison.

    `folder`: where the stage `command` wrote. `key` makes ids unique; figures have numbers of the `chapter`. Raises
    `InputError` for missing or damaged files.
    """
    own = kind(name)
    with reading(folder, command):
        found = read_drawings(name, tables.by_name, folder / FIGURES, key=key)
        tested = [(caption, read_rows(file)) for file, caption in _tested(own, folder)]
        known = of_kind(own, tables.by_name)
        extra = _section(own, folder / TABLES, key)
    drawings = numbered(found, chapter)
    claims = own.claims(tables.by_name, confidence=tables.confidence, margin=tables.margin)
    inner = [*map(sentence, claims), *of_figures(drawings)]
    questions = by_question(drawings)
    plain = questions[: bool(questions) and not questions[0][0]]
    return {
        "question": own.question,
        "figures": drawings,
        "first": next((one for one in drawings if one.picture), None),
        "plain": plain,  # figures that belong to no question
        "questions": questions[len(plain) :],
        "inner": inner,
        "answer": f"{inner[0]['what']}: {inner[0]['value']}." if inner else "",
        "published": known if known and known.cells else None,
        "source": published(own.folder).get("source"),
        "tested": tested,
        "extra": extra,
        "script": own.script if extra else None,
    }


def _tested(own: Kind, folder: Path) -> list[tuple[Path, str]]:
    files = [(folder / TABLES / f"{name}.parquet", caption) for name, caption in own.tested.items()]
    return [(file, caption) for file, caption in files if file.is_file()]


def _section(own: Kind, folder: Path, key: str) -> Markup:
    """Return the kind's own section, rendered with the data that its tables have for it; empty if it has none."""
    data = {file.stem: json.loads(file.read_text("utf-8")) for file in sorted(folder.glob("*.json"))}
    if own.section is None or not data:
        return Markup()
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    return Markup(environment.from_string(own.section).render(key=key, **data))
