"""The page that `isoscope geometry` leaves: figures and numbers in one file that asks for nothing else."""

import hashlib
import json
import re
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup
from matplotlib.figure import Figure

from isoscope import __version__
from isoscope.code import PACKAGE
from isoscope.figures.by_layer import geometry_by_layer
from isoscope.figures.dynamics import feature_dynamics
from isoscope.figures.scales import SCALES, Scale
from isoscope.figures.style import to_png, to_svg
from isoscope.report.page import environment
from isoscope.report.svg import inline
from isoscope.sealing import fault, write_text, write_whole

GROUPS = {
    "Isotropy": (
        *("a_1", "a_1_centred", "a_1_within", "between_share", "isoscore_unbiased", "effective_rank"),
        *("participation_ratio_unbiased", "log_partition_isotropy", "a_1_at_n"),
    ),
    "Similarity": ("avg_sim", "self_sim", "intra_sim_left_out"),
    "Dimension and topology": ("two_nn_at_n", "mle_at_n", "h0_entropy_share"),
    "Classes": ("linear_separability", "silhouette", "fisher_ratio"),
    "Shape": (
        "clusters_silhouette",
        "clusters_ami_label",
        "clusters_ami_first_token",
        "clusters_ami_length",
        "arch_score",
    ),
}
KINDS = {
    "first": "the first token ([CLS] of an encoder)",
    "last": "the last token",
    "mean": "the mean over tokens",
    "words": "sampled words",
}


NAMES = re.compile(rf"([a-z]+-({'|'.join(KINDS)})|planes-\d+)\.(svg|png)")
"""What files of figures are called: any other in their folder is not of a page."""


class Drawing(NamedTuple):
    """A figure of the page, and what is said below it."""

    key: str
    picture: Markup
    caption: str


def page(out: Path) -> Path:
    """Write `index.html` and the figures (SVG and PNG) from the tables in `out`; returns the page's path.

    Figures of an earlier page that this one does not show are removed.
    """
    facts = json.loads((out / "manifest.json").read_text("utf-8"))
    table = pd.read_parquet(out / "geometry.parquet")
    source = {
        "Source": " ".join(["text", facts["text"][:12], *(digest[:12] for digest in facts["checkpoints"].values())])
    }
    drawings: dict[str, list[Drawing]] = {}
    for kind, called in KINDS.items():
        part = table[table["vectors"] == kind]
        for group, figures in GROUPS.items():
            there = [one for one in figures if (part["figure"] == one).any()]
            if there and part[part["figure"].isin(there)]["value"].notna().any():
                name = f"{group.split()[0].lower()}-{kind}"
                caption = f"{group} of {called}, by layer. n = {_n(part)}, d = {_d(part)}."
                shown = part[part["figure"].isin(there)]
                draw = partial(geometry_by_layer, shown, there, vectors=kind)
                drawings.setdefault(called, []).append(_keep(out, name, shown, draw, caption, source))
    planes, frames = (pd.read_parquet(out / f"{name}.parquet") for name in ("planes", "frames"))
    pictures = [_keep(out, *one, source) for one in _planes(planes, frames, facts)]
    text = (
        environment()
        .get_template("geometry.html")
        .render(
            title="Geometry of representations",
            version=__version__,
            facts=facts,
            drawings=drawings,
            planes=pictures,
            rows=_last_layer(table),
            notes=_notes(table, frames),
        )
    )
    write_text(out / "index.html", text, "report")
    keys = {one.key for several in (pictures, *drawings.values()) for one in several}
    for path in (out / "figures").iterdir():
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
    return Drawing(name, inline(svg, key=name, title=caption, description=caption), caption)


def _write(files: dict[str, bytes], folder: Path) -> None:
    for name, content in files.items():
        (folder / name).write_bytes(content)


@cache
def _code() -> str:
    """sha256 of what the drawings depend on in the code: this file and those of the figures."""
    found = hashlib.sha256()
    for path in (Path(__file__), *sorted((PACKAGE / "figures").glob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


def _planes(
    planes: pd.DataFrame, frames: pd.DataFrame, facts: Any
) -> list[tuple[str, pd.DataFrame, Callable[[], Figure], str]]:
    found: list[tuple[str, pd.DataFrame, Callable[[], Figure], str]] = []
    which = frames[["checkpoint", "vectors"]].drop_duplicates().itertuples(index=False)
    for number, (checkpoint, vectors) in enumerate(which):
        points, shown = (
            one[(one["checkpoint"] == checkpoint) & (one["vectors"] == vectors)].assign(arm=checkpoint, seed=0)
            for one in (planes, frames)
        )
        labels = points.drop_duplicates("sentence").sort_values("sentence")["label"].to_numpy()
        classes = facts["classes"] or ["sentences"]
        draw: Callable[[], Figure] = partial(
            feature_dynamics,
            points,
            shown,
            np.clip(labels, 0, None),
            arm=checkpoint,
            seed=0,
            snapshots=["checkpoint"],
            class_names=classes,
            title=checkpoint,
        )
        caption = (
            f"{checkpoint}: first and second principal component of {KINDS[vectors]} at each layer; a dot: a sentence."
        )
        found.append((f"planes-{number}", pd.concat([points, shown]), draw, caption))
    return found


def _n(table: pd.DataFrame) -> str:
    return " and ".join(f"{n:,}" for n in sorted(table["n"].unique()))


def _d(table: pd.DataFrame) -> str:
    return " and ".join(f"{d:,}" for d in sorted(table["d"].unique()))


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
                    "value": _number(row["value"]),
                    "low": _number(row["low"]),
                    "high": _number(row["high"]),
                    "twin": _number(twin.get(row["checkpoint"])),
                    "noise": _number(row["baseline"]),
                    "n": int(row["n"]),
                    "d": int(row["d"]),
                }
            )
    return rows


def _notes(table: pd.DataFrame, frames: pd.DataFrame) -> list[str]:
    """What a reader has to know of these cells before believing them."""
    causal = set(frames["checkpoint"]) - set(frames.loc[frames["vectors"] == "first", "checkpoint"])
    found = [
        f"{checkpoint} is causal: its first token has seen no other, so that it says nothing about the sentence."
        for checkpoint in table.loc[table["vectors"] == "first", "checkpoint"].unique()
        if checkpoint in causal
    ]
    points = table.groupby(["checkpoint", "vectors"])["n"].transform("max")  # others are of subsamples
    few = table[points < table["d"]].assign(n=points)
    for checkpoint, part in few.groupby("checkpoint", sort=False):
        found.append(
            f"{checkpoint}: {_n(part)} points in {_d(part)} dimensions ({', '.join(part['vectors'].unique())}). "
            "Spectra then have at most as many values as points: read them against the noise at the same n and d."
        )
    lacking = table[table["note"].notna() & ~table["degenerate"]]
    for (checkpoint, measure, note), part in lacking.groupby(["checkpoint", "measure", "note"], sort=False):
        found.append(f"{checkpoint}, {', '.join(part['vectors'].unique())}: no {measure}: {note}.")
    single = table[table["degenerate"]]
    for (checkpoint, vectors, note), part in single.groupby(["checkpoint", "vectors", "note"], sort=False):
        layers = ", ".join(map(str, sorted(part["layer"].unique())))
        found.append(f"{checkpoint}, {vectors}, layer {layers}: {note}, so there is nothing to measure.")
    return found


def _number(value: Any) -> float | None:
    return None if value is None or not np.isfinite(value) else float(value)
