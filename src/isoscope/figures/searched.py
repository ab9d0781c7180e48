"""Shared parts of a search's figures: trials by architecture, scales of parameters, points and their legend."""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator
from optuna.distributions import CategoricalDistribution
from optuna.study import Study, StudyDirection
from optuna.trial import FrozenTrial, TrialState

from isoscope.figures.style import INK, SHAPES, WIDTH, legend_below, legend_inches, look, wrapped

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
Measure = Callable[[FrozenTrial], float]


class Searched(NamedTuple):
    """What figures need from a search: objectives, trials, front.

    `objectives`: (name, whether more is better). `groups`: architecture → complete trials with finite values; without
    an axis the only architecture is "". `chosen`: number of the trial to mark.
    """

    objectives: list[tuple[str, bool]]
    trials: list[FrozenTrial]
    groups: dict[str, list[FrozenTrial]]
    front: set[int]
    axis: str | None
    steps: int
    chosen: int | None

    @property
    def complete(self) -> list[FrozenTrial]:
        """Complete trials of all architectures, by number."""
        return sorted((trial for trials in self.groups.values() for trial in trials), key=lambda trial: trial.number)

    @property
    def word(self) -> str:
        """What the marked trial is called: best, or suggested from a front."""
        return "best trial" if len(self.objectives) == 1 else "suggested trial"

    def look(self, trial: FrozenTrial) -> dict[str, Any]:
        """Return `color` and `marker` of a trial's architecture."""
        return look(list(self.groups).index(_architecture(trial, self.axis) or ""))

    def known(self, trial: FrozenTrial) -> bool:
        """Whether a trial has drawn its architecture."""
        return _architecture(trial, self.axis) in self.groups


class Scale(NamedTuple):
    """Positions of a parameter's values on an axis: numbers as they are, choices at 0, 1, … with labels."""

    place: Measure
    log: bool
    labels: list[str]


def searched(study: Study, *, chosen: int | None) -> Searched:
    """Collect what the figures need from a study."""
    several = len(study.directions) > 1
    names = study.metric_names or [f"objective_{k + 1}" if several else "objective" for k in range(10)]
    more = [one == StudyDirection.MAXIMIZE for one in study.directions]
    axis = study.user_attrs.get("axis")
    groups: dict[str, list[FrozenTrial]] = {"": []} if axis is None else {}
    for trial in study.trials:
        for choice in getattr(trial.distributions.get(str(axis)), "choices", ()):
            groups.setdefault(text(choice), [])
        architecture = _architecture(trial, axis)
        if trial.state == TrialState.COMPLETE and architecture is not None and all(map(math.isfinite, trial.values)):
            groups.setdefault(architecture, []).append(trial)
    steps = study.user_attrs.get("steps") or max((len(one.intermediate_values) for one in study.trials), default=0)
    front = {trial.number for trial in study.best_trials}
    return Searched(list(zip(names, more, strict=False)), study.trials, groups, front, axis, steps, chosen)


def feasible(trial: FrozenTrial) -> bool:
    """Whether a trial breaks no constraint."""
    return all(value <= 0 for value in trial.constraints.values())


def text(choice: Any) -> str:
    """Return a choice as a label."""
    return choice if isinstance(choice, str) else json.dumps(choice)


def varied(trials: Sequence[FrozenTrial]) -> list[str]:
    """Return parameters with several values among these trials, in order of appearance; a trial may lack some."""
    names = dict.fromkeys(name for trial in trials for name in trial.params)
    return [name for name in names if len({text(one.params[name]) for one in trials if name in one.params}) > 1]


def scale(name: str, trials: Sequence[FrozenTrial]) -> Scale:
    """Return the scale of a parameter that all `trials` have; categorical in any trial: categorical in all."""
    if not any(isinstance(trial.distributions[name], CategoricalDistribution) for trial in trials):
        log = all(getattr(trial.distributions[name], "log", False) for trial in trials)
        return Scale(lambda trial: float(trial.params[name]), log, [])
    choices = [choice for trial in trials for choice in getattr(trial.distributions[name], "choices", ())]
    seen = {text(trial.params[name]) for trial in trials}
    labels = [one for one in dict.fromkeys(text(one) for one in choices) if one in seen]
    labels += sorted(seen - set(labels))
    return Scale(lambda trial: float(labels.index(text(trial.params[name]))), False, labels)


def set_scale(axes: Axes, found: Scale, label: str, inches: float) -> None:
    """Set scale, ticks and label of the x-axis for a parameter, after its points are drawn."""
    axis = axes.xaxis
    if found.log:
        axes.set_xscale("log")
        low, high = axis.get_data_interval()
        axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 30 * low else (1,), numticks=5))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))  # matplotlib's own is mathtext
        axis.set_minor_locator(NullLocator())
    elif found.labels:
        axis.set_ticks(range(len(found.labels)), [wrapped(one, 0.9, size=7, lines=1) for one in found.labels])
        axes.set_xlim(-0.5, len(found.labels) - 0.5)
    else:
        axis.set_major_locator(MaxNLocator(4))
    axis.set_label_text(wrapped(label, inches, size=7.5), fontsize=7.5)


def dots(axes: Axes, view: Searched, trials: Sequence[FrozenTrial], x: Measure, y: Measure) -> None:
    """Draw a point per trial in its architecture's colour; pale if it breaks a constraint; a ring around the chosen.

    Architectures are drawn in the same order in all panels of a search.
    """
    many = len(trials) > SHAPES
    for name in view.groups:
        for allowed in (False, True):
            shown = [trial for trial in trials if _of(trial, view, name) and feasible(trial) == allowed]
            if shown:
                mark: dict[str, Any] = {"linestyle": "", "markersize": 4, "markeredgewidth": 0, **view.look(shown[0])}
                mark |= {"alpha": 0.9, "gid": "feasible"} if allowed else {"alpha": PALE, "gid": "infeasible"}
                axes.plot([x(trial) for trial in shown], [y(trial) for trial in shown], rasterized=many, **mark)
    for trial in trials:
        if trial.number == view.chosen:
            axes.plot([x(trial)], [y(trial)], gid="chosen", **RING)


def handles(view: Searched, trials: Sequence[FrozenTrial], *, lines: bool = False) -> list[Line2D]:
    """Return legend entries: architectures with their number of trials, pale points, and the marked trial.

    With `lines`, the marked trial is a thick line, and there is no entry for pale points.
    """
    found: list[Line2D] = []
    for name in view.groups:
        shown = [trial for trial in trials if _of(trial, view, name)]
        if shown:
            label = wrapped(f"{name or 'trials'}, n = {len(shown)}", 2.2, size=7.5)
            kind: dict[str, Any] = {"linewidth": 0.9, "marker": ""} if lines else {"linestyle": ""}
            found.append(Line2D([], [], label=label, **view.look(shown[0]) | kind))
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
    return name.replace("_", " ")


def _architecture(trial: FrozenTrial, axis: str | None) -> str | None:
    """Return the trial's value of the axis; "" if the search has no axis; None if the trial has not drawn it."""
    if axis is None:
        return ""
    return text(trial.params[axis]) if axis in trial.params else None


def _of(trial: FrozenTrial, view: Searched, name: str) -> bool:
    return _architecture(trial, view.axis) == name
