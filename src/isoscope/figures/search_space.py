"""Draw a search over its space: the objective by each parameter, over the trials that have it."""

from matplotlib.figure import Figure

from isoscope.figures.searched import COLUMNS, Measure, Searched, called, dots, handles, scale, set_scale, sheet, varied
from isoscope.figures.style import WIDTH, style


def slices(view: Searched, objective: int) -> Figure | None:
    """Draw a panel per parameter with several values: the objective by its value, over the trials that have it."""
    trials = view.complete
    names = varied(trials)
    if not names:
        return None
    with style():
        drawing, panels = sheet(len(names), handles(view, trials))
        for axes, name in zip(panels, names, strict=True):
            having = [trial for trial in trials if name in trial.params]
            found = scale(name, having)
            dots(axes, view, having, found.place, _value(objective))
            set_scale(axes, "x", found, name, WIDTH / COLUMNS - 0.4)
            axes.sharey(panels[0])
        for axes in panels[::COLUMNS]:
            axes.set_ylabel(called(view.objectives[objective][0]), fontsize=8)
    return drawing


def _value(objective: int) -> Measure:
    return lambda trial: float(trial.values[objective])
