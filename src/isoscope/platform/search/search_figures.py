"""Figures of a search: the forms of all figures, over the tables of its trials.

optuna.visualization.matplotlib draws through pyplot's global state, in colours that a dark page hides, and leaves out
trials that lack a conditional parameter.
"""

from collections.abc import Iterator, Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator
from optuna.study import Study, StudyDirection
from optuna.trial import TrialState

from isoscope.platform.config.declared import title
from isoscope.platform.config.tree import as_text
from isoscope.platform.figures.form import where
from isoscope.platform.figures.interval_form import Intervals
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.style import INK, SHAPES, to_svg, wrapped
from isoscope.platform.search.outcomes import ALL, architectures, ran, saved_by_pruning
from isoscope.platform.search.study import IDENTITY, REPORTS
from isoscope.platform.search.trials_table import reported, trials_table

BROKEN = "breaks a constraint"
STEP, SEEDS = "Step: epochs, seed after seed", "Seeds"
_LINEAR = ("linear", "linear")


def trial_rows(study: Study, chosen: int | None) -> pd.DataFrame:
    """Return `trials_table` with the architecture of each trial, and whether it is the `chosen` trial."""
    table, axis = trials_table(study), f"param/{study.user_attrs.get('axis')}"
    group = table[axis].fillna(ALL).astype(object) if axis in table else ALL
    return table.assign(architecture=group, chosen=table["number"] == chosen)


def objectives_of(study: Study) -> dict[str, str]:
    """Return column of `trials_table` → title, of each objective."""
    return {f"objective/{name}": title(name) for name in study.metric_names or ()}


def shown_points(study: Study, trials: pd.DataFrame) -> pd.DataFrame:
    """Return the complete trials with finite values: `series` is their architecture, unless they break a constraint."""
    finite = np.isfinite(trials[[*objectives_of(study)]]).all(axis=1)
    points = trials[finite & (trials["state"] == TrialState.COMPLETE.name)]
    return points.assign(series=points["architecture"].where(points["feasible"], BROKEN))


def counted(study: Study, counts: pd.Series) -> dict[str, str]:
    """Return architecture → its name with the number of trials, in the order of the choices."""
    return {name: f"{name}, n = {counts[name]}" for name in architectures(study) if name in counts}


def panels(study: Study, parts: Mapping[str, pd.DataFrame], *labels: str) -> Figure:
    """Draw complete trials at their x and y, a panel per part; the chosen trial has a ring."""
    rows = pd.concat([part.assign(panel=name) for name, part in parts.items()], ignore_index=True)
    called = objectives_of(study) | counted(study, rows.drop_duplicates("number")["series"].value_counts())
    x, y = labels
    figure = Scatter(x="x", y="y", series="series", columns="panel", labels=(x, y), names=called)(rows)
    ring: dict[str, Any] = {"linestyle": "", "marker": "o", "markersize": 10, "markerfacecolor": "none", "color": INK}
    for axes, part in zip(figure.axes, parts.values(), strict=False):
        chosen = part[part["chosen"]]
        axes.plot(chosen["x"], chosen["y"], gid="chosen", **ring)
    return figure


def history(study: Study, points: pd.DataFrame) -> Figure:
    """Draw a panel per objective: each complete trial's value by its number, and the best feasible value so far."""
    parts = {name: points.assign(x=points["number"], y=points[name]) for name in objectives_of(study)}
    figure = panels(study, parts, "Trial", "")
    for axes, part, direction in zip(figure.axes, parts.values(), study.directions, strict=False):
        allowed = part[part["feasible"]]
        best = allowed["y"].cummax() if direction == StudyDirection.MAXIMIZE else allowed["y"].cummin()
        axes.step(allowed["x"], best, where="post", color=INK, linewidth=1, gid="best so far")
    return figure


def front(study: Study, points: pd.DataFrame, x: str, y: str) -> Figure:
    """Draw complete trials by two objectives, and the front, which is a line if there are no others."""
    labels = {
        name: f"{wrapped(text, 2.0, size=8)}\n({'more' if one == StudyDirection.MAXIMIZE else 'less'} is better)"
        for (name, text), one in zip(objectives_of(study).items(), study.directions, strict=True)
    }
    part = points.assign(x=points[x], y=points[y])
    figure, best = panels(study, {"": part}, labels[x], labels[y]), part[part["on_front"]].sort_values(["x", "y"])
    axes, line = figure.axes[0], "-" if len(labels) == 2 else ""
    axes.plot(best["x"], best["y"], color=INK, marker=".", markersize=3, linewidth=1, linestyle=line, gid="front")
    target: dict[str, Any] = {"marker": "o", "linestyle": "", "markersize": 7, "alpha": 0, "zorder": 4}
    trials = zip(part["number"], part["x"], part["y"], strict=True)
    for number, across, up in trials if len(part) <= SHAPES else ():  # a page says there what the trial is
        axes.plot([across], [up], gid=f"trial:{number}", **target)
    return figure


