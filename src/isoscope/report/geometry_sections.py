"""The sections of the page of `isoscope geometry`: from its tables what is drawn, and what stands as numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from isoscope.studies.views.attention import LABELS, head_maps
from isoscope.studies.views.by_layer import geometry_by_layer
from isoscope.studies.views.dynamics import feature_dynamics
from isoscope.studies.views.learning import learning_curves

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
ABREAST = 4
"""Checkpoints beside each other in a figure of planes."""
MAPS = ("entropy", "first")


class Sketch(NamedTuple):
    """A figure to be: its file's name, the table that it shows, how it is drawn, and what is said below it."""

    name: str
    table: pd.DataFrame
    draw: Callable[[], Figure]
    caption: str


class Numbers(NamedTuple):
    """A table to read: its caption, the names of its columns, and rows of texts and numbers (None: none)."""

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]


class Section(NamedTuple):
    """A part of the page; `key` is its place in links."""

    key: str
    title: str
    lead: str
    figures: Sequence[Sketch]
    numbers: Sequence[Numbers] = ()


Tables = Mapping[str, pd.DataFrame]


def measures(tables: Tables, _: Mapping[str, Any]) -> Iterator[Section]:
    """Geometry by layer, a section for each kind of representation."""
    table = tables["geometry"]
    for kind, called in KINDS.items():
        part = table[table["vectors"] == kind]
        figures = []
        for group, names in GROUPS.items():
            there = [one for one in names if (part["figure"] == one).any()]
            shown = part[part["figure"].isin(there)]
            if shown["value"].notna().any():
                draw = partial(geometry_by_layer, shown, there, vectors=kind)
                caption = f"{group} of {called}, by layer. n = {sizes(part, 'n')}, d = {sizes(part, 'd')}."
                caption += depths(part)
                figures.append(Sketch(f"{group.split()[0].lower()}-{kind}", shown, draw, caption))
        if figures:
            yield Section(f"kind-{kind}", f"Geometry of {called}", "", figures)


