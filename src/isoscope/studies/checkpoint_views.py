"""Views of `isoscope geometry`: checkpoints side by side, each compared with its twin with random weights.

A checkpoint is an arm with a single snapshot, so most views draw like those of a study. Tables have a column
`checkpoint` instead of arm and seed; `frames` also has `alignment`. `classes` (name) and `pieces` (checkpoint, text)
name the classes and the tokens of a map.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.states.shown_metrics import added, profiles
from isoscope.studies.fusion.by_layer import geometry_by_layer
from isoscope.studies.fusion.decision_rank import singular_spectra
from isoscope.studies.fusion.embedding_space import DIMENSIONS, EVIDENCE
from isoscope.studies.fusion.feature_dynamics import feature_dynamics
from isoscope.studies.fusion.heads import LABELS, head_maps
from isoscope.studies.fusion.persistence_diagrams import barcodes, persistence_diagrams
from isoscope.studies.fusion.probing_scores import learning_curves
from isoscope.studies.fusion.spectra import MAGNITUDES
from isoscope.studies.fusion.token_cosines import COSINES, cosine_maps
from isoscope.studies.spaces import maps_between, similarity_maps
from isoscope.studies.view import Table, View

KINDS = {
    "first": "the first token ([CLS] of an encoder)",
    "last": "the last token ([SEP] of an encoder)",
    "mean": "the mean over tokens",
    "words": "sampled words",
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
TWIN = "its twin with random weights"
ABREAST = 4
"""How many checkpoints a figure of planes shows side by side."""
PARTS = {"word": 0, "fused": 1, "normed": 2}
"""Parts of the embedding block, in order. The last part that a checkpoint has is the block's output."""


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