def slices(study: Study, points: pd.DataFrame, objective: str) -> Figure | None:
    """Draw a panel per parameter with several values: the objective by its value, over the trials that have it.

    Each panel has an axis of its own: numbers, numbers on a logarithmic scale, or choices.
    """
    trials = study.get_trials(deepcopy=False)
    known: dict[str, Any] = {name: one for trial in trials for name, one in trial.distributions.items()}
    parts, choices = dict[str, pd.DataFrame](), dict[str, list[str]]()
    for name in [one for one in known if points[f"param/{one}"].nunique() > 1]:
        own = points.dropna(subset=f"param/{name}")
        at = own[f"param/{name}"]
        if not pd.api.types.is_numeric_dtype(at):
            choices[name] = [one for one in map(as_text, known[name].choices) if one in set(at)]
            at = at.map(choices[name].index)
        parts[name] = own.assign(x=np.asarray(at, dtype=float), y=own[objective])
    if not parts:
        return None
    figure = panels(study, parts, "", wrapped(objectives_of(study)[objective], 2.0, size=8))
    for axes, (name, part) in zip(figure.axes, parts.items(), strict=False):
        if name in choices:
            axes.set_xticks(range(len(choices[name])), [wrapped(one, 0.9, size=7, lines=1) for one in choices[name]])
        elif getattr(known[name], "log", False):
            axes.set_xscale("log")
            narrow = part["x"].max() < 30 * part["x"].min()
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if narrow else (1,), numticks=5))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter("")
        else:
            axes.locator_params(axis="x", nbins=4)
    return figure


def importance(study: Study, importances: pd.DataFrame) -> Figure:
    """Draw parameter importances with intervals: a column per architecture, a row per objective."""
    called = counted(study, importances.groupby("architecture")["trials"].first())
    called |= {name: title(name) for name in study.metric_names or ()}
    size = importances.groupby("parameter")["importance"].transform("mean")
    rows = importances.assign(size=size).sort_values("size", ascending=False, kind="stable")
    return Intervals(
        x="importance",
        y="parameter",
        rows="objective",
        columns="architecture",
        labels=("Share of variance", ""),
        limits=(-0.02, 1.02),
        names=called,
    )(rows)


def intermediate(study: Study, trials: pd.DataFrame) -> Figure | None:
    """Draw what each trial reported by step; rings at the end of pruned trials and of the chosen trial.

    A gap is a step whose value was not finite.
    """
    rows = reported(study).merge(trials[["number", "architecture", "chosen"]], on="number")
    rows["value"] = rows["value"].where(np.isfinite(rows["value"]))
    last = rows.dropna(subset="value").groupby("number")["step"].max()
    if last.empty:
        return None
    end = rows["step"] == rows["number"].map(last)
    pruned = where(end & (rows["state"] == TrialState.PRUNED.name), "pruned")
    (label,) = objectives_of(study).values()
    form = Curves(
        x="step",
        y="value",
        series="architecture",
        thin="number",
        labels=(SEEDS if REPORTS in study.user_attrs.get(IDENTITY, {}) else STEP, wrapped(label, 2.0, size=8)),
        scales=_LINEAR,
        names=counted(study, trials.loc[trials["number"].isin(last.index), "architecture"].value_counts()),
    )
    return form(rows.assign(mark=pruned.mask(end & rows["chosen"], "best trial")))


def pruning(study: Study) -> Figure:
    """Draw the number of complete and pruned trials that ran each step; the area above the line is what was saved."""
    found, trials = saved_by_pruning(study), ran(study)
    steps = range(1, trials["full"].max() + 1)
    left, whole = ([int((trials[of] >= step).sum()) for step in steps] for of in ("run", "full"))
    note = f"saved: {found.full - found.run:,} of {found.full:,} steps, {found.share:.0%}"
    about = {"what": "complete and pruned trials", "note": note}
    rows = pd.DataFrame({"step": steps, "trials": left, "low": left, "high": whole}).assign(**about)
    labels = (STEP, "Trials that ran it")
    return Curves(x="step", y="trials", series="what", labels=labels, scales=_LINEAR)(rows)


def figures(study: Study, importances: pd.DataFrame, chosen: int | None) -> Iterator[tuple[str, Figure | None]]:
    """Yield the name of every figure with data, and the figure."""
    trials, objectives = trial_rows(study, chosen), [*objectives_of(study)]
    if len(points := shown_points(study, trials)):
        yield "history", history(study, points)
        for place, (x, y) in enumerate(combinations(objectives, 2), start=1):
            yield _numbered("front", place), front(study, points, x, y)
        if len(importances):
            yield "importances", importance(study, importances)
        for place, objective in enumerate(objectives, start=1):
            yield _numbered("slice", place), slices(study, points, objective)
    if len(objectives) == 1:
        yield "intermediate", intermediate(study, trials)
    if (found := saved_by_pruning(study)).pruned and found.full:
        yield "pruning", pruning(study)


def _numbered(name: str, place: int) -> str:
    return name if place == 1 else f"{name}-{place}"


def pictures(
    study: Study, importances: pd.DataFrame, *, chosen: int | None, metadata: Mapping[str, str] | None = None
) -> list[tuple[str, str]]:
    """Return (name, SVG) of every figure with data, in order. Equal studies give equal bytes.

    - `chosen`: number of the trial to mark, best or suggested; None marks none.
    - `importances`: columns architecture, objective, parameter, importance, low, high, trials.
    - `metadata`: as for `to_svg`.
    """
    drawn = figures(study, importances, chosen)
    return [(name, to_svg(figure, metadata)) for name, figure in drawn if figure is not None]
