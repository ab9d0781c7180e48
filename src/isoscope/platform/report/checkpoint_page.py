"""Write the page of a kind of study that looks at checkpoints: findings, figures and numbers in one file."""

import gzip
import json
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope import __version__
from isoscope.base.atomic_files import kept, write_text
from isoscope.base.code_closure import code_version
from isoscope.base.kind import Kind, kind
from isoscope.base.view import Tables
from isoscope.platform.figures.fonts import fallbacks, lacking
from isoscope.platform.figures.origin import origin, with_rows
from isoscope.platform.figures.pictures import Picture, pictures
from isoscope.platform.figures.style import to_png, to_svg
from isoscope.platform.report.drawing import Drawing, by_question, drawing
from isoscope.platform.report.glossary import with_used_terms
from isoscope.platform.report.sections import environment
from isoscope.platform.report.sentences import of_figures
from isoscope.platform.results.checkpoint_text import CheckpointText


def page(out: Path) -> Path:
    """Write `index.html` and the figures (SVG and PNG) from the tables in `out`. Return the page's path.

    The manifest names the command that made the tables, and so the kind. Figures of an earlier page are removed if this
    page does not show them.
    """
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    own = kind_of(facts)
    tables = read_tables(out, facts)
    digests = (digest[:12] for digest in facts["checkpoints"].values())
    source = {"Source": " ".join(["text", facts["text"][:12], *digests])}
    drawings = {one.name: _drawing(out, own, one, source) for one in pictures(own.views, tables)}
    said = text_of(own.name, tables, facts)
    text = (
        environment()
        .from_string(own.page or '{% extends "checkpoint.html" %}')
        .render(
            title=own.question,
            version=__version__,
            facts=facts,
            parts=by_question(drawings.values()),
            findings=of_figures([*drawings.values()]),
            tables=tables,
            text=said,
            notes=[*facts["warnings"], *_notes(facts), *said.notes],
            **said.data,
        )
    )
    write_text(out / "index.html", with_used_terms(text), "report")
    names = re.compile(rf"({'|'.join(one.name for one in own.views)})(-\w+)*")
    for path in (out / "figures").glob("*"):  # files with other names are never removed
        if path.suffix in (".svg", ".png") and names.fullmatch(path.stem) and path.stem not in drawings:
            path.unlink()
    return out / "index.html"


def kind_of(facts: Mapping[str, Any]) -> Kind:
    """Return the kind of a page by its manifest."""
    return kind(facts["made_by"].split()[-1])


def text_of(name: str, tables: Tables, facts: Mapping[str, Any]) -> CheckpointText:
    """Return what a page of this kind says beside its figures."""
    return kind(name).text(tables, facts) or CheckpointText()


def read_tables(out: Path, facts: Mapping[str, Any]) -> Tables:
    """Read the tables in `out`, with what views need from the manifest."""
    return kind_of(facts).completed({name: pd.read_parquet(out / f"{name}.parquet") for name in facts["tables"]}, facts)


def _notes(facts: Mapping[str, Any]) -> list[str]:
    """Return which analyses are missing, and how many texts were truncated."""
    return [f"{one['checkpoint']}: no {one['analysis']}: {one['note'].rstrip('.')}." for one in facts["notes"]] + [
        f"{name}: {count} sentences are longer than {facts['settings']['max_length']} tokens or the model's limit; "
        "they are truncated."
        for name, count in facts["truncated"].items()
    ]


def _drawing(out: Path, own: Kind, one: Picture, source: dict[str, str]) -> Drawing:
    """Write a figure as SVG and PNG; a table is for the page alone.

    A figure is drawn again only if its rows, code, source or the fonts of its PNG differ, or if a file was altered.
    """
    rows = one.rows
    if one.lines:
        return drawing(one, rows, str, key=one.name)
    others = lacking(one.caption + "".join(gzip.decompress(table).decode() for table in rows.values()))
    made_of = {"Source": f"{origin(one.name, rows, ()).text} {source['Source']}"}
    code = code_version("geometry", (f"{own.package}.views",))
    made_from = [one.name, one.caption, made_of, code]
    made_from += [fallbacks(others)] if others else []
    folder = kept(out / "cache" / "figures", {"figure": made_from}, partial(_draw, one, made_of, rows), "report")
    svg = (folder / "drawing.svg").read_text("utf-8")
    write_text(out / "figures" / f"{one.name}.svg", svg, "report")
    (out / "figures" / f"{one.name}.png").write_bytes((folder / "drawing.png").read_bytes())
    return drawing(one, rows, lambda: svg, key=one.name)


def _draw(one: Picture, source: dict[str, str], rows: dict[str, bytes], folder: Path) -> None:
    svg, png = one.written(lambda figure: (to_svg(figure, source), to_png(figure, metadata=source)))
    (folder / "drawing.svg").write_text(with_rows(svg, rows), "utf-8")
    (folder / "drawing.png").write_bytes(png)
