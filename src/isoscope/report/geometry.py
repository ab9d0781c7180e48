"""The page that `isoscope geometry` leaves: figures and numbers in one file that asks for nothing else."""

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from isoscope import __version__
from isoscope.code import PACKAGE
from isoscope.figures.scales import SCALES, Scale
from isoscope.figures.style import WIDTH, to_png, to_svg
from isoscope.report.geometry_block import embedding, spectrum, topology
from isoscope.report.geometry_sections import (
    GROUPS,
    KINDS,
    Section,
    Tables,
    attention,
    measures,
    planes,
    probing,
    sizes,
)
from isoscope.report.geometry_summary import SHOWN, number, summary
from isoscope.report.numbers import score
from isoscope.report.page import environment
from isoscope.report.svg import inline
from isoscope.sealing import fault, write_text, write_whole

SECTIONS: dict[str, Callable[[Tables, Mapping[str, Any]], Iterator[Section]]] = {
    "geometry": measures,
    "planes": planes,
    "probing": probing,
    "attention": attention,
    "token_cosines": embedding,
    "singular_values": spectrum,
    "bars": topology,
}
"""Parts of the page, in order, by the table that each is made of."""
FIGURES = (
    *(group.split()[0].lower() for group in GROUPS),
    *("planes", "probing", "learning", "attention", "heads", "cosine_maps", "cosines", "dimensions", "evidence"),
    *("singular", "magnitudes", "diagrams", "barcodes"),
)
NAMES = re.compile(rf"({'|'.join(FIGURES)})(-\w+)*\.(svg|png)")
"""What files of figures are called: any other in their folder is not of a page."""


class Drawing(NamedTuple):
    """A figure of the page, what is said below it, and its width as a percentage of the page's."""

    key: str
    picture: Markup
    caption: str
    share: int


class Part(NamedTuple):
    """A section as the template takes it: `numbers` are (caption, columns, rows of cells)."""

    key: str
    title: str
    lead: str
    drawings: list[Drawing]
    numbers: list[tuple[str, Sequence[str], list[list["Cell"]]]]


class Cell(NamedTuple):
    """A text, and whether it is a number."""

    text: str
    number: bool


def page(out: Path) -> Path:
    """Write `index.html` and the figures (SVG and PNG) from the tables in `out`; returns the page's path.

    Figures of an earlier page that this one does not show are removed.
    """
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    tables = {name: pd.read_parquet(out / f"{name}.parquet") for name in facts["tables"]}
    digests = (digest[:12] for digest in facts["checkpoints"].values())
    source = {"Source": " ".join(["text", facts["text"][:12], *digests])}
    parts = [
        Part(
            *(one.key, one.title, one.lead),
            [_keep(out, *sketch, source) for sketch in one.figures],
            [(table.caption, table.columns, [list(map(_cell, row)) for row in table.rows]) for table in one.numbers],
        )
        for name, make in SECTIONS.items()
        if name in tables
        for one in make(tables, facts)
    ]
    text = (
        environment()
        .get_template("geometry.html")
        .render(
            title="Geometry of representations",
            version=__version__,
            facts=facts,
            parts=parts,
            summary=summary(tables),
            shown=SHOWN,
            kinds=KINDS,
            rows=_last_layer(tables["geometry"]) if "geometry" in tables else [],
            notes=_notes(tables, facts),
        )
    )
    write_text(out / "index.html", text, "report")
    keys = {one.key for part in parts for one in part.drawings}
    for path in (out / "figures").glob("*"):
        if NAMES.fullmatch(path.name) and path.stem not in keys:
            path.unlink()
    return out / "index.html"


