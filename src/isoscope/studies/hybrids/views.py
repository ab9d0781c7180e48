"""Views of hybrids: their scores, how near their encoders are to the decoder's own, and both against each other."""

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.border import MARKED, mark_below
from isoscope.platform.figures.style import ARM_COLOURS, INK, WIDTH, legend_below, look, style, tiles
from isoscope.studies.findings import Untested
from isoscope.studies.hybrids.tables import MEASURES, NOT_TUNED, SCORES, TUNED
from isoscope.studies.view import View

CALLED = {NOT_TUNED: "as aligned", TUNED: "after updates on pairs"}
FILLED: dict[str, Any] = {NOT_TUNED: "none", TUNED: "full"}
WHEN: dict[str, Any] = {"before": "none", "after": "full"}
ROW = 0.3  # inches per start
LOWEST = dict.fromkeys(MEASURES, -0.25) | {"r2": -1.05}
"""Left end of each measure's axis."""


def _trainings(rows: pd.DataFrame) -> dict[str, Any]:
    """Return the fill of each training that there is."""
    return {training: fill for training, fill in FILLED.items() if (rows["training"] == training).any()}


def _row_labels(axes: Axes, labels: list[str]) -> None:
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)


@style()
def scores(table: pd.DataFrame, translated: pd.DataFrame) -> Figure:
    """Draw each score by start: a dot per seed, the mean over seeds and its interval; open: as aligned."""
    starts, shown = list(dict.fromkeys(table["start"])), _trainings(table)
    figure, panels = tiles(2, 2, (WIDTH, 0.9 + ROW * len(starts)), grid="x", ticks=8, sharey=True)
    for (score, title), axes in zip(SCORES.items(), panels, strict=True):
        for place, (training, fill) in enumerate(shown.items()):
            shift, colour = 0.36 * (place - (len(shown) - 1) / 2), ARM_COLOURS[place]
            for rows, own, marker in ((translated, "value", "."), (table, "mean", "D")):
                kept = rows[(rows["score"] == score) & (rows["training"] == training)]
                at = [starts.index(start) + shift for start in kept["start"]]
                axes.plot(kept[own], at, linestyle="", marker=marker, color=colour, fillstyle=fill, markersize=5)
            axes.hlines(at, kept["low"], kept["high"], color=colour, linewidth=1.5)
        axes.set_title(title, fontsize=8.5)
        axes.set_xlim(left=0)
        _row_labels(axes, starts)
    handles = [
        Line2D([], [], linestyle="", marker="D", color=ARM_COLOURS[place], fillstyle=fill, label=CALLED[training])
        for place, (training, fill) in enumerate(shown.items())
    ]
    legend_below(figure, handles, columns=2)
    return figure


@style()
def nearness(table: pd.DataFrame) -> Figure:
    """Draw each measure by start, before (open) and after the alignment, a dot per seed."""
    starts = list(dict.fromkeys(table["start"]))
    figure, panels = tiles(len(MEASURES), 4, (WIDTH, 0.7 + ROW * len(starts)), grid="x", ticks=7, sharey=True)
    for (measure, title), axes in zip(MEASURES.items(), panels, strict=True):
        for place, (when, fill) in enumerate(WHEN.items()):
            kept = table[(table["measure"] == measure) & (table["when"] == when)]
            at = [starts.index(start) for start in kept["start"]]
            mark = {"marker": "o", "color": ARM_COLOURS[place], "fillstyle": fill}
            axes.plot(kept["value"], at, linestyle="", markersize=4, **mark)
            mark_below(axes, LOWEST[measure], kept["value"], at, colour=ARM_COLOURS[place])
        axes.set_title(title, fontsize=8)
        axes.set_xlim(LOWEST[measure], 1.05)
        _row_labels(axes, starts)
    handles = [
        Line2D([], [], linestyle="", marker="o", color=ARM_COLOURS[place], fillstyle=fill, label=label)
        for place, (label, fill) in enumerate(
            zip(("before: without the map", "after the alignment"), WHEN.values(), strict=True)
        )
    ]
    legend_below(figure, handles, columns=2)
    return figure