def _beside_twin(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """Return (title, rows) of a checkpoint and of its twin."""
    untrained = table["step"].isna()
    return [(str(table["checkpoint"].iloc[0]), table[~untrained]), (TWIN, table[untrained])]


def _group(name: str, metrics: Callable[[pd.DataFrame], Sequence[str]]) -> View:
    return View(
        name=name.split()[0].lower(),
        needs=("geometry",),
        rows=lambda table: _with_numbers(table[table["figure"].isin(metrics(table))]),
        by="vectors",
        draw=lambda table: geometry_by_layer(table, metrics(table), vectors=table["vectors"].iloc[0]),
        caption=lambda table: (
            f"{name} of {_called(table)}, by layer. Compare each solid line with the checkpoint's random twin (dotted) "
            f"and with isotropic noise (dashed). n = {sizes(table, 'n')}, d = {sizes(table, 'd')}.{_depths(table)}"
        ),
    )


def _among(metrics: Sequence[str], _: pd.DataFrame) -> Sequence[str]:
    return metrics


def _of_plugins(table: pd.DataFrame) -> Sequence[str]:
    return [*dict.fromkeys(table.loc[added(table), "figure"])]


def _abreast(planes: pd.DataFrame, frames: pd.DataFrame, classes: pd.DataFrame) -> Table:
    """Add the number of the figure to both tables; to `frames` also the group's reference and size."""
    groups = frames.groupby("group", sort=False)["checkpoint"]
    place = groups.transform(lambda names: pd.factorize(names)[0] // ABREAST)
    number = frames.assign(place=place).groupby(["group", "place"], sort=False).ngroup()
    frames = frames.assign(number=number, reference=groups.transform("first"), together=groups.transform("nunique"))
    keys = ["group", "checkpoint"]
    return planes.merge(frames[[*keys, "number"]].drop_duplicates(), on=keys), frames, classes


def _planes(points: pd.DataFrame, frames: pd.DataFrame, classes: pd.DataFrame) -> Figure:
    names = frames["checkpoint"].unique()
    points = points.assign(snapshot=points["checkpoint"], label=points["label"].clip(lower=0))
    title = names[0] if len(names) == 1 else "Principal planes"
    class_names = classes["name"].tolist() or ["sentences"]
    return feature_dynamics(points, frames.assign(snapshot=frames["checkpoint"]), class_names, title=title)


def _of_planes(_: pd.DataFrame, frames: pd.DataFrame, __: pd.DataFrame) -> str:
    first = frames.iloc[0]
    names = ", ".join(dict.fromkeys(frames["checkpoint"]))
    last = frames[(frames["layer"] == frames["layer"].max()) & ~frames["degenerate"]]
    turned = last[last["checkpoint"] != last["reference"]]
    angles = [f"{name} {angle:.0f}°" for name, angle in zip(turned["checkpoint"], turned["angle_1"], strict=True)]
    aligned = f" Aligned ({first['alignment']}) to {first['reference']}." if first["together"] > 1 else ""
    said = f" Largest principal angle between planes at the last layer: {', '.join(angles)}." * bool(angles)
    plane = f"{names}: first and second principal component of {_called(frames)} at each layer. A dot is a sentence."
    return f"{plane}{aligned}{said}"


def as_measured(probing: pd.DataFrame) -> pd.DataFrame:
    """Return probe scores in the form of the geometry table; the control task's score is the baseline."""
    table = probing.rename(columns={"task": "figure", "score": "value", "control": "baseline"})
    return table.assign(low=np.nan, high=np.nan)


def _of_probes(table: pd.DataFrame) -> str:
    n = {name: sizes(table[table["figure"] == name], "n") for name in TASKS if name in set(table["figure"])}
    counts = ", ".join(f"{name} {count}" for name, count in n.items())
    return (
        f"Accuracy of a linear probe of {_called(table)}, held-out sentences, by layer. Compare each solid line with "
        f"the random twin (dotted), the control task (dashed) and chance. n: {counts}.{_depths(table)}"
    )


def _over_heads(attention: pd.DataFrame) -> Table:
    """Return the mean, minimum and maximum of each summary over the heads of a layer, if it has numbers."""
    numbers = attention.astype(dict.fromkeys(("step", *SUMMARIES), float))
    long = numbers.melt(["checkpoint", "step", "layer", "head", "n"], list(SUMMARIES), "figure")
    groups = long.groupby(["checkpoint", "step", "layer", "n", "figure"], sort=False, dropna=False)["value"]
    shown = groups.agg(value="mean", low="min", high="max").reset_index()
    shown = shown.assign(vectors="attention", baseline=np.nan, degenerate=False)
    return (shown[shown.groupby("figure")["value"].transform("count") > 0],)


def _heads(summary: str) -> View:
    said = f"{LABELS[summary][0].lower()}{LABELS[summary][1:]}"
    return View(
        name=f"heads-{summary}",
        needs=("attention",),
        rows=_numbered,
        by="place",
        draw=lambda table: head_maps(
            [(name, one.pivot(index="layer", columns="head", values=summary)) for name, one in _beside_twin(table)],
            summary,
            high=1.0,
        ),
        caption=lambda table: (
            f"{table['checkpoint'].iloc[0]}, head by head: {said}. Left: the checkpoint; right: its random twin."
        ),
    )


def _maps(table: pd.DataFrame, pieces: pd.DataFrame) -> Figure:
    tokens = pieces.loc[pieces["checkpoint"] == table["checkpoint"].iloc[0], "text"].tolist()
    return cosine_maps(
        [
            (name, one.pivot(index="one", columns="other", values="cosine").to_numpy())
            for name, one in _beside_twin(table)
        ],
        tokens=tokens,
    )


def _leaving(*tables: pd.DataFrame) -> Table:
    """Return the rows of each checkpoint's embedding-block output, all with the part `normed`."""
    found = []
    for table in tables:
        rank = table["part"].map(PARTS)
        found.append(table[rank == rank.groupby(table["checkpoint"]).transform("max")].assign(part="normed"))
    return tuple(found)


def _of_kind(draw: Callable[..., Figure]) -> Callable[[pd.DataFrame], Figure]:
    return lambda table: draw(table.assign(arm=table["checkpoint"], seed=0), vectors=table["vectors"].iloc[0])


_by_kind = partial(View, by="vectors", called=KINDS)
"""A view with a figure per kind of sentence vector."""
MEASURED = (
    *(_group(name, partial(_among, metrics)) for name, metrics in profiles().items()),
    _group("Measures of plugins", _of_plugins),
)
_NEEDED = ("planes", "frames", "classes")
PLANES = View(name="planes", needs=_NEEDED, rows=_abreast, by="number", draw=_planes, caption=_of_planes)
PROBING = View(
    name="probing",
    needs=("probing",),
    rows=lambda table: _with_numbers(as_measured(table)),
    by="vectors",
    draw=lambda table: geometry_by_layer(
        table, [*TASKS], vectors=table["vectors"].iloc[0], titles=TASKS, beside="its control task"
    ),
    caption=_of_probes,
)
LEARNING = _by_kind(
    *("learning", ("learning",), _of_kind(learning_curves)),
    "Learning curve of the label probe on {} at the last layer: accuracy by the number of training sentences.",
)
ATTENTION = View(
    name="attention",
    needs=("attention",),
    rows=_over_heads,
    draw=partial(geometry_by_layer, figures=SUMMARIES, vectors="attention", titles=LABELS),
    caption=lambda table: (
        "Attention by layer: mean over heads, band from minimum to maximum. Dotted: the random twin. "
        f"n = {sizes(table, 'n')} sentences.{_depths(table)}"
    ),
)
MAPS = View(
    name="cosine_maps",
    needs=("token_cosines", "pieces"),
    rows=_numbered,
    by="place",
    draw=_maps,
    caption=lambda table, _: (
        f"{table['checkpoint'].iloc[0]}: cosines between tokens after the embedding block, colours from −1 to 1. "
        "Left: the checkpoint; right: its random twin."
    ),
)
BLOCK = (
    MAPS,
    replace(
        COSINES,
        caption="Mean cosine of two tokens of different sentences, by kind of pair, in each part of the embedding "
        "block. Hollow: the random twin; filled: the checkpoint.",
    ),
    replace(
        DIMENSIONS,
        remakes=None,
        caption="Mean ± sd of each hidden dimension over tokens after the embedding block. Red circles: outlying "
        "dimensions, with their number.",
    ),
    replace(
        EVIDENCE,
        rows=_leaving,
        caption="Do tokens keep their word and position after the embedding block? Share of nearest neighbours, in "
        "other sentences, with the same word or position; share that a linear map decodes. Strokes: chance.",
    ),
)
SPECTRUM = (
    _by_kind(
        *("singular", ("singular_values",), _of_kind(singular_spectra)),
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
        *("diagrams", ("bars",), persistence_diagrams),
        f"Persistence diagrams{_CLOUDS}. Points far above the diagonal persist long.",
    ),
    _by_kind("barcodes", ("bars",), barcodes, f"The longest bars{_CLOUDS}. A long bar is a feature that persists."),
)
SECTIONS: dict[str, tuple[View, ...]] = {
    "planes": (PLANES,),
    "probing": (PROBING, LEARNING),
    "attention": (ATTENTION, *map(_heads, ("entropy", "first"))),
    "embedding": BLOCK,
    "spectrum": SPECTRUM,
    "topology": TOPOLOGY,
    "spaces": tuple(replace(view, name="spaces") for view in (*similarity_maps.VIEWS, *maps_between.VIEWS)),
}
"""Section of the page → its views, in order. `MEASURED` come first, with a section per kind of representation."""
