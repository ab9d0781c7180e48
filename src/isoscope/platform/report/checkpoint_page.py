"""Write the page of `isoscope geometry` or `isoscope spaces`: findings, figures and numbers in one file."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from isoscope import __version__
from isoscope.base.atomic_files import kept, write_text
from isoscope.base.code_closure import code_version
from isoscope.platform.config.declared import title
from isoscope.platform.figures.style import to_png, to_svg
from isoscope.platform.report.checkpoint_numbers import NUMBERS, Numbers, Tables, geometry_rows, summary
from isoscope.platform.report.drawing import Drawing, drawing
from isoscope.platform.report.page import environment
from isoscope.platform.report.sentences import of_figures
from isoscope.studies.checkpoint_views import KINDS, LAST_LAYER, MEASURED, SECTIONS, sizes
from isoscope.studies.spaces.views import VIEWS as SPACES
from isoscope.studies.view import Picture, pictures

TITLES = {
    "planes": "Do sentences separate in their principal plane?",
    "probing": "What can a linear probe read?",
    "attention": "Where does attention go?",
    "embedding": "How similar are tokens after the embedding block?",
    "spectrum": "How is variance spread over directions and frequencies?",
    "topology": "Which components and loops persist?",
    "spaces": "Which layers of two checkpoints are alike?",
}


LEADS = {
    "probing": "Compare a probe with the same probe of the random twin, with chance and with a control task. The "
    "control task's labels are permuted (sentences) or drawn at random per word type. Code: compression of the labels "
    "given the vectors.",
    "attention": "In a causal model a token attends only to itself and earlier tokens. So entropy is below 1 even if "
    "attention is uniform, and the first token always has a share. The random twin shows how much.",
    "spaces": "Every layer of one checkpoint against every layer of another, on the same words. Compare with random "
    "weights. isoscope spaces makes the same figures with other samples and options.",
}
"""What a reader should know before the figures of a section; that of `attention` for causal models."""


class Section(NamedTuple):
    """A section of the page; `key` is its id in links."""

    key: str
    title: str
    lead: str
    pictures: list[Picture]
    numbers: list[Numbers]


def sections(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """Yield the sections that have a figure, in order. `facts`: the page's manifest."""
    if "contextuality" in tables:  # of `isoscope spaces`
        for place, (question, some) in enumerate(groupby(pictures(SPACES, tables), lambda one: one.view.question)):
            yield Section(f"part-{place}", question, "", [*some], [*NUMBERS["spaces"]] if not place else [])
        return
    measured = [*pictures(MEASURED, tables)]
    for kind, called in KINDS.items():
        if own := [one for one in measured if one.value == kind]:
            yield Section(f"kind-{kind}", f"How does the geometry of {called} change by layer?", "", own, [])
    for key, views in SECTIONS.items():
        if shown := [*pictures(views, tables)]:
            listed = [one for one in NUMBERS.get(key, ()) if one.needs in tables]
            yield Section(key, TITLES[key], _lead(key, tables, facts), shown, listed)


def _lead(key: str, tables: Tables, facts: Mapping[str, Any]) -> str:
    """Return what a reader should know before the figures of a section."""
    if key == "planes":
        apart = tables["frames"].groupby("vectors")["group"].nunique().max() > 1
        said = " Checkpoints of another width or depth cannot be aligned: compare them only within a shape."
        return f"Each dot is a sentence.{said * bool(apart)}"
    if key == "spectrum":
        spectrum = tables.get("spectrum")
        positioned = set() if spectrum is None else {*spectrum.loc[spectrum["part"] == "position", "checkpoint"]}
        lacking = ", ".join(name for name in facts["checkpoints"] if name not in positioned)
        said = "A spectrum along the hidden index is meaningful only if permuting the hidden axes changes it. "
        why = f"{lacking}: no position table (rotary, relative or no positions), so there is no fusion."
        return said * (spectrum is not None) + why * bool(lacking)
    return "" if key == "attention" and not facts["causal"] else LEADS.get(key, "")


def notes(tables: Tables, facts: Mapping[str, Any]) -> list[str]:
    """Return the limits of the results: missing analyses, truncated texts, too few points, shared vectors."""
    found = [f"{one['checkpoint']}: no {one['analysis']}: {one['note'].rstrip('.')}." for one in facts["notes"]]
    found += [
        f"{name}: {count} sentences are longer than {facts['settings']['max_length']} tokens or the model's limit; "
        "they are truncated."
        for name, count in facts["truncated"].items()
    ]
    if "geometry" not in tables:
        return found
    table = tables["geometry"]
    points = table.groupby(["checkpoint", "vectors"])["n"].transform("max")  # smaller n: subsamples
    few = table[points < table["d"]].assign(n=points)
    found += [
        f"{checkpoint}: {sizes(part, 'n')} points in {sizes(part, 'd')} dimensions "
        f"({', '.join(part['vectors'].unique())}). "
        "A spectrum has at most as many values as points. Compare it with noise at the same n and d."
        for checkpoint, part in few.groupby("checkpoint", sort=False)
    ]
    lacking = table[table["note"].notna() & ~table["degenerate"]]
    found += [
        f"{checkpoint}, {', '.join(part['vectors'].unique())}: no {measure}: {note}."
        for (checkpoint, measure, note), part in lacking.groupby(["checkpoint", "measure", "note"], sort=False)
    ]
    shared = table[table["degenerate"]].groupby(["checkpoint", "vectors", "note"], sort=False)["layer"].unique()
    return found + [
        f"{checkpoint}, {vectors}, layer {', '.join(map(str, sorted(layers)))}: {note}, so nothing is measured there."
        for (checkpoint, vectors, note), layers in shared.items()
    ]


NAMES = re.compile(
    rf"({'|'.join(one.name for views in (MEASURED, *SECTIONS.values(), SPACES) for one in views)})(-\w+)*"
)
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
    template = environment().get_template("checkpoint.html")
    text = template.render(
        title="Spaces of representations" if "contextuality" in tables else "Geometry of representations",
        version=__version__,
        facts=facts,
        parts=parts,
        drawings=drawings,
        findings=of_figures([*drawings.values()]),
        tables=tables,
        summary=summary(tables),
        shown={name: title(name) for name in LAST_LAYER},
        kinds=KINDS,
        rows=geometry_rows(tables),
        notes=notes(tables, facts),
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
        "classes": pd.DataFrame({"name": facts.get("classes", [])}),
        "pieces": pd.DataFrame(pieces, columns=["checkpoint", "text"]),
    }


def _drawing(out: Path, one: Picture, source: dict[str, str]) -> Drawing:
    """Write a figure as SVG and PNG. Redraw it only if its rows, code or source differ, or a file was altered."""
    rows = [hashlib.sha256(pd.util.hash_pandas_object(table.astype(str)).to_numpy().tobytes()) for table in one.table]
    code = code_version("geometry", ("isoscope.studies.checkpoint_views", "isoscope.studies.spaces.views"))
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
