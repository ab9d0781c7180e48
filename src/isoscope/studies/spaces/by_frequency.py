"""View: how much alike the vectors of one form are, by the form's frequency and by layer."""

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isoscope.figures.style import WIDTH, layer_tick, legend_below, look, style, tiles
from isoscope.studies.view import Table, View

CLASSES = 4
"""Classes of frequency, of about as many forms each."""


@style()
def by_frequency(table: pd.DataFrame) -> Figure:
    """Draw a panel per model: SelfSim − AvgSim by layer, a line per class of frequency, with two standard errors."""
    models, classes = (list(dict.fromkeys(table[name])) for name in ("model", "class"))
    figure, panels = tiles(len(models), 3, (WIDTH, 1.7, 0.5), across="Layer", sharey=True)
    for axes, model in zip(panels, models, strict=True):
        axes.set_title(model, fontsize=8.5)
        for place, name in enumerate(classes):
            own = table[(table["model"] == model) & (table["class"] == name)].sort_values("layer")
            line = axes.plot(own["layer"], own["mean"], markersize=3.5, **look(place))[0]
            low, high = (own["mean"] + sign * 2 * own["error"] for sign in (-1, 1))
            axes.fill_between(own["layer"], low, high, color=line.get_color(), alpha=0.16, linewidth=0)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.xaxis.set_major_formatter(layer_tick)
    lines = panels[0].get_lines()
    for line, name in zip(lines, classes, strict=True):
        line.set_label(name)
    legend_below(figure, lines, columns=2)
    return figure


def _rows(words: pd.DataFrame, measures: pd.DataFrame) -> Table:
    """Return mean and standard error over forms by model, layer and class; without training data, by occurrences."""
    average = measures[measures["measure"] == "avg_sim"].set_index(["space", "layer"])["value"]
    shown = words[~words["twin"]].join(average.rename("average"), on=["space", "layer"])
    if shown.empty:
        return (shown.assign(**{"class": None, "mean": None, "error": None, "n": None}),)
    counted = "frequency" if (shown["frequency"] >= 0).all() else "occurrences"
    by_form = shown.drop_duplicates("form").set_index("form")[counted]
    ranks = by_form.rank(method="average", pct=True)  # equal counts are one class
    cut = np.ceil(ranks * CLASSES).astype(int)
    kind = "in the training split" if counted == "frequency" else "in this text"
    names = {
        one: f"{int(own.min())} to {int(own.max())} times {kind} (n = {len(own)})" for one, own in by_form.groupby(cut)
    }
    shown = shown.assign(corrected=shown["self_sim"] - shown["average"], **{"class": shown["form"].map(cut.map(names))})
    shown["class"] = pd.Categorical(shown["class"], list(names.values()))
    of_forms = shown.groupby(["model", "layer", "class", "form"], observed=True)["corrected"].mean()  # over seeds
    grouped = of_forms.groupby(["model", "layer", "class"], observed=True)
    return (grouped.agg(mean="mean", error="sem", n="size").reset_index().astype({"class": str}),)


VIEWS = (
    View(
        name="self_sim_by_frequency",
        needs=("words", "contextuality"),
        rows=_rows,
        draw=by_frequency,
        caption="SelfSim − AvgSim by layer and by how often a form occurs; bands: two standard errors over forms. "
        "Layer w: the word table alone.",
    ),
)
