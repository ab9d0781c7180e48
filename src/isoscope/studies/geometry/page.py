"""What a page of checkpoints says about their geometry: each beside its random-weights control, and noise."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from isoscope.base.view import Tables
from isoscope.platform.config.declared import title
from isoscope.platform.results.checkpoint_text import CheckpointText, number
from isoscope.studies.geometry.checkpoint_views import KINDS, LAST_LAYER, sizes
from isoscope.studies.geometry.views import TITLES, beside_twin, last_layer

LEADS = {
    "probing": "Compare a probe with the same probe of the random-weights control, with chance and with a control "
    "task. The control task's labels are permuted (sentences) or drawn at random per word type. Code: compression of "
    "the labels given the vectors.",
    "attention": "In a causal model a token attends only to itself and earlier tokens. So entropy is below 1 even if "
    "attention is uniform, and the first token always has a share. The random-weights control shows how much.",
    "spaces": "Every layer of one checkpoint against every layer of another, on the same words. Compare with random "
    "weights. isoscope spaces makes the same figures with other samples and options.",
}
"""What a reader should know before the figures of a section; that of `attention` for causal models."""


def completed(tables: Tables, facts: Mapping[str, Any]) -> dict[str, pd.DataFrame]:
    """Return the tables with what views need from the page's manifest: alignment, classes, texts of tokens."""
    found = dict(tables)
    if "frames" in found:
        found["frames"] = found["frames"].assign(alignment=facts["settings"]["alignment"])
    pieces = [(name, text) for name, texts in facts.get("pieces", {}).items() for text in texts]
    return {
        **found,
        "classes": pd.DataFrame({"name": facts.get("classes", [])}),
        "pieces": pd.DataFrame(pieces, columns=["checkpoint", "text"]),
    }


def text(tables: Tables, facts: Mapping[str, Any]) -> CheckpointText:
    """Return what the page says beside its figures. `facts`: its manifest."""
    leads = LEADS | {"planes": _of_planes(tables), "spectrum": _of_spectrum(tables, facts)}
    if not facts["causal"]:
        del leads["attention"]
    data = {"summary": summary(tables), "shown": {name: title(name) for name in LAST_LAYER}}
    return CheckpointText(
        {TITLES[key]: said for key, said in leads.items()},
        [*_notes(tables["geometry"])] if "geometry" in tables else [],
        data,
    )


def _of_planes(tables: Tables) -> str:
    apart = "frames" in tables and tables["frames"].groupby("vectors")["group"].nunique().max() > 1
    said = " Checkpoints of another width or depth cannot be aligned: compare them only within a shape."
    return f"Each dot is a sentence.{said * bool(apart)}"


def _of_spectrum(tables: Tables, facts: Mapping[str, Any]) -> str:
    spectrum = tables.get("spectrum")
    positioned = set() if spectrum is None else {*spectrum.loc[spectrum["part"] == "position", "checkpoint"]}
    models = [name for name in facts["checkpoints"] if name not in facts.get("vectors", {})]
    lacking = ", ".join(name for name in models if name not in positioned)
    said = "A spectrum along the hidden index is meaningful only if permuting the hidden axes changes it. "
    why = f"{lacking}: no position table (rotary, relative or no positions), so there is no fusion."
    return said * (spectrum is not None) + why * bool(lacking)


def _notes(table: pd.DataFrame) -> Iterator[str]:
    """Yield the limits of the results: too few points, missing measures, shared vectors."""
    points = table.groupby(["checkpoint", "vectors"])["n"].transform("max")  # smaller n: subsamples
    few = table[points < table["d"]].assign(n=points)
    for checkpoint, part in few.groupby("checkpoint", sort=False):
        yield (
            f"{checkpoint}: {sizes(part, 'n')} points in {sizes(part, 'd')} dimensions "
            f"({', '.join(part['vectors'].unique())}). "
            "A spectrum has at most as many values as points. Compare it with noise at the same n and d."
        )
    lacking = table[table["note"].notna() & ~table["degenerate"]]
    for (checkpoint, measure, note), part in lacking.groupby(["checkpoint", "measure", "note"], sort=False):
        yield f"{checkpoint}, {', '.join(part['vectors'].unique())}: no {measure}: {note}."
    shared = table[table["degenerate"]].groupby(["checkpoint", "vectors", "note"], sort=False)["layer"].unique()
    for (checkpoint, vectors, note), layers in shared.items():
        shown = ", ".join(map(str, sorted(layers)))
        yield f"{checkpoint}, {vectors}, layer {shown}: {note}, so nothing is measured there."


def summary(tables: Tables) -> list[dict[str, Any]]:
    """Return a row per checkpoint and kind of sentence vector at the last layer.

    Keys: checkpoint, vectors, layer, n, d, and per metric its value, the random-weights control's and that of isotropic
    noise (None: no number). Metrics that were not measured are left out. No metric measured: no rows.
    """
    if "geometry" not in tables:
        return []
    table = tables["geometry"]
    table = last_layer(table[(table["vectors"] != "words") & table["metric"].isin(LAST_LAYER)])
    found = []
    beside = beside_twin(table, "vectors", "metric").rename(columns={"baseline": "noise"})
    for (checkpoint, vectors), own in beside.groupby(["checkpoint", "vectors"], sort=False):
        row = {"checkpoint": checkpoint, "vectors": vectors, "called": KINDS[str(vectors)]}
        row |= {name: int(own[name].iloc[0]) for name in ("layer", "n", "d")}
        metrics = own.set_index("metric")[["value", "twin", "noise"]].to_dict("index")
        shown = [one for one in LAST_LAYER if one in metrics]
        found.append(row | {one: {name: number(value) for name, value in metrics[one].items()} for one in shown})
    return found