@style()
def predictors(table: pd.DataFrame, near: pd.DataFrame, translated: pd.DataFrame) -> Figure:
    """Draw BLEU against each measure of the aligned start: a point per start and training, the mean over seeds."""
    starts = list(dict.fromkeys(near["start"]))
    figure, panels = tiles(len(MEASURES), 4, (WIDTH, 2.0), up="BLEU", sharey=True)
    values = near[near["when"] == "after"].groupby(["measure", "start"], sort=False)["value"].mean()
    bleu = translated[translated["score"] == "bleu"].groupby(["training", "start"], sort=False)["value"].mean()
    for (measure, title), axes in zip(MEASURES.items(), panels, strict=True):
        for (training, start), score in bleu.items():
            mark = look(starts.index(start)) | {"fillstyle": FILLED[training], "linestyle": ""}
            axes.plot([values[measure, start]], [score], **mark, markersize=5)
        own = table[table["measure"] == measure].set_index("training")["rho"]
        several = len(_trainings(translated)) > 1
        text = "\n".join(f"{CALLED[one]}: ".lower() * several + f"ρ {rho:+.2f}" for one, rho in own.items())
        text = text.replace("-", "−")
        axes.set_title(f"{title}\n{text}" if text else title, fontsize=7)
    handles = [Line2D([], [], linestyle="", label=start, **look(place)) for place, start in enumerate(starts)]
    fills = _trainings(translated)
    if len(fills) > 1:
        hollow: dict[str, Any] = {"linestyle": "", "marker": "o", "color": INK}
        handles += [Line2D([], [], **hollow, fillstyle=fill, label=CALLED[one]) for one, fill in fills.items()]
    legend_below(figure, handles, columns=5)
    return figure


def _scores_caption(table: pd.DataFrame, translated: pd.DataFrame) -> str:
    n, (first, *more) = int(table["n"].max()), _trainings(table)
    seeds = f"n = {n} seeds; lines: t intervals over seeds." if n > 2 else f"n = {n}, so no interval."
    alone = f"Each start is scored {'as it is' if first == NOT_TUNED else 'after updates on pairs'}"
    shown = "Open: the start as it is; filled: after updates on pairs" if more else alone
    itself = " itself: the decoder's own encoder." if (table["start"] == "itself").any() else ""
    return (
        f"Corpus BLEU and chrF of translations of the test split, by what the decoder reads. {shown}. "
        f"Dots: seeds; diamonds: their mean. {seeds}{itself}"
    )


def _nearness_caption(table: pd.DataFrame) -> str:
    cut = f" {MARKED}" * bool((table["value"] < [LOWEST[measure] for measure in table["measure"]]).any())
    return (
        "How near the states of each encoder are to those of the decoder's own encoder, before (without the map that "
        "the decoder reads through) and after the alignment, for "
        f"{int(table['n'].max()):,} tokens of as many test sentences, a dot per seed. Retrieval: the own target is the "
        f"nearest of all; chance is {1 / table['n'].max():.4f}.{cut}"
    )


def _predictors_caption(table: pd.DataFrame, near: pd.DataFrame, translated: pd.DataFrame) -> str:
    rows = table.dropna(subset=["rho"])
    tests = ", ".join(
        f"{MEASURES[row.measure]} {row.training} p {row.p_holm:.3f}" for row in rows.itertuples() if row.p_holm < 0.05
    )
    n = int(table["n"].max()) if len(table) else 0
    least = 2 / math.factorial(n)
    found = f"Below .05 after Holm's correction for {len(rows)} tests: {tests or 'none'}."
    if len(rows) and least * len(rows) >= 0.05:
        corrected = f", and {min(1.0, least * len(rows)):.2g} after Holm's correction for {len(rows)} tests"
        found = f"With n = {n}, p is at least 2/{n}! = {least:.2g}{corrected}: none can be below .05."
    if (near["start"] == "itself").any():
        found += " The start itself is the decoder's own encoder: its nearness is about 1 by definition."
    return (
        "BLEU against measures of nearness of the aligned start. A point is the mean over seeds of a start. ρ: "
        f"Spearman's rank correlation over n = {n} starts, p from permutations; none where all are equal. Starts of "
        f"several kinds (rotated, mapped, trained) differ in their kind, too: compare starts of a kind. {found}"
    )


def _bleu(table: pd.DataFrame, translated: pd.DataFrame) -> Iterator[Untested]:
    """Yield BLEU by start, as aligned and trained on."""
    for training, rows in table[table["score"] == "bleu"].groupby("training", sort=False):
        when = "as aligned, without updates on pairs" if training == NOT_TUNED else "after updates on pairs"
        means = dict(zip(rows["start"], rows["mean"], strict=True))
        own = translated[(translated["score"] == "bleu") & (translated["training"] == training)]
        sds = own.groupby("start")["value"].std().to_dict()
        yield Untested(f"BLEU by start, {when}", means, int(rows["n"].min()), sds=sds)


VIEWS = (
    View(
        "hybrid_scores",
        ("scores", "translated"),
        scores,
        _scores_caption,
        findings=_bleu,
        remakes="Vázquez et al. 2021, BLEU before and after alignment",
    ),
    View("hybrid_nearness", ("nearness",), nearness, _nearness_caption),
    View("hybrid_predictors", ("predictors", "nearness", "translated"), predictors, _predictors_caption),
)
