"""Draw what decides the profiles of the runs of several studies: objective or data."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.platform.figures.style import ARM_COLOURS, ARM_MARKERS, INK, WIDTH, legend_below, multiples, style
from isoscope.studies.dynamics.allocated_runs import floats
from isoscope.studies.dynamics.notes import joined
from isoscope.studies.dynamics.objective_or_data import DISTANCES
from isoscope.studies.findings import Untested
from isoscope.studies.view import View

CALLED = {"all": "All objectives", "masked and causal": "Masked and causal alone"}


@style()
def shares_of_variance(shares: pd.DataFrame, left_out: pd.DataFrame) -> Figure:
    """Draw the share of each source, with its interval: a panel per choice of objectives, a marker per distance."""
    sources = list(dict.fromkeys(shares["source"]))
    figure, panels = _panels(shares, 0.9 + 0.32 * len(sources), "Share of the variance of the profiles")
    for objectives, axes in panels.items():
        for place, distance in enumerate(DISTANCES):
            own = shares[(shares["objectives"] == objectives) & (shares["distance"] == distance)]
            at = [sources.index(source) + 0.24 * place - 0.12 for source in own["source"]]
            values, low, high = (floats(own[name]) for name in ("share", "low", "high"))
            axes.hlines(at, low, high, color=ARM_COLOURS[place], linewidth=2)
            axes.plot(values, at, color=ARM_COLOURS[place], marker=ARM_MARKERS[place], linestyle="")
        _rows(axes, sources)
    legend_below(figure, [_mark(place, distance) for place, distance in enumerate(DISTANCES)], columns=2)
    return figure


@style()
def told_apart(told: pd.DataFrame, left_out: pd.DataFrame) -> Figure:
    """Draw the classifier's accuracy next to chance: a row per told factor and left-out factor."""
    labels = list(dict.fromkeys(map(_told_label, told.itertuples())))
    figure, panels = _panels(told, 0.9 + 0.32 * len(labels), "Accuracy")
    for objectives, axes in panels.items():
        own = told[told["objectives"] == objectives]
        at = [labels.index(_told_label(row)) for row in own.itertuples()]
        axes.plot(floats(own["chance"]), at, color=INK, marker="|", markersize=10, linestyle="")
        axes.plot(floats(own["accuracy"]), at, color=ARM_COLOURS[0], marker="o", linestyle="")
        _rows(axes, labels)
    chance = Line2D([], [], color=INK, marker="|", markersize=10, linestyle="", label="chance")
    legend_below(figure, [_mark(0, "accuracy"), chance], columns=2)
    return figure


def _panels(table: pd.DataFrame, height: float, across: str) -> tuple[Figure, dict[str, Axes]]:
    """Return a figure with a panel per choice of objectives, from 0 to 1."""
    titles = {name: CALLED[name] for name in dict.fromkeys(table["objectives"])}
    figure, panels = multiples({"": ""}, titles, (WIDTH, height), across=across, grid="x", sharey=True)
    for axes in panels.values():
        axes.set_xlim(-0.02, 1.02)
    return figure, {name: axes for (_, name), axes in panels.items()}


def _rows(axes: Axes, names: list[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.5, -0.5)


def _mark(place: int, label: str) -> Line2D:
    return Line2D([], [], color=ARM_COLOURS[place], marker=ARM_MARKERS[place], linestyle="", label=label)


def _told_label(row: Any) -> str:
    return f"{row.told} ({row.left_out} left out)"


def _shares_caption(shares: pd.DataFrame, left_out: pd.DataFrame) -> str:
    return joined(
        "Which part of the variance of the runs' profiles does each source explain? A profile: the allocation by "
        "component and half of the depth. Condition: task and number of training examples. Interaction: what objective "
        "and condition explain only together. Seed: runs that differ in nothing else. Data: tasks of equal size. Size: "
        "number of examples of one task. Shares by permutation MANOVA, markers by distance.",
        "Intervals: jackknife over seeds. They cover other seeds, not other data."
        if shares["low"].notna().any()
        else "Below three seeds there is no interval.",
        "Shares and p describe these data conditions. They do not decide which matters more in other data.",
        _n(shares),
        _incomplete(shares.iloc[0]),
        _chances(shares, "source", "hellinger"),
        _left_out(left_out),
    )


def _sources(shares: pd.DataFrame, left_out: pd.DataFrame) -> Iterator[Untested]:
    """Yield each source's share of the variance, by choice of objectives, for the first distance."""
    for objectives, rows in shares[shares["distance"] == next(iter(DISTANCES))].groupby("objectives", sort=False):
        of = f"Share of the variance of the profiles, {CALLED[str(objectives)].lower()}"
        yield Untested(of, dict(zip(rows["source"], rows["share"], strict=True)), int(rows["runs"].max()), "run")


def _incomplete(first: pd.Series) -> str:
    if first["cells"] == first["of"]:
        return ""
    without = f"{first['cells']} of {first['of']} combinations of objective and condition have runs"
    return f"{without}, so that a share is what a source adds to the others, and shares need not sum to 1."


def _chances(table: pd.DataFrame, named: str, distance: str | None = None) -> str:
    """Return p by Holm of the first choice of objectives (and of a distance), and the number of tests."""
    own = table[table["objectives"] == table["objectives"].iloc[0]]
    own = own[own["distance"] == distance] if distance else own
    found = {str(row[named]): row["p_holm"] for _, row in own.iterrows() if pd.notna(row["p_holm"])}
    if not found:
        return "A p needs several runs per combination of levels."
    which = f", {distance}" if distance else ""
    shown = ", ".join(f"{name} {p:.3g}" for name, p in found.items())
    choice = CALLED[str(own["objectives"].iloc[0])].lower()
    return f"p by permutation, by Holm over {table['p'].notna().sum()} tests ({choice}{which}): {shown}."


def _told_caption(told: pd.DataFrame, left_out: pd.DataFrame) -> str:
    return joined(
        "Can the objective of a run be told from its profile, in data that the classifier has not seen? A row: what is "
        "told. In brackets: the factor whose levels are left out of training, in turn. Classifier: nearest class mean "
        "of standardised profiles. Chance: mean accuracy with classes permuted within the left-out groups.",
        _n(told),
        _chances(told.assign(row=[_told_label(row) for row in told.itertuples()]), "row"),
        _left_out(left_out),
    )


def _n(table: pd.DataFrame) -> str:
    counts = table.drop_duplicates("objectives").set_index("objectives")["runs"]
    return f"n = {', '.join(f'{n} runs ({CALLED[str(name)].lower()})' for name, n in counts.items())}."


def _left_out(left_out: pd.DataFrame) -> str:
    return f"Not trained, so left out: {', '.join(left_out['runs'])}." if len(left_out) else ""


VIEWS = (
    View("shares_of_variance", ("shares", "left_out"), shares_of_variance, _shares_caption, findings=_sources),
    View("told_apart", ("told", "left_out"), told_apart, _told_caption),
)
