"""Every picture of what a study's arms look like inside, by name."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.analysis.trajectory import Trajectory
from isoscope.figures import (
    attention,
    dimensions,
    dynamics,
    embedding_space,
    evidence,
    gradients,
    heads,
    layers,
    learning,
    magnitudes,
    persistence,
    probing,
    rank_views,
    spectrum,
    tokens,
    trajectories,
)
from isoscope.geometry.contextuality import units
from isoscope.geometry.kernels import frequency_response
from isoscope.geometry.moments import Floats, Ints

Key = tuple[str, int]
"""Arm and seed of a run."""
CURVES = ("linear_separability", "a_1_within", "isoscore_unbiased", "effective_rank")
MAPS = {"first": ("avg_sim", "a_1_centred", "linear_separability", "silhouette"), "words": ("avg_sim", "self_sim")}
Draw = Callable[[], Figure]
COLUMNS = 6
"""Snapshots in a picture of feature dynamics."""


def first_seeds(runs: Mapping[Key, Trajectory]) -> dict[str, Trajectory]:
    """The first seed of each arm."""
    return {arm: run for (arm, _), run in reversed(list(runs.items()))}


def pictures(
    tables: Mapping[str, pd.DataFrame],
    runs: Mapping[Key, Trajectory],
    labels: Ints,
    names: list[str],
    by_phase: pd.DataFrame,
    square: int,
) -> Iterator[tuple[str, Draw]]:
    """Name of each and what draws it, in whatever process; `square`: tokens of a cosine map."""
    geometry = tables["geometry"]
    for vectors, figures in MAPS.items():
        for figure in figures:
            if ((geometry["vectors"] == vectors) & (geometry["figure"] == figure)).any():
                yield f"layers-{figure}-{vectors}", partial(layers.layer_by_snapshot, geometry, figure, vectors=vectors)
    of_first = geometry.loc[geometry["vectors"] == "first", "figure"]
    if there := [one for one in CURVES if (of_first == one).any()]:
        yield "curves", partial(trajectories.geometry_curves, geometry, there)
    one = dict(reversed(first_seeds(runs).items()))
    for arm, run in one.items():
        seed = next(seed for other, seed in runs if other == arm)
        points, shown = (
            table[(table["arm"] == arm) & (table["seed"] == seed)] for table in (tables["planes"], tables["frames"])
        )
        yield (
            f"dynamics-{arm}",
            partial(
                dynamics.feature_dynamics,
                points,
                shown,
                labels,
                arm=arm,
                seed=seed,
                snapshots=_spread(run),
                class_names=names,
                layers=_some(run),
            ),
        )
    for moment in ("first", "chosen"):
        points = tables["map"][tables["map"]["moment"] == moment]
        yield f"map-{moment}", partial(embedding_space.scatter, points, method="t-SNE")
        yield f"pca-{moment}", partial(embedding_space.scatter, points, method="PCA")
        yield f"cosines-{moment}", partial(tokens.cosine_maps, _cosines(one, square, first=moment == "first"))
    if "decoding" in tables and "neighbours" in tables:
        yield "evidence", partial(evidence.embedding_evidence, tables["neighbours"], tables["decoding"])
    optional: dict[str, Callable[[pd.DataFrame], Figure]] = {
        "cosines": tokens.cosine_summary,
        "attention": attention.attention_curves,
        "arm_heads": heads.head_agreement,
        "spectrum": spectrum.spectra,
        "magnitudes": magnitudes.frequency_magnitudes,
        "singular_values": rank_views.singular_spectra,
        "ranks": rank_views.rank_curves,
        "kernel": spectrum.kernel,
        "dimensions": dimensions.hidden_dimensions,
        "gradients": gradients.gradient_noise,
        "bars": persistence.persistence_diagrams,
        "learning": learning.learning_curves,
    }
    for table, draw in optional.items():
        if table in tables and drawable(table, tables[table]):
            yield table, partial(draw, tables[table])
    if by_phase["phase"].notna().any():
        yield "probing-phases", partial(probing.probing_curves, by_phase, tables["baselines"])
    for task in ("label", "word position", "word order", "bigram shift", "part of speech"):
        if (tables["probing"]["task"] == task).any():
            vectors = "words" if task.startswith("word") else "treebank" if task == "part of speech" else "first"
            yield (
                f"probing-{task.replace(' ', '_')}",
                partial(probing.probing_curves, tables["probing"], tables["baselines"], task=task, vectors=vectors),
            )
    if "bars" in tables and len(tables["bars"]):
        yield "barcodes", partial(persistence.barcodes, tables["bars"])
    if "attention" in tables:
        yield "heads", partial(attention.attention_heads, tables["attention"])
    if panels := list(_responses(one)):
        yield "kernel-response", partial(spectrum.kernel_response, panels)


def drawable(name: str, table: pd.DataFrame) -> bool:
    """Whether a table holds what its picture shows: a gradient that is noise alone has no ratio, and so no curve."""
    return len(table) > 0 and (name != "gradients" or bool(table["noise"].gt(0).any()))


def _spread(run: Trajectory) -> list[str]:
    """A few snapshots from the first to the last, the chosen one among them."""
    order = run.trained
    at = set(np.linspace(0, len(order) - 1, min(COLUMNS, len(order))).round().astype(int)) | {order.index(run.best)}
    return [order[place].name for place in sorted(at)]


def _some(run: Trajectory) -> list[int]:
    depth = run.arrays(run.best).shape("first")[0]
    return sorted({int(layer) for layer in np.linspace(0, depth - 1, min(5, depth)).round()})


def _cosines(runs: Mapping[str, Trajectory], square: int, *, first: bool) -> list[tuple[str, Floats]]:
    """The same tokens in all arms after the block's LayerNorm, [CLS] and [SEP] left out."""
    found = []
    for arm, run in runs.items():
        arrays = run.arrays(run.trained[0] if first else run.best)
        inner = np.flatnonzero(~run.tokens["end"].to_numpy())[:square]
        unit = units(arrays.whole("block_normed")[inner])
        found.append((arm, unit @ unit.T))
    return found


def _responses(runs: Mapping[str, Trajectory]) -> Iterator[tuple[str, Floats]]:
    for arm, run in runs.items():
        for snapshot, called in {run.trained[0]: "first", run.best: "chosen"}.items():
            arrays = run.arrays(snapshot)
            if "kernel" in arrays.names:
                weights = arrays.whole("kernel")
                sources = ("word", "token type", "position") if len(weights) == 3 else ("word", "position")
                for source, response in zip(sources, frequency_response(weights), strict=True):
                    yield f"{arm}, {called}: {source}", response
