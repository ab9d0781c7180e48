"""What a study's arms look like inside, as the page shows it: figures, phases of training, and an explorer."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from isoscope.errors import InputError
from isoscope.figures.scales import SCALES
from isoscope.report.svg import inline

CAPTIONS = {
    "dynamics-": "Feature dynamics of {}: [CLS] in its first two principal components, by layer and snapshot.",
    "curves": "Geometry of [CLS] over training: mean over seeds, band ± 1 sd; dashed: noise at the same n and d.",
    "layers-": "{} by layer and snapshot, one range of colours for all arms; hatched: sentences share their vectors.",
    "singular_values": "Singular values of [CLS] over the largest, by layer, first snapshot and chosen epoch.",
    "ranks": "What the head decides from [CLS] rebuilt of few principal components, over training; dashed: all.",
    "map-": "Tokens of all arms after the embedding block, in one t-SNE map ({}). An illustration: evidence follows.",
    "pca-": "The same tokens in their first two principal components ({}).",
    "evidence": "The same tokens in the full space: whose neighbours they are, and what a linear map reads back.",
    "cosines-": "Cosines of the same tokens in each arm after the embedding block ({}), colours from −1 to 1.",
    "cosines": "Mean cosine by kind of pair, in each part of the embedding block.",
    "dimensions": "Values over the hidden dimensions, at the first snapshot and at the chosen epoch.",
    "attention": "What attention looks at, by layer over training.",
    "arm_heads": "Agreement of best-matching heads of two runs at the chosen epoch: between arms, and controls.",
    "heads": "Entropy of each head's attention at the chosen epoch.",
    "spectrum": "Spectrum along the hidden index of word, position and fused vectors; dashed: hidden axes permuted.",
    "magnitudes": "Magnitude by frequency along the hidden index, of word, position and fused vectors.",
    "kernel-response": "Frequency response of the fusion's kernel.",
    "gradients": "Variance of the embedding block's gradient over batches, by part, over training.",
    "kernel": "Where the energy of the fusion's kernel lies, over training.",
    "bars": "Persistence diagrams of [CLS] at the last layer, clouds scaled to equal size; first seed of each arm.",
    "barcodes": "The longest bars of the same.",
    "learning": "The label's probe at the last layer of the chosen epoch, trained on fewer and more sentences.",
    "probing-phases": "Score of a linear probe for the label by layer, in each phase of training; dashed: baselines.",
    "probing-": "What a linear probe reads by layer: {}. Mean over seeds, band ± 1 sd; dashed: baselines, by letter.",
}
ORDER = tuple(CAPTIONS)
MOMENTS = {"first": "first snapshot", "chosen": "chosen epoch"}


class Drawing(NamedTuple):
    """A figure and what is said below it."""

    picture: Markup
    caption: str


class Inside(NamedTuple):
    """Figures in order, phases of every run, differences of arms, and the explorer's data as JSON safe in HTML."""

    drawings: list[Drawing]
    phases: list[dict[str, Any]]
    differences: list[dict[str, Any]]
    explorer: Markup


def read_inside(folder: Path, *, key: str) -> Inside | None:
    """What `isoscope explore` left in a study's folder; None where it has not run. `key` makes ids unique on the page.

    Raises `InputError` where the files are damaged.
    """
    tables, figures = folder / "inside", folder / "figures"
    if not (tables / "explorer.json").is_file():
        return None
    try:
        phases = json.loads((tables / "phases.json").read_text("utf-8"))
        explorer = json.dumps(json.loads((tables / "explorer.json").read_text("utf-8")), separators=(",", ":"))
        differences = [without_nan(row) for row in pq.read_table(tables / "differences.parquet").to_pylist()]
        drawings = [_drawing(path, key) for path in sorted(figures.glob("*.svg"), key=_place)]
    except (ValueError, OSError, pa.ArrowException) as error:
        raise InputError(f"{folder}: not what isoscope explore left ({error}); run: isoscope repro") from None
    inert = explorer.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Inside(drawings, phases, differences, Markup(inert))


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    """A row with None for NaN, as a template asks for it."""
    return {name: None if value != value else value for name, value in row.items()}


def _drawing(path: Path, key: str) -> Drawing:
    caption = _caption(path.stem)
    picture = inline(path.read_text("utf-8"), key=f"{key}-{path.stem}", title=caption, description=caption)
    return Drawing(picture, caption)


def _caption(name: str) -> str:
    """The caption of a figure by its file's name: the longest start that fits, the rest filled in."""
    start = max((one for one in CAPTIONS if name.startswith(one)), key=len, default=None)
    if start is None:
        return re.sub(r"[-_]", " ", name[0].upper() + name[1:])
    rest = name.removeprefix(start)
    called = {"first": "[CLS]", "words": "sampled words", "mean": "the mean over tokens", "last": "the last token"}
    figure, _, vectors = rest.rpartition("-")
    if start == "layers-":
        label = SCALES[figure].label if figure in SCALES else figure.replace("_", " ")
        rest = f"{label}, of {called.get(vectors, vectors)},"
    if start in ("map-", "pca-", "cosines-"):
        rest = MOMENTS.get(rest, rest)
    if start == "probing-":
        rest = rest.replace("_", " ")
    text = CAPTIONS[start].format(rest)
    return text[0].upper() + text[1:]


def _place(path: Path) -> tuple[int, str]:
    """Where a figure stands: by its kind, first before chosen, else by name."""
    kind = next((place for place, one in enumerate(ORDER) if path.stem.startswith(one)), len(ORDER))
    return kind, path.stem.replace("-first", "")
