"""Shared parts of a search's figures: trials by architecture, scales of parameters, points and their legend."""

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from optuna.distributions import CategoricalDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial

from isoscope.platform.config.declared import title as title_of
from isoscope.platform.figures.style import INK, SHAPES, WIDTH, legend_below, legend_inches, look, wrapped
from isoscope.platform.search.outcomes import ALL, architecture, architectures, feasible, front
from isoscope.platform.search.trials_table import shown

PALE = 0.3
"""Opacity of trials that break a constraint."""
COLUMNS = 3
"""Panels per row."""
RING: dict[str, Any] = {
    "linestyle": "",
    "marker": "o",
    "markersize": 10,
    "markerfacecolor": "none",
    "markeredgecolor": INK,
    "markeredgewidth": 1.2,
}
"""Style of the mark around the chosen trial."""


class Searched:
    """What figures need from a search: objectives, trials by architecture, front.

    `objectives`: (name, whether more is better). `groups`: architecture → complete trials with finite values;
    `complete`: all of them, by number. `chosen`: number of the trial to mark, called `word`.
    """

    def __init__(self, study: Study, *, chosen: int | None) -> None:
        more = [one == StudyDirection.MAXIMIZE for one in study.directions]
        self.study, self.trials, self.chosen = study, study.get_trials(deepcopy=False), chosen
        self.axis = study.user_attrs.get("axis")
        self.objectives = list(zip(study.metric_names or (), more, strict=True))
        self.groups = {
            name: [trial for trial in trials if all(map(math.isfinite, trial.values))]
            for name, trials in architectures(study).items()
        }
        known = {trial.number for trials in self.groups.values() for trial in trials}
        self.complete = [trial for trial in self.trials if trial.number in known]
        self.front = [trial for trial in front(study) if trial.number in known]
        self.word = "best trial" if len(more) == 1 else "suggested trial"

    def group(self, trial: FrozenTrial) -> str | None:
        """Return a trial's architecture; None if the trial has not drawn it."""
        return architecture(trial, self.axis)

    def look(self, group: str | None) -> dict[str, Any]:
        """Return `color` and `marker` of an architecture."""
        return look([*self.groups].index(str(group)))


def varied(trials: Sequence[FrozenTrial]) -> list[str]:
    """Return parameters with several values among these trials, in order of appearance; a trial may lack some."""
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    return [name for name in names if len({shown(one.params[name]) for one in trials if name in one.params}) > 1]


def along(axes: Axes, name: str, trials: Sequence[FrozenTrial]) -> list[float]:
    """Set the x-axis to a parameter that all `trials` have; return their positions.

    Numbers are as they are, choices at 0, 1, … with labels; categorical in any trial: categorical in all.
    """
    values, kinds = [trial.params[name] for trial in trials], [trial.distributions[name] for trial in trials]
    axis = axes.xaxis
    axis.set_label_text(wrapped(name, WIDTH / COLUMNS - 0.4, size=7.5), fontsize=7.5)
    if any(isinstance(kind, CategoricalDistribution) for kind in kinds):
        texts = [shown(value) for value in values]
        choices = [shown(choice) for kind in kinds for choice in getattr(kind, "choices", ())]
        labels = [choice for choice in dict.fromkeys(choices + sorted(texts)) if choice in texts]
        axis.set_ticks(range(len(labels)), [wrapped(one, 0.9, size=7, lines=1) for one in labels])
        axes.set_xlim(-0.5, len(labels) - 0.5)
        return [float(labels.index(text)) for text in texts]
    if all(getattr(kind, "log", False) for kind in kinds):
        axes.set_xscale("log")
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(values) < 30 * min(values) else (1,), numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # matplotlib's own is mathtext
        axis.set_minor_locator(NullLocator())
    else:
        axis.set_major_locator(MaxNLocator(4))
    return [float(value) for value in values]


def dots(axes: Axes, view: Searched, trials: Sequence[FrozenTrial], x: Sequence[float], y: Sequence[float]) -> None:
    """Draw a point per trial in its architecture's colour; pale if it breaks a constraint; a ring around the chosen.

    Architectures are drawn in the same order in all panels of a search.
    """
    points = list(zip(trials, x, y, strict=True))
    for name in view.groups:
        for allowed in (False, True):
            at = [(x, y) for trial, x, y in points if view.group(trial) == name and feasible(trial) == allowed]
            if at:
                mark: dict[str, Any] = {"linestyle": "", "markersize": 4, "markeredgewidth": 0, **view.look(name)}
                mark |= {"alpha": 0.9, "gid": "feasible"} if allowed else {"alpha": PALE, "gid": "infeasible"}
                axes.plot(*zip(*at, strict=True), rasterized=len(trials) > SHAPES, **mark)
    for trial, across, up in points:
        if trial.number == view.chosen:
            axes.plot([across], [up], gid="chosen", **RING)


def handles(view: Searched, trials: Sequence[FrozenTrial], *, lines: bool = False) -> list[Line2D]:
    """Return legend entries: architectures with their number of trials, pale points, and the marked trial.

    With `lines`, the marked trial is a thick line, and there is no entry for pale points.
    """
    found: list[Line2D] = []
    for name in view.groups:
        count = sum(view.group(trial) == name for trial in trials)
        if count:
            label = wrapped(f"{'trials' if name == ALL else name}, n = {count}", 2.2, size=7.5)
            kind: dict[str, Any] = {"linewidth": 0.9, "marker": ""} if lines else {"linestyle": ""}
            found.append(Line2D([], [], label=label, **view.look(name) | kind))
    if not lines and not all(map(feasible, trials)):
        found.append(Line2D([], [], linestyle="", color=INK, marker="o", alpha=PALE, label="breaks a constraint"))
    if any(trial.number == view.chosen for trial in trials):
        kind = {"color": INK, "linewidth": 2.6} if lines else RING
        found.append(Line2D([], [], label=f"{view.word}, number {view.chosen}", **kind))
    return found


def sheet(panels: int, below: Sequence[Line2D], *, height: float = 2.1) -> tuple[Figure, list[Axes]]:
    """Return a figure with `panels` panels in rows of `COLUMNS` and a legend below; fewer panels are wider."""
    columns = min(panels, COLUMNS)
    rows = -(-panels // columns)
    size = (WIDTH, height * rows + 0.3 + (legend_inches(below, 3) if below else 0))
    drawing = Figure(figsize=size, layout="constrained")
    every = list(drawing.subplots(rows, columns, squeeze=False).ravel())
    for axes in every:
        axes.tick_params(labelsize=7)
        axes.grid(visible=True)
    for axes in every[panels:]:
        axes.set_visible(False)
    if below:
        legend_below(drawing, list(below), columns=3)
    return drawing, every[:panels]


def called(name: str) -> str:
    """Return an objective's axis label."""
    return wrapped(title_of(name), 2.2, size=8, lines=3)
