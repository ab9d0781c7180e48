"""Views of `isoscope geometry`: checkpoints side by side, each compared with its random-weights control.

A checkpoint is an arm with a single snapshot, so most views draw like those of a study. Tables have a column
`checkpoint` instead of arm and seed; `frames` also has `alignment`. `classes` (name) and `pieces` (checkpoint, text)
name the classes and the tokens of a map.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.states.choices import GIVEN
from isoscope.states.shown_metrics import OF_PAIRS, added, paired
from isoscope.studies.fusion.embedding_block import COSINES, DIMENSIONS, EVIDENCE, PAIRED, with_means
from isoscope.studies.fusion.heads import LABELS, RANKED
from isoscope.studies.fusion.layers import profile
from isoscope.studies.fusion.point_clouds import BARCODE, CORNERS, DIAGRAM, PLANE, UNIT, placed
from isoscope.studies.fusion.probing_scores import SENTENCES
from isoscope.studies.fusion.spectra import MAGNITUDES, SPECTRA

LAST_LAYER = ("a_1", "effective_rank", "avg_sim", "linear_separability")
"""Metrics of the last layer that are shown first; they use all points, so that a row has a single n."""
KINDS = {
    "first": "the first token ([CLS] of an encoder)",
    "last": "the last token ([SEP] of an encoder)",
    "mean": "the mean over tokens",
    "sentence": "the sentence vector (sentence-transformers)",
    "words": "sampled words",
    GIVEN: "the given vectors",
    **OF_PAIRS,
}
TASKS = {
    "label": "Label",
    "first token": "First token",
    "length": "Length, in three classes",
    "bigram shift": "Bigram shift",
    "word position": "Position of a word, in three classes",
    "word order": "Order of two words",
}
SUMMARIES = ("entropy", "distance", "first", "last", "itself", "between")
TWIN = "its random-weights control"
BESIDE = {"random": TWIN, "chosen": "the checkpoint"}
"""Names of the moments of a checkpoint: it has no training."""
FEW = 40
"""Up to this number of tokens, a map of cosines has their texts."""
ABREAST = 4
"""How many checkpoints a figure of planes shows side by side."""


def sizes(table: pd.DataFrame, column: str) -> str:
    """Return the distinct numbers of points or dimensions as text: `500 and 731`."""
    return " and ".join(f"{one:,}" for one in sorted(table[column].unique()))


def _depths(table: pd.DataFrame) -> str:
    """Return what the depth axis means if checkpoints differ in depth; else an empty text."""
    layers = table.groupby("checkpoint", sort=False)["layer"].max()
    listed = ", ".join(f"{one} {layer}" for one, layer in layers.items())
    return f" Depth 1 is the last layer: {listed}." if layers.nunique() > 1 else ""


def _called(table: pd.DataFrame) -> str:
    return KINDS[table["vectors"].iloc[0]]


def _with_numbers(table: pd.DataFrame) -> Table:
    """Return the rows of kinds of representation with at least one number, in the order of `KINDS`."""
    kept = table[table.groupby("vectors")["value"].transform("count") > 0]
    return (kept.sort_values("vectors", key=lambda kinds: kinds.map([*KINDS].index), kind="stable"),)


def _numbered(*tables: pd.DataFrame) -> Table:
    """Add each checkpoint's number to the first table: a checkpoint's name may not be a valid file name."""
    return (tables[0].assign(place=pd.factorize(tables[0]["checkpoint"])[0]), *tables[1:])


def _beside_twin(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of a checkpoint and of its twin, with a title for each."""
    return table.assign(weights=table["checkpoint"].where(table["step"].notna(), TWIN))


def group(name: str, metrics: Sequence[str], kind: str) -> View:
    """Return the view of these metrics by layer, of a kind of vectors; of none: measures of plugins and pairs."""
    return View(
        name=f"{name.split()[0].lower()}-{kind}",
        needs=("geometry",),
        rows=lambda table: _with_numbers(
            table[
                (table["vectors"] == kind)
                & (table["metric"].isin(metrics) if metrics else added(table) | paired(table))
            ]
        ),
        form=profile(metrics),
        caption=lambda table: (
            f"{name} of {_called(table)}, by layer. Compare each solid line with the random-weights control (dotted) "
            f"and with isotropic noise (dashed). n = {sizes(table, 'n')}, d = {sizes(table, 'd')}.{_depths(table)}"
        ),
    )