def planes(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """Principal planes, checkpoints of one shape beside each other."""
    whole, frames = (tables[name].assign(arm="", seed=0) for name in ("planes", "frames"))
    figures: list[Sketch] = []
    alignment = facts["settings"]["alignment"]
    for group, kind in frames[["group", "vectors"]].drop_duplicates().itertuples(index=False):
        points, shown = (one[(one["group"] == group) & (one["vectors"] == kind)] for one in (whole, frames))
        names = list(dict.fromkeys(shown["checkpoint"]))
        labels = points.drop_duplicates("sentence").sort_values("sentence")["label"].to_numpy()
        for begin in range(0, len(names), ABREAST):
            some = names[begin : begin + ABREAST]
            draw = partial(
                feature_dynamics,
                points.assign(snapshot=points["checkpoint"]),
                shown.assign(snapshot=shown["checkpoint"]),
                np.clip(labels, 0, None),
                arm="",
                seed=0,
                snapshots=some,
                class_names=facts["classes"] or ["sentences"],
                title=some[0] if len(some) == 1 else "Principal planes",
            )
            caption = f"{', '.join(some)}: first and second principal component of {KINDS[kind]} at each layer."
            if len(names) > 1:
                caption += f" Aligned ({alignment}) to {names[0]}. {_angles(shown, some, names[0])}"
            figures.append(Sketch(f"planes-{len(figures)}", pd.concat([points, shown]), draw, caption))
    lead = "A dot is a sentence."
    if frames.groupby("vectors")["group"].nunique().max() > 1:
        lead += " Checkpoints of another width or depth cannot be aligned: each shape stands by itself."
    yield Section("planes", "Planes", lead, figures)


def _angles(frames: pd.DataFrame, names: Sequence[str], reference: str) -> str:
    last = frames[(frames["layer"] == frames["layer"].max()) & ~frames["degenerate"]].set_index("checkpoint")
    found = [f"{name} {last.loc[name, 'angle_1']:.0f}°" for name in names if name != reference and name in last.index]
    return f"Largest principal angle between planes at the last layer: {', '.join(found)}." if found else ""


def probing(tables: Tables, _: Mapping[str, Any]) -> Iterator[Section]:
    """What a linear reader finds: by layer, and at the last one in numbers, with what needs no encoder."""
    table = tables["probing"].rename(columns={"task": "figure", "score": "value", "control": "baseline"})
    table = table.assign(low=np.nan, high=np.nan)
    figures, last = [], table[table["layer"] == table.groupby("checkpoint")["layer"].transform("max")]
    for kind, called in KINDS.items():
        shown = table[table["vectors"] == kind]
        if shown["value"].notna().any():
            tasks = [one for one in TASKS if (shown["figure"] == one).any()]
            draw = partial(geometry_by_layer, shown, tasks, vectors=kind, titles=TASKS, beside="its control task")
            n = ", ".join(f"{one} {sizes(shown[shown['figure'] == one], 'n')}" for one in tasks)
            caption = f"Accuracy of a linear probe of {called}, sentences held out, by layer. n: {n}.{depths(shown)}"
            figures.append(Sketch(f"probing-{kind}", shown, draw, caption))
    for kind, own in tables["learning"].groupby("vectors", sort=False) if "learning" in tables else ():
        caption = f"The label's probe of {KINDS[str(kind)]} at the last layer, by the sentences that it is trained on."
        draw = partial(learning_curves, own.assign(arm=own["checkpoint"], seed=0), vectors=str(kind))
        figures.append(Sketch(f"learning-{kind}", own, draw, caption))
    twin = last[last["step"].isna()].set_index(["checkpoint", "vectors", "figure"])["value"]
    rows = [
        [
            *(TASKS.get(row["figure"], row["figure"]), row["vectors"], row["checkpoint"], row["value"]),
            twin.get((row["checkpoint"], row["vectors"], row["figure"])),
            *(row["chance"], row["baseline"], row["selectivity"], row["compression"], int(row["n"]), int(row["d"])),
        ]
        for _, row in last[last["step"].notna()].iterrows()
    ]
    columns = ("Task", "Of", "Checkpoint", "Accuracy", "Random twin", "Chance", "Control", "Selectivity", "Code")
    lead = (
        "A probe beside its twin, chance and a control task: labels permuted (sentences) or drawn for each word type. "
        "Code: how many times shorter the labels are written by whoever has the vectors."
    )
    probes = Numbers("What a linear probe reads at the last layer.", (*columns, "n", "d"), rows)
    yield Section("probing", "Probing", lead, figures, [probes, _baselines(tables["baselines"])])


def _baselines(table: pd.DataFrame) -> Numbers:
    rows = [
        [
            *(row["baseline"], TASKS.get(row["task"], row["task"]), row["checkpoint"]),
            *(row["score"], row["chance"], int(row["n"]), int(row["d"])),
        ]
        for _, row in table.iterrows()
    ]
    said = "The same folds without an encoder. TF-IDF counts in these sentences alone, for there is no training split."
    return Numbers(said, ("Baseline", "Task", "Checkpoint", "Accuracy", "Chance", "n", "d"), rows)


def attention(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """What heads look at: means of layers with their range over heads, and head by head."""
    table = tables["attention"]
    long = table.melt(["checkpoint", "step", "layer", "head", "n"], list(SUMMARIES), "figure")
    long = long.assign(value=long["value"].astype(float), step=long["step"].astype(float))
    by = ["checkpoint", "step", "layer", "figure"]
    shown = long.groupby(by, sort=False, dropna=False)["value"].agg(["mean", "min", "max"]).reset_index()
    shown = shown.set_axis([*by, "value", "low", "high"], axis=1)
    shown = shown.assign(vectors="attention", baseline=np.nan, degenerate=False)
    there = [one for one in SUMMARIES if shown.loc[shown["figure"] == one, "value"].notna().any()]
    draw = partial(geometry_by_layer, shown, there, vectors="attention", titles=LABELS)
    caption = (
        f"Attention by layer: mean over heads, band from the least to the greatest. n = {sizes(table, 'n')} sentences."
        f"{depths(table)}"
    )
    figures = [Sketch("attention", shown, draw, caption)]
    for place, (checkpoint, own) in enumerate(table.groupby("checkpoint", sort=False)):
        for summary in MAPS:
            panels = [
                (
                    called,
                    part.assign(**{summary: part[summary].astype(float)}).pivot(
                        index="layer", columns="head", values=summary
                    ),
                )
                for called, part in (
                    (str(checkpoint), own[own["step"].notna()]),
                    ("its twin with random weights", own[own["step"].isna()]),
                )
            ]
            caption = f"{checkpoint}, head by head: {LABELS[summary][0].lower()}{LABELS[summary][1:]}."
            draw = partial(head_maps, panels, summary, high=1.0)
            figures.append(Sketch(f"heads-{summary}-{place}", own, draw, caption))
    lead = (
        "In a causal model a token sees only those before it: entropy is below 1 even where attention is uniform, and "
        "the first token has a share from the start. The twin shows how much."
        if facts["causal"]
        else ""
    )
    yield Section("attention", "Attention", lead, figures)


def depths(table: pd.DataFrame) -> str:
    """What the axis of depth means, where checkpoints differ in it; nothing where they have as many layers."""
    layers = table.groupby("checkpoint", sort=False)["layer"].max()
    if layers.nunique() < 2:
        return ""
    return f" Depth 1 is the last layer: {', '.join(f'{one} {layer}' for one, layer in layers.items())}."


def sizes(table: pd.DataFrame, column: str) -> str:
    """Numbers of points or dimensions: `500 and 731`."""
    return " and ".join(f"{one:,}" for one in sorted(table[column].unique()))
