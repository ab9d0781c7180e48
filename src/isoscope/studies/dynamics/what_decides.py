"""The comparison `objective_or_data`: what decides the profiles of the runs of several studies, as tables and views."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from isoscope.errors import InputError
from isoscope.figures.style import ARM_COLOURS, ARM_MARKERS, INK, WIDTH, legend_below, multiples, style
from isoscope.studies.dynamics.allocated_runs import ALLOCATED, allocated_runs, floats
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.notes import joined
from isoscope.studies.dynamics.objective_or_data import DISTANCES, objective_or_data
from isoscope.studies.dynamics.profiles import profiles
from isoscope.studies.view import View

FILES = ALLOCATED
CALLED = {"all": "All objectives", "masked and causal": "Masked and causal alone"}


def tables(studies: Mapping[str, Any], *, confidence: float, permutations: int) -> dict[str, pd.DataFrame]:
    """Return the tables `profiles`, `shares`, `told` and `left_out` (see `objective_or_data`) of several studies.

    `studies`: name → its runs. Raises `InputError` for a study without an allocation, and as `objective_or_data`.
    """
    found = {}
    for name, study in studies.items():
        runs = allocated_runs(study.arms)
        if not runs:
            raise InputError(f"study {name!r}: no run has an allocation; give it settings: [allocated]")
        found[name] = profiles(runs, study.manifest, words(learned(runs, study.manifest)))
    decided = objective_or_data(found, confidence=confidence, permutations=permutations)
    every = pd.concat([table.assign(study=name) for name, table in found.items()], ignore_index=True)
    left_out = pd.DataFrame({"runs": list(decided.left_out)}, dtype=object)
    return {"profiles": every, "shares": decided.shares, "told": decided.told, "left_out": left_out}


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
    labels = list(dict.fromkeys(f"{row.told}, new {row.left_out}" for row in told.itertuples()))
    figure, panels = _panels(told, 0.9 + 0.32 * len(labels), "Accuracy")
    for objectives, axes in panels.items():
        own = told[told["objectives"] == objectives]
        at = [labels.index(f"{row.told}, new {row.left_out}") for row in own.itertuples()]
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


def _shares_caption(shares: pd.DataFrame, left_out: pd.DataFrame) -> str:
    intervals = "Intervals: jackknife over seeds; they cover other seeds, not other data."
    return joined(
        "Does the objective or the data decide which parts lower the loss? Share of the variance of the runs' profiles "
        "(allocation by component and half of the depth) by permutation MANOVA. Condition: task and number of training "
        "examples; interaction: what objective and condition explain only together; seed: between runs that differ in "
        "nothing else. Data and size are the condition's parts: data at equal size, size of equal data.",
        intervals if shares["low"].notna().any() else "Below three seeds there is no interval.",
        _n(shares),
        f"p by permutation, not corrected: {_ps(shares)}." if _ps(shares) else "No p without several seeds.",
        _left_out(left_out),
    )


def _ps(shares: pd.DataFrame) -> str:
    """Return the p of each factor over all objectives, with Hellinger's distance."""
    own = shares[(shares["objectives"] == shares["objectives"].iloc[0]) & (shares["distance"] == "hellinger")]
    return ", ".join(f"{row.source} {row.p:.3g}" for row in own.itertuples() if row.p is not None and row.p == row.p)


def _told_caption(told: pd.DataFrame, left_out: pd.DataFrame) -> str:
    return joined(
        "Can the objective of a run be told from its profile, in data that the classifier has not seen? Nearest class "
        "mean of standardised profiles. A row: what is told, and which factor's levels are left out one at a time. "
        "Chance: mean accuracy with classes permuted within the left-out groups.",
        _n(told),
        _left_out(left_out),
    )


def _n(table: pd.DataFrame) -> str:
    counts = table.drop_duplicates("objectives").set_index("objectives")["runs"]
    return f"n = {', '.join(f'{n} runs ({CALLED[str(name)].lower()})' for name, n in counts.items())}."


def _left_out(left_out: pd.DataFrame) -> str:
    return f"Not trained, so left out: {', '.join(left_out['runs'])}." if len(left_out) else ""


VIEWS = (
    View("shares_of_variance", ("shares", "left_out"), shares_of_variance, _shares_caption),
    View("told_apart", ("told", "left_out"), told_apart, _told_caption),
)