def _keep(
    out: Path, name: str, table: pd.DataFrame, draw: Callable[[], Figure], caption: str, source: dict[str, str]
) -> Drawing:
    """A figure as SVG and PNG, drawn again only where its table, code or source is another, or a file was altered."""
    shown = hashlib.sha256(pd.util.hash_pandas_object(table.astype(str)).to_numpy().tobytes())
    shown.update(f"{name} {caption} {source} {_code()}".encode())
    kept = out / "cache" / "figures" / shown.hexdigest()
    if fault(kept) is not None:
        figure = draw()
        files = {"drawing.svg": to_svg(figure, source).encode(), "drawing.png": to_png(figure, metadata=source)}
        write_whole(kept, partial(_write, files), "report")
    svg = (kept / "drawing.svg").read_text("utf-8")
    write_text(out / "figures" / f"{name}.svg", svg, "report")
    (out / "figures" / f"{name}.png").write_bytes((kept / "drawing.png").read_bytes())
    width = float(re.findall(r'viewBox="0 0 ([0-9.]+) ', svg)[0])  # in points, of which an inch has 72
    share = min(100, round(100 * width / (72 * WIDTH)))
    return Drawing(name, inline(svg, key=name, title=caption, description=caption), caption, share)


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


@cache
def _code() -> str:
    """sha256 of what the drawings depend on in the code: these files and those of the figures."""
    found = hashlib.sha256()
    for path in (*sorted(Path(__file__).parent.glob("geometry*.py")), *sorted((PACKAGE / "figures").glob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


def _last_layer(table: pd.DataFrame) -> list[dict[str, Any]]:
    """Every figure at the last layer of each checkpoint, beside its twin and noise."""
    last = table[table["layer"] == table.groupby("checkpoint")["layer"].transform("max")]
    rows = []
    for (vectors, figure), part in last.groupby(["vectors", "figure"], sort=False):
        own = part[part["step"].notna()]
        twin = part[part["step"].isna()].set_index("checkpoint")["value"]
        for _, row in own.iterrows():
            rows.append(
                {
                    "vectors": vectors,
                    "figure": SCALES.get(figure, Scale(figure.replace("_", " "))).label,
                    "name": figure,
                    "checkpoint": row["checkpoint"],
                    "value": number(row["value"]),
                    "low": number(row["low"]),
                    "high": number(row["high"]),
                    "twin": number(twin.get(row["checkpoint"])),
                    "noise": number(row["baseline"]),
                    "n": int(row["n"]),
                    "d": int(row["d"]),
                }
            )
    return rows


def _notes(tables: Tables, facts: Mapping[str, Any]) -> list[str]:
    """What a reader has to know before believing what is shown."""
    found = [f"{one['checkpoint']}: no {one['analysis']}: {one['note'].rstrip('.')}." for one in facts["notes"]]
    found += [
        f"{name}: {count} sentences have more than {facts['settings']['max_length']} tokens, or than the model takes: "
        "their ends are cut off."
        for name, count in facts["truncated"].items()
    ]
    return found + (_of_measures(tables["geometry"]) if "geometry" in tables else [])


def _of_measures(table: pd.DataFrame) -> list[str]:
    found = []
    points = table.groupby(["checkpoint", "vectors"])["n"].transform("max")  # others are of subsamples
    few = table[points < table["d"]].assign(n=points)
    for checkpoint, part in few.groupby("checkpoint", sort=False):
        found.append(
            f"{checkpoint}: {sizes(part, 'n')} points in {sizes(part, 'd')} dimensions "
            f"({', '.join(part['vectors'].unique())}). "
            "Spectra then have at most as many values as points: read them against the noise at the same n and d."
        )
    lacking = table[table["note"].notna() & ~table["degenerate"]]
    for (checkpoint, measure, note), part in lacking.groupby(["checkpoint", "measure", "note"], sort=False):
        found.append(f"{checkpoint}, {', '.join(part['vectors'].unique())}: no {measure}: {note}.")
    single = table[table["degenerate"]]
    for (checkpoint, vectors, note), part in single.groupby(["checkpoint", "vectors", "note"], sort=False):
        layers = ", ".join(map(str, sorted(part["layer"].unique())))
        found.append(f"{checkpoint}, {vectors}, layer {layers}: {note}, so nothing is measured of them there.")
    return found


def _cell(value: Any) -> Cell:
    """What a table of the page says: texts as they are, counts whole, other numbers with three decimals."""
    if isinstance(value, str):
        return Cell(value, False)
    return Cell(f"{value:,}" if isinstance(value, int) else score(number(value)), True)
