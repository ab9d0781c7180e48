"""Write the page of `isoscope geometry`: figures and numbers in one self-contained file."""

import hashlib
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd

from isoscope import __version__
from isoscope.code import code_version
from isoscope.figures.style import to_png, to_svg
from isoscope.inside.kept import kept
from isoscope.report.checkpoint_numbers import SHOWN, geometry_rows, summary
from isoscope.report.checkpoint_sections import notes, sections
from isoscope.report.drawing import Drawing, drawing
from isoscope.report.page import environment
from isoscope.sealing import write_text
from isoscope.studies.checkpoint_views import KINDS, MEASURED, SECTIONS
from isoscope.studies.view import Picture, Tables

NAMES = re.compile(rf"({'|'.join(one.name for views in (MEASURED, *SECTIONS.values()) for one in views)})(-\w+)*")
"""File names of figures. Files with other names in their folder are never removed."""


def page(out: Path) -> Path:
    """Write `index.html` and the figures (SVG and PNG) from the tables in `out`. Return the page's path.

    Figures of an earlier page are removed if this page does not show them.
    """
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    tables = read_tables(out, facts)
    digests = (digest[:12] for digest in facts["checkpoints"].values())
    source = {"Source": " ".join(["text", facts["text"][:12], *digests])}
    parts = [*sections(tables, facts)]
    drawings = {one.name: _drawing(out, one, source) for part in parts for one in part.pictures}
    text = (
        environment()
        .get_template("checkpoint.html")
        .render(
            title="Geometry of representations",
            version=__version__,
            facts=facts,
            parts=parts,
            drawings=drawings,
            tables=tables,
            summary=summary(tables),
            shown=SHOWN,
            kinds=KINDS,
            rows=geometry_rows(tables),
            notes=notes(tables, facts),
        )
    )
    write_text(out / "index.html", text, "report")
    for path in (out / "figures").glob("*"):
        if path.suffix in (".svg", ".png") and NAMES.fullmatch(path.stem) and path.stem not in drawings:
            path.unlink()
    return out / "index.html"


def read_tables(out: Path, facts: dict[str, Any]) -> Tables:
    """Read the tables in `out`, and add what views need from the manifest."""
    tables = {name: pd.read_parquet(out / f"{name}.parquet") for name in facts["tables"]}
    if "frames" in tables:
        tables["frames"] = tables["frames"].assign(alignment=facts["settings"]["alignment"])
    pieces = [(name, text) for name, texts in facts.get("pieces", {}).items() for text in texts]
    return {
        **tables,
        "classes": pd.DataFrame({"name": facts["classes"]}),
        "pieces": pd.DataFrame(pieces, columns=["checkpoint", "text"]),
    }


def _drawing(out: Path, one: Picture, source: dict[str, str]) -> Drawing:
    """Write a figure as SVG and PNG. Redraw it only if its rows, code or source differ, or a file was altered."""
    rows = [hashlib.sha256(pd.util.hash_pandas_object(table.astype(str)).to_numpy().tobytes()) for table in one.table]
    code = code_version("geometry", ("isoscope.studies.checkpoint_views",))
    made_from = [one.name, one.caption, source, code, [table.hexdigest() for table in rows]]
    folder = kept(out / "cache" / "figures", {"figure": made_from}, partial(_draw, one, source), "report")
    svg = (folder / "drawing.svg").read_text("utf-8")
    write_text(out / "figures" / f"{one.name}.svg", svg, "report")
    (out / "figures" / f"{one.name}.png").write_bytes((folder / "drawing.png").read_bytes())
    return drawing(one, svg, key=one.name)


def _draw(one: Picture, source: dict[str, str], folder: Path) -> None:
    figure = one.figure()
    (folder / "drawing.svg").write_text(to_svg(figure, source), "utf-8")
    (folder / "drawing.png").write_bytes(to_png(figure, metadata=source))