def _abreast(planes: pd.DataFrame, frames: pd.DataFrame, classes: pd.DataFrame) -> Table:
    """Add the number of the figure to both tables; to `frames` also the group's reference and size."""
    groups = frames.groupby("group", sort=False)["checkpoint"]
    place = groups.transform(lambda names: pd.factorize(names)[0] // ABREAST)
    number = frames.assign(place=place).groupby(["group", "place"], sort=False).ngroup()
    frames = frames.assign(number=number, reference=groups.transform("first"), together=groups.transform("nunique"))
    keys = ["group", "checkpoint"]
    return planes.merge(frames[[*keys, "number"]].drop_duplicates(), on=keys), frames, classes


def _planes(points: pd.DataFrame, frames: pd.DataFrame, classes: pd.DataFrame) -> pd.DataFrame:
    """Return the points of checkpoints, with the name of their class."""
    names = classes["name"].tolist() or ["sentences"]
    called = [names[label] for label in points["label"].clip(lower=0)]
    points = points.assign(snapshot=points["checkpoint"], **{"class": called})
    return placed(points, frames.assign(snapshot=frames["checkpoint"]), points["checkpoint"])


def _of_planes(points: pd.DataFrame, frames: pd.DataFrame, __: pd.DataFrame) -> str:
    first, n = frames.iloc[0], points["sentence"].nunique()
    names = ", ".join(dict.fromkeys(frames["checkpoint"]))
    last = frames[(frames["layer"] == frames["layer"].max()) & ~frames["degenerate"]]
    turned = last[last["checkpoint"] != last["reference"]]
    angles = [f"{name} {angle:.0f}°" for name, angle in zip(turned["checkpoint"], turned["angle_1"], strict=True)]
    aligned = f" Aligned ({first['alignment']}) to {first['reference']}." if first["together"] > 1 else ""
    said = f" Largest principal angle between planes at the last layer: {', '.join(angles)}." * bool(angles)
    plane = f"{names}: first and second principal component of {_called(frames)} at each layer."
    return f"{plane} A dot is a sentence (n = {n}).{CORNERS}{aligned}{said}"


def as_measured(probing: pd.DataFrame) -> pd.DataFrame:
    """Return probe scores in the form of the geometry table; the control task's score is the baseline."""
    table = probing.rename(columns={"task": "metric", "score": "value", "control": "baseline"})
    return table.assign(low=np.nan, high=np.nan)


def _of_probes(table: pd.DataFrame) -> str:
    n = {name: sizes(table[table["metric"] == name], "n") for name in TASKS if name in set(table["metric"])}
    counts = ", ".join(f"{name} {count}" for name, count in n.items())
    if (table["vectors"] == GIVEN).all():
        return (
            f"Accuracy of a linear probe of {KINDS[GIVEN]}, held-out rows. Compare each dot with the control task "
            f"(dashed) and chance. n: {counts}."
        )
    return (
        f"Accuracy of a linear probe of {_called(table)}, held-out sentences, by layer. Compare each solid line with "
        f"the random-weights control (dotted), the control task (dashed) and chance. n: {counts}.{_depths(table)}"
    )


def _over_heads(attention: pd.DataFrame) -> Table:
    """Return the mean, minimum and maximum of each summary over the heads of a layer, if it has numbers."""
    numbers = attention.astype(dict.fromkeys(("step", *SUMMARIES), float))
    long = numbers.melt(["checkpoint", "step", "layer", "head", "n"], list(SUMMARIES), "metric")
    groups = long.groupby(["checkpoint", "step", "layer", "n", "metric"], sort=False, dropna=False)["value"]
    shown = groups.agg(value="mean", low="min", high="max").reset_index()
    shown = shown.assign(vectors="attention", baseline=np.nan, degenerate=False)
    return (shown[shown.groupby("metric")["value"].transform("count") > 0],)


def heads(summary: str) -> View:
    said = f"{LABELS[summary][0].lower()}{LABELS[summary][1:]}"
    return View(
        name=f"heads-{summary}",
        needs=("attention",),
        rows=_numbered,
        by="place",
        form=replace(
            RANKED,
            points=_beside_twin,
            x="head",
            columns="weights",
            value=summary,
            labels=("Head", "Layer"),
            bar=LABELS[summary],
        ),
        caption=lambda table: (
            f"{table['checkpoint'].iloc[0]}, head by head: {said}. "
            "Left: the checkpoint; right: its random-weights control."
        ),
    )


def _tokens(table: pd.DataFrame, pieces: pd.DataFrame) -> pd.DataFrame:
    """Return cosines of tokens with their number and text."""
    texts = pieces.loc[pieces["checkpoint"] == table["checkpoint"].iloc[0], "text"].tolist()
    found = with_means(_beside_twin(table), "weights")
    if not found["one"].max() < len(texts) <= FEW:
        return found
    called = {place: f"{place} {text}" for place, text in enumerate(texts)}
    return found.assign(one=found["one"].map(called), other=found["other"].map(called))


_by_kind = partial(View, by="vectors", called=KINDS)
"""A view with a figure per kind of sentence vector."""
_NEEDED = ("planes", "frames", "classes")
PLANES = View(name="planes", needs=_NEEDED, rows=_abreast, by="number", form=PLANE(points=_planes), caption=_of_planes)
PROBING = View(
    name="probing",
    needs=("probing",),
    rows=lambda table: _with_numbers(as_measured(table)),
    by="vectors",
    form=profile([*TASKS], TASKS, "its control task"),
    caption=_of_probes,
)
LEARNING = _by_kind(
    *("learning", ("learning",), replace(SENTENCES, series="checkpoint")),
    "Learning curve of the label probe on {} at the last layer: accuracy by the number of training sentences.",
)
ATTENTION = View(
    name="attention",
    needs=("attention",),
    rows=_over_heads,
    form=profile(SUMMARIES, LABELS),
    caption=lambda table: (
        "Attention by layer: mean over heads, band from minimum to maximum. Dotted: the random-weights control. "
        f"n = {sizes(table, 'n')} sentences.{_depths(table)}"
    ),
)
MAPS = View(
    name="cosine_maps",
    needs=("token_cosines", "pieces"),
    rows=_numbered,
    by="place",
    form=replace(PAIRED, points=_tokens, columns="weights"),
    caption=lambda table, _: (
        f"{table['checkpoint'].iloc[0]}: cosines between tokens after the embedding block, colours from −1 to 1. "
        "Left: the checkpoint; right: its random-weights control."
    ),
)
BLOCK = (
    MAPS,
    replace(
        COSINES,
        caption="Mean cosine of two tokens of different sentences, by kind of pair, in each part of the embedding "
        "block. Hollow: the random-weights control; filled: the checkpoint.",
    ),
    replace(
        DIMENSIONS,
        remakes=None,
        caption="Mean ± sd of each hidden dimension over tokens after the embedding block. Rings: outlying "
        "dimensions, the farthest with their number.",
    ),
    replace(
        EVIDENCE,
        caption="Do tokens keep their word and position after the embedding block? Share of nearest neighbours, in "
        "other sentences, with the same word or position; share that a linear map decodes. Strokes: chance.",
    ),
)
SPECTRUM = (
    _by_kind(
        *("singular", ("singular_values",), SPECTRA),
        "Singular values of {} over the largest, by layer. A steeper line: fewer directions carry the variance.",
    ),
    replace(
        MAGNITUDES,
        caption="Magnitude by frequency along the hidden index, of each part of the embedding block. 1 is the mean: "
        "a flat line at 1 is white noise.",
    ),
)
_CLOUDS = " of {} at the last layer, point clouds scaled to equal size"
TOPOLOGY = (
    _by_kind(
        *("diagrams", ("bars",), replace(DIAGRAM, names=BESIDE)),
        f"Persistence diagrams{_CLOUDS}. Points far above the diagonal persist long. {UNIT}",
    ),
    _by_kind(
        "barcodes",
        ("bars",),
        replace(BARCODE, names=BESIDE),
        f"The longest bars{_CLOUDS}. A long bar is a feature that persists.",
    ),
)
