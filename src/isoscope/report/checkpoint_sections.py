"""The sections of the page of `isoscope geometry`: views of checkpoints, tables of numbers, and what is said first."""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from isoscope.report.checkpoint_numbers import NUMBERS, Numbers, Tables
from isoscope.studies.checkpoint_views import KINDS, MEASURED, SECTIONS, sizes
from isoscope.studies.view import Picture, pictures

TITLES = {
    "planes": "Planes",
    "probing": "Probing",
    "attention": "Attention",
    "embedding": "Embedding block",
    "spectrum": "Spectrum",
    "topology": "Persistence",
}


class Section(NamedTuple):
    """A part of the page; `key` is its place in links."""

    key: str
    title: str
    lead: str
    pictures: list[Picture]
    numbers: list[Numbers]


def sections(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """The sections that there is a figure for, in order; `facts` are those of the page's manifest."""
    measured = [*pictures(MEASURED, tables)]
    for kind, called in KINDS.items():
        if own := [one for one in measured if one.value == kind]:
            yield Section(f"kind-{kind}", f"Geometry of {called}", "", own, [])
    for key, views in SECTIONS.items():
        if shown := [*pictures(views, tables)]:
            listed = [one for one in NUMBERS.get(key, ()) if one.needs in tables]
            yield Section(key, TITLES[key], _lead(key, tables, facts), shown, listed)


def _lead(key: str, tables: Tables, facts: Mapping[str, Any]) -> str:
    """What to know before the figures of a section."""
    if key == "planes":
        apart = tables["frames"].groupby("vectors")["group"].nunique().max() > 1
        said = " Checkpoints of another width or depth cannot be aligned: each shape stands by itself."
        return f"A dot is a sentence.{said * bool(apart)}"
    if key == "probing":
        return (
            "A probe beside its twin, chance and a control task: labels permuted (sentences) or drawn for each word "
            "type. Code: how many times shorter the labels are written by whoever has the vectors."
        )
    if key == "attention" and facts["causal"]:
        return (
            "In a causal model a token sees only those before it: entropy is below 1 even where attention is uniform, "
            "and the first token has a share from the start. The twin shows how much."
        )
    if key == "spectrum":
        spectrum = tables.get("spectrum")
        positioned = set() if spectrum is None else {*spectrum.loc[spectrum["part"] == "position", "checkpoint"]}
        lacking = ", ".join(name for name in facts["checkpoints"] if name not in positioned)
        said = "A spectrum along the hidden index means something only where permuting the hidden axes changes it. "
        why = f"{lacking}: no table of positions (none, or rotary or relative ones), so nothing is fused."
        return said * (spectrum is not None) + why * bool(lacking)
    return ""


def notes(tables: Tables, facts: Mapping[str, Any]) -> list[str]:
    """What a reader has to know before believing what is shown."""
    found = [f"{one['checkpoint']}: no {one['analysis']}: {one['note'].rstrip('.')}." for one in facts["notes"]]
    found += [
        f"{name}: {count} sentences have more than {facts['settings']['max_length']} tokens, or than the model takes: "
        "their ends are cut off."
        for name, count in facts["truncated"].items()
    ]
    if "geometry" not in tables:
        return found
    table = tables["geometry"]
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
    for (checkpoint, vectors, note), part in table[table["degenerate"]].groupby(
        ["checkpoint", "vectors", "note"], sort=False
    ):
        layers = ", ".join(map(str, sorted(part["layer"].unique())))
        found.append(f"{checkpoint}, {vectors}, layer {layers}: {note}, so nothing is measured of them there.")
    return found
