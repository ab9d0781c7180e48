"""View: are two models' spaces less alike than two seeds of one model?"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.style import ARM_COLOURS, INK, WIDTH, layer_tick, legend_below, look, style, tiles
from isoscope.platform.statistics.paired import Interval, Verdict
from isoscope.studies.findings import Difference
from isoscope.studies.spaces.similarity_maps import CALLED, CKA, WHOLE
from isoscope.studies.view import View

NUMBERS = ("low", "high", "detectable")
LESS, MORE = "o", "s"
"""Markers of layers at which two models are less alike, and more alike, than two seeds of one model."""


@style()
def apart(table: pd.DataFrame) -> Figure:
    """Draw a panel per measure: similarity by layer, of two seeds of a model and of two models, a colour per pair."""
    measures = list(dict.fromkeys(table["measure"]))
    pairs = list(dict.fromkeys(zip(table["model"], table["other_model"], strict=True)))
    figure, panels = tiles(len(measures), 3, (WIDTH, 1.7, 0.5), across="Layer", sharex=True)
    for axes, measure in zip(panels, measures, strict=True):
        axes.set_title(CALLED[measure], fontsize=8.5)
        for place, (one, other) in enumerate(pairs):
            rows = table[
                (table["measure"] == measure) & (table["model"] == one) & (table["other_model"] == other)
            ].sort_values("layer")
            at = rows["layer"].to_numpy(float)
            axes.plot(at, rows["between"], **look(place))
            axes.plot(at, rows["within"], color=ARM_COLOURS[place % len(ARM_COLOURS)], linestyle=":", linewidth=1.1)
            holds, less = (rows["word"] == "holds").to_numpy(), (rows["difference"] > 0).to_numpy()
            for chosen, marker in ((holds & less, LESS), (holds & ~less, MORE)):
                axes.plot(
                    at[chosen], rows["between"].to_numpy(float)[chosen], linestyle="", marker=marker, markersize=8,
                    markerfacecolor="none", markeredgecolor=INK,
                )  # fmt: skip
        layers = sorted(set(table["layer"]))
        axes.set_xticks(layers, [*map(layer_tick, layers)])
    handles = [Line2D([], [], label=f"{one} × {other}", **look(place)) for place, (one, other) in enumerate(pairs)]
    handles += [
        Line2D([], [], color=INK, linestyle=":", label="two seeds of a model, mean of both"),
        *(
            Line2D([], [], color=INK, linestyle="", marker=marker, markerfacecolor="none", markersize=8, label=label)
            for marker, label in ((LESS, "holds: less alike"), (MORE, "holds: more alike"))
        ),
    ]
    legend_below(figure, handles, columns=3)
    return figure


def _caption(table: pd.DataFrame) -> str:
    counts = table["word"].value_counts()
    words = ", ".join(f"{word} {count}" for word, count in counts.items())
    return (
        "Similarity of layers of equal number, as (value − null)/(1 − null): of two models at different seeds, next to "
        "two seeds of one model (the ceiling). Verdicts (p by Holm over the layers of a pair and measure, intervals "
        f"over seeds and sentences; held-out CCA: given its fitted directions), {len(table)} in all: {words}. "
        f"n = {int(table['n'].min())} seeds."
    )


def _findings(table: pd.DataFrame) -> Iterator[Difference]:
    """Yield the verdict by CKA on the last layer that both models have; none on words without their form's mean."""
    if table["of"].iloc[0] not in WHOLE:
        return
    of_cka = table[table["measure"] == CKA]
    for (one, other), pair in of_cka.groupby(["model", "other_model"], sort=False):
        last = pair.loc[pair["layer"].idxmax()]
        low, high, detectable = (None if pd.isna(last[name]) else float(last[name]) for name in NUMBERS)
        interval = None if low is None or high is None else Interval(low, high)
        yield Difference(
            f"CKA at layer {last['layer']} as (value − null)/(1 − null)",
            f"{one} and {other} ({last['between']:.2f})",
            f"two seeds of one model ({last['within']:.2f})",
            Verdict(str(last["word"]), str(last["reason"])),
            -float(last["difference"]),
            interval and Interval(-interval.high, -interval.low),
            int(last["n"]),
            detectable,
        )


def _rows(table: pd.DataFrame) -> tuple[pd.DataFrame, ...]:
    numbered = table.assign(number=pd.factorize(table["of"])[0]) if len(table) else table.assign(number=np.nan)
    return (numbered,)


VIEWS = (
    View(
        name="told_apart",
        needs=("told_apart",),
        rows=_rows,
        by="number",
        draw=apart,
        caption=_caption,
        findings=_findings,
    ),
)
