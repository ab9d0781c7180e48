"""What a study's arms look like inside, as the page shows it: figures, stages of training, and an explorer."""

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from isoscope.errors import InputError
from isoscope.report.svg import inline

CAPTIONS = {
    "dynamics-": "Feature dynamics of {}: [CLS] in its first two principal components, by layer and snapshot.",
    "curves": "Geometry of [CLS] over training: mean over seeds, band ± 1 sd; dashed: noise at the same n and d.",
    "layers-": "{} by layer and snapshot, one range of colours for all arms; hatched: all points are one.",
    "map-": "Tokens of all arms after the embedding block, in one t-SNE map ({}). An illustration: its evidence is in neighbours.parquet.",  # noqa: E501
    "cosines-": "Cosines of the same tokens in each arm after the embedding block ({}), colours from −1 to 1.",
    "cosines": "Mean cosine by kind of pair, in each part of the embedding block.",
    "dimensions": "Values over the hidden dimensions, untrained and at the chosen epoch.",
    "attention": "What attention looks at, by layer over training.",
    "heads": "Entropy of each head's attention at the chosen epoch.",
    "spectrum": "Spectrum along the hidden index of word, position and fused vectors; dashed: hidden axes permuted.",
    "kernel-response": "Frequency response of the fusion's kernel.",
    "gradients": "Variance of the embedding block's gradient over batches, by part, over training.",
    "kernel": "Where the energy of the fusion's kernel lies, over training.",
    "bars": "Persistence diagrams of [CLS] at the last layer, clouds scaled to equal size; first seed of each arm.",
    "barcodes": "The longest bars of the same.",
    "probing-": "What a linear probe reads by layer: {}. Control tasks and baselines beside it; n and d in the panels.",
}
ORDER = tuple(CAPTIONS)


class Drawing(NamedTuple):
    """A figure and what is said below it."""

    picture: Markup
    caption: str


class Inside(NamedTuple):
    """Figures in order, the stages of every run, and the explorer's data as JSON that HTML cannot misread."""

    drawings: list[Drawing]
    stages: list[dict[str, Any]]
    explorer: Markup


def read_inside(folder: Path, *, key: str) -> Inside | None:
    """What `isoscope explore` left in a study's folder; None where it has not run. `key` makes ids unique on the page.

    Raises `InputError` where the files are damaged.
    """
    tables, figures = folder / "inside", folder / "figures"
    if not (tables / "explorer.json").is_file():
        return None
    try:
        stages = json.loads((tables / "stages.json").read_text("utf-8"))
        explorer = json.dumps(json.loads((tables / "explorer.json").read_text("utf-8")), separators=(",", ":"))
        drawings = [_drawing(path, key) for path in sorted(figures.glob("*.svg"), key=_place)]
    except (ValueError, OSError) as error:
        raise InputError(f"{folder}: not what isoscope explore left ({error}); run: isoscope repro") from None
    inert = explorer.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return Inside(drawings, stages, Markup(inert))


def _drawing(path: Path, key: str) -> Drawing:
    caption = _caption(path.stem)
    picture = inline(path.read_text("utf-8"), key=f"{key}-{path.stem}", title=caption, description=caption)
    return Drawing(picture, caption)


def _caption(name: str) -> str:
    """The caption of a figure by its file's name: the longest start that fits, the rest filled in."""
    start = max((one for one in CAPTIONS if name.startswith(one)), key=len, default=None)
    if start is None:
        return re.sub(r"[-_]", " ", name)
    rest = name.removeprefix(start)
    called = {"first": "[CLS]", "words": "sampled words", "mean": "mean over tokens", "last": "last token"}
    figure, _, vectors = rest.rpartition("-")
    if start == "layers-":
        rest = f"{figure.replace('_', ' ')} of {called.get(vectors, vectors)}"
    text = CAPTIONS[start].format(rest)
    return text[0].upper() + text[1:]


def _place(path: Path) -> tuple[int, str]:
    return next((place for place, one in enumerate(ORDER) if path.stem.startswith(one)), len(ORDER)), path.stem
