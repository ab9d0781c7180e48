"""Write the page of `isoscope spaces`: figures and counts in one self-contained file."""

import json
from pathlib import Path

import pandas as pd

from isoscope import __version__
from isoscope.base.atomic_files import write_text
from isoscope.platform.figures.style import to_png, to_svg
from isoscope.platform.report.drawing import Drawing, drawing
from isoscope.platform.report.page import environment
from isoscope.studies.spaces.views import VIEWS
from isoscope.studies.view import Picture, pictures


def page(out: Path) -> Path:
    """Write `index.html` and the figures (SVG and PNG) from the tables in `out`. Return the page's path."""
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    tables = {name: pd.read_parquet(out / f"{name}.parquet") for name in facts["tables"]}
    source = {"Source": " ".join(["text", facts["text"][:12], *(one[:12] for one in facts["checkpoints"].values())])}
    (out / "figures").mkdir(exist_ok=True)
    for earlier in (out / "figures").iterdir():
        earlier.unlink()
    text = (
        environment()
        .get_template("spaces.html")
        .render(
            title="Spaces of representations",
            version=__version__,
            facts=facts,
            drawings=[_drawing(out, one, source) for one in pictures(VIEWS, tables)],
            counts=tables["counts"].to_dict("records"),
        )
    )
    write_text(out / "index.html", text, "report")
    return out / "index.html"


def _drawing(out: Path, one: Picture, source: dict[str, str]) -> Drawing:
    figure = one.figure()
    svg = to_svg(figure, source)
    write_text(out / "figures" / f"{one.name}.svg", svg, "report")
    (out / "figures" / f"{one.name}.png").write_bytes(to_png(figure, metadata=source))
    return drawing(one, svg, key=one.name)
