"""Sections of the page of `isoscope geometry` on the embedding block, its spectrum, and persistence diagrams."""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd

from isoscope.report.geometry_sections import KINDS, Numbers, Section, Sketch, Tables
from isoscope.report.numbers import score
from isoscope.studies.views.dimensions import hidden_dimensions
from isoscope.studies.views.evidence import embedding_evidence
from isoscope.studies.views.magnitudes import frequency_magnitudes
from isoscope.studies.views.persistence import barcodes, persistence_diagrams
from isoscope.studies.views.rank_views import singular_spectra
from isoscope.studies.views.tokens import PARTS, cosine_maps, cosine_summary

ORDER = ("word", "fused", "normed")
"""Parts of the block: the last of these that there is leaves it."""
SHOWN = 8
"""Outlying dimensions of a checkpoint that are named."""


def embedding(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """Cosines of tokens, hidden dimensions, and what neighbours and linear maps know of word and position."""
    figures = []
    for place, (checkpoint, own) in enumerate(tables["token_cosines"].groupby("checkpoint", sort=False)):
        panels = [
            (called, part.pivot(index="one", columns="other", values="cosine").to_numpy())
            for called, part in (
                (str(checkpoint), own[own["step"].notna()]),
                ("its twin with random weights", own[own["step"].isna()]),
            )
        ]
        draw = partial(cosine_maps, panels, tokens=facts["pieces"][checkpoint])
        caption = f"{checkpoint}: cosines of tokens that leave the embedding block, colours from −1 to 1."
        figures.append(Sketch(f"cosine_maps-{place}", own, draw, caption))
    cosines = tables["cosines"]
    caption = "Mean cosine of two tokens of different sentences, by kind of pair, in each part of the embedding block."
    figures.append(Sketch("cosines", cosines, partial(cosine_summary, cosines), caption))
    dimensions = tables["dimensions"]
    caption = "Values over the hidden dimensions of tokens that leave the block; outlying dimensions by number."
    figures.append(Sketch("dimensions", dimensions, partial(hidden_dimensions, dimensions), caption))
    if {"neighbours", "decoding"} <= tables.keys():
        pair = [_leaving(tables[name]) for name in ("neighbours", "decoding")]
        caption = (
            "Whose neighbours tokens are in the full space, in other sentences, and what a linear map reads back of "
            "word and position, beside chance."
        )
        figures.append(Sketch("evidence", pd.concat(pair), partial(embedding_evidence, *pair), caption))
    yield Section("embedding", "Embedding block", "", figures, [_pairs(cosines), _outliers(dimensions)])


def _leaving(table: pd.DataFrame) -> pd.DataFrame:
    """Rows of what leaves each checkpoint's block, under one name."""
    rank = table["part"].map({part: place for place, part in enumerate(ORDER)})
    return table[rank == rank.groupby(table["checkpoint"]).transform("max")].assign(part="normed")


def _pairs(cosines: pd.DataFrame) -> Numbers:
    rows = []
    for (checkpoint, part, pairs), own in cosines.groupby(["checkpoint", "part", "pairs"], sort=False):
        trained, twin = own[own["step"].notna()], own[own["step"].isna()]
        found = [one["cosine"].iloc[0] if len(one) else None for one in (trained, twin)]
        rows.append([checkpoint, PARTS[part], pairs, *found, int(trained["n"].iloc[0])])
    columns = ("Checkpoint", "Part", "Pairs", "Mean cosine", "Random twin", "n (pairs)")
    return Numbers("Mean cosines of tokens of different sentences.", columns, rows)


def _outliers(dimensions: pd.DataFrame) -> Numbers:
    rows = []
    for (checkpoint, snapshot), own in dimensions.groupby(["checkpoint", "snapshot"], sort=False):
        far = own[own["outlier"].astype(bool)]
        middle = own["mean"].median()
        far = far.assign(far=(far["mean"] - middle).abs()).nlargest(SHOWN, "far")
        named = ", ".join(f"{int(row['dimension'])} ({score(row['mean'])})" for _, row in far.iterrows())
        who = checkpoint if own["step"].notna().all() else f"{checkpoint}, {snapshot}"
        kurtosis = float(own["kurtosis"].median())
        rows.append([who, int(own["outlier"].sum()), named or "none", kurtosis, int(own["n"].iloc[0]), len(own)])
    columns = ("Checkpoint", "Outliers", "Farthest (mean)", "Median kurtosis", "n", "d")
    said = "Hidden dimensions whose mean or sd is more than 6 median absolute deviations (scaled to an sd) off."
    return Numbers(said, columns, rows)


def spectrum(tables: Tables, facts: Mapping[str, Any]) -> Iterator[Section]:
    """Singular values of sentences' vectors, and Fourier spectra of the embedding block along the hidden index."""
    figures: list[Sketch] = []
    numbers: list[Numbers] = []
    positioned: set[str] = set()
    lead = ""
    for kind, own in tables["singular_values"].groupby("vectors", sort=False):
        caption = f"Singular values of {KINDS[str(kind)]} over the largest one, by layer."
        figures.append(Sketch(f"singular-{kind}", own, partial(singular_spectra, own, vectors=str(kind)), caption))
    if "spectrum" in tables:
        table, magnitudes = tables["spectrum"], tables["magnitudes"]
        positioned = set(table.loc[table["part"] == "position", "checkpoint"])
        lead = "A spectrum along the hidden index means something only where permuting the hidden axes changes it. "
        caption = (
            "Magnitude by frequency along the hidden index, over a mean of 1, of each part of the embedding block."
        )
        figures.append(Sketch("magnitudes", magnitudes, partial(frequency_magnitudes, magnitudes), caption))
        numbers.append(_flatness(table))
    if lacking := [name for name in facts["checkpoints"] if name not in positioned]:
        lead += f"{', '.join(lacking)}: no table of positions (none, or rotary or relative ones), so nothing is fused."
    yield Section("spectrum", "Spectrum", lead, figures, numbers)


def _flatness(spectrum: pd.DataFrame) -> Numbers:
    rows = [
        [
            *(row["checkpoint"] if row["best"] else f"{row['checkpoint']}, random", PARTS[row["part"]]),
            *(row[name] for name in ("flatness", "flatness_permuted", "dead", "dead_permuted")),
            *(int(row["n"]), int(row["d"])),
        ]
        for _, row in spectrum.iterrows()
    ]
    columns = ("Checkpoint", "Part", "Flatness", "permuted", "Near-dead", "permuted", "n", "d")
    return Numbers(
        "Spectral flatness and share of near-dead frequencies, and both with hidden axes permuted.", columns, rows
    )


def topology(tables: Tables, _: Mapping[str, Any]) -> Iterator[Section]:
    """Persistence diagrams and barcodes of H0 and H1 at the last layer."""
    figures = []
    for kind, own in tables["bars"].groupby("vectors", sort=False):
        for name, draw, called in (
            ("diagrams", persistence_diagrams, "Persistence diagrams"),
            ("barcodes", barcodes, "The longest bars"),
        ):
            caption = f"{called} of {KINDS[str(kind)]} at the last layer, clouds scaled to equal size."
            figures.append(Sketch(f"{name}-{kind}", own, partial(draw, own), caption))
    distances = tables["distances"]
    rows = [
        [row["checkpoint"], row["vectors"], f"H{row['degree']}", row["bottleneck"], row["wasserstein"], int(row["n"])]
        for _, row in distances[distances["moment"] == "random"].iterrows()
    ]
    columns = ("Checkpoint", "Of", "Degree", "Bottleneck", "1-Wasserstein", "n")
    numbers = [Numbers("Distance of a checkpoint's diagrams to its random twin's.", columns, rows)] if rows else []
    yield Section("topology", "Persistence", "", figures, numbers)
