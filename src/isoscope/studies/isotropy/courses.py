"""Draw arms over training: curves of any metrics, and the trade-off between a task's metric and anisotropy."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from isoscope.platform.config.declared import metrics_of, natural, title
from isoscope.platform.figures.snapshots import EVERY, arms_of, banded, common, keys, line_and_band
from isoscope.platform.figures.style import WIDTH, arm_name, legend_below, legend_inches, look, style, tiles, wrapped
from isoscope.studies.findings import Untested
from isoscope.studies.view import Table, View

PANELS = 3
"""Panels per row."""


def titled(*metrics: str) -> dict[str, str]:
    """Return metric → title."""
    own = metrics_of("classification")
    return {metric: title(metric, own) for metric in metrics}


TASK_METRICS = titled(*(f"validation/{name}" for name in metrics_of("classification") if name != "loss"))
ANISOTROPY_METRICS = titled(
    "step/a_1", "step/a_2", "step/a_3", "step/a_1_centred", "step/a_2_centred", "step/a_3_centred"
)
TRADED = titled("validation/a_1", "validation/a_1_centred")
EXPLAINED_METRICS = titled(
    "validation/a_1_centred",
    "validation/a_1_within",
    "validation/a_1_clustered",
    "validation/a_1_clustered_null",
    "validation/between_share",
    "validation/normal_cosine",
    "validation/normal_cosine_shuffled",
)
BARS_METRICS = titled("validation/bar_mean", "validation/bar_longest", "validation/bar_evenness", "validation/radius")
PENALTY_METRICS = titled("step/penalty", "step/penalty_gradient_norm", "step/loss")
POSTHOC = [
    f"posthoc/{laid}/{figure}"
    for laid in ("untouched", "all_but_the_top", "whitened")
    for figure in ("a_1", "a_1_centred", "ridge_accuracy", "ridge_matthews", "neighbour_accuracy", "neighbour_matthews")
]
UP = next(iter(TASK_METRICS))
"""The task's metric that anisotropy is traded against."""
FORCE = "step/penalty_gradient_norm"
PER_CLASS = {"entropy": "H of kept bars, class {}", "normalised": "H / ln k, class {}", "kept": "Kept bars, class {}"}


@style()
def course(curves: pd.DataFrame, figures: Mapping[str, str], *, across: str = "Update") -> Figure:
    """Draw a panel per metric in `figures` (name → label): a line per arm, mean over seeds by `step`, band ± 1 sd.

    `curves`: columns arm, seed, step, metric, value, as `studies.curves.thinned` returns them. Raises
    `ValueError` if none of the metrics was measured.
    """
    shown = {metric: label for metric, label in figures.items() if (curves["metric"] == metric).any()}
    if not shown:
        raise ValueError(f"none of these was measured: {', '.join(figures)}")
    arms = arms_of(curves)
    handles = keys(curves, 2.8)
    drawing, panels = tiles(len(shown), PANELS, (WIDTH, 2.0, 0.3, legend_inches(handles, 2)))
    for axes in drawing.axes[len(shown) :]:
        axes.set_visible(False)
    for axes, (metric, label) in zip(panels, shown.items(), strict=True):
        for index, arm in enumerate(arms):
            own = curves[(curves["metric"] == metric) & (curves["arm"] == arm)]
            line: dict[str, Any] = {
                "marks": 6,
                "linewidth": 1.2,
                "zorder": 3,
                "gid": arm_name(arm),
                "within": natural(metric),
            }
            banded(axes, common(own, "step"), "step", "value", **line, **look(index))
        axes.xaxis.set_major_locator(MaxNLocator(4, integer=True))
        axes.yaxis.set_major_locator(MaxNLocator(4))
        axes.set_title(wrapped(label, WIDTH / PANELS - 0.4, size=8, lines=3), fontsize=8)
        axes.set_xlabel(across, fontsize=8)
    for arm, handle in zip(arms, handles, strict=True):
        handle.set_gid(arm_name(arm))
    legend_below(drawing, handles, columns=2)
    return drawing


@style()
def trade(
    averages: pd.DataFrame, *, across: str, up: str, labels: tuple[str, str], weights: Mapping[str, tuple[str, float]]
) -> Figure:
    """Plot two averaged metrics against each other: small marks for runs, large marks (± 1 sd) for arm means.

    `averages`: columns arm, seed, figure, value. `across` (x) and `up` (y) are names of metrics; `labels` are those of
    the axes. `weights`: arm → family and weight. Arms of a family share a colour; a line connects their means, and
    each mean is labelled with its weight. Raises `ValueError` if one of the metrics was not measured.
    """
    wide = averages.pivot_table(index=["arm", "seed"], columns="figure", values="value", sort=False)
    if missing := [figure for figure in (across, up) if figure not in wide]:
        raise ValueError(f"none of these was measured: {', '.join(missing)}")
    runs = wide[[across, up]].dropna().reset_index()
    families: dict[str, list[str]] = {}
    for arm in arms_of(averages):
        families.setdefault(weights[arm][0], []).append(arm)
    handles = keys(averages.assign(arm=[weights[arm][0] for arm in averages["arm"]]), 2.8)
    drawing = Figure(figsize=(WIDTH * 0.7, 3.2 + legend_inches(handles, 2)), layout="constrained")
    axes = drawing.subplots()
    for index, arms in enumerate(families.values()):
        colour, marker = look(index).values()
        several = sorted(arms, key=lambda arm: weights[arm][1])
        means = runs.groupby("arm")[[across, up]].mean().reindex(several)
        if len(several) > 1:
            axes.plot(means[across], means[up], color=colour, linewidth=0.8, alpha=0.6)
        for arm in several:
            rows = runs[runs["arm"] == arm]
            axes.plot(rows[across], rows[up], linestyle="", marker=marker, markersize=3, color=colour, alpha=0.5)
            bars = dict(zip(("xerr", "yerr"), rows[[across, up]].std(), strict=True)) if len(rows) > 1 else {}
            at = (rows[across].mean(), rows[up].mean())
            axes.errorbar(*at, marker=marker, markersize=7, color=colour, elinewidth=1, **bars)
            if len(several) > 1:
                beside: dict[str, Any] = {"xytext": (4, 4), "textcoords": "offset points", "fontsize": 6.5}
                axes.annotate(f"{weights[arm][1]:g}", at, color=colour, **beside)
    axes.set_xlabel(labels[0], fontsize=8)
    axes.set_ylabel(labels[1], fontsize=8)
    axes.tick_params(labelsize=7)
    axes.grid(visible=True)
    legend_below(drawing, handles, columns=2)
    return drawing


def _with_classes(courses: pd.DataFrame) -> Mapping[str, str]:
    """Return the penalty's metrics and those of each class."""
    classes = courses.loc[courses["metric"].str.startswith("step/kept/class_"), "metric"].drop_duplicates()
    numbers = [metric.rpartition("_")[2] for metric in classes]
    per_class = {f"step/{name}/class_{k}": label.format(k) for k in numbers for name, label in PER_CLASS.items()}
    return PENALTY_METRICS | per_class


def _of_courses(name: str, names: Callable[[pd.DataFrame], Mapping[str, str]], caption: str) -> View:
    """Return the view of metrics; with any of them it has the whole table, so every arm keeps its colour."""
    return View(
        name=name,
        needs=("courses",),
        rows=lambda courses: (courses if courses["metric"].isin(names(courses)).any() else courses[:0],),
        draw=lambda courses: course(courses, names(courses)),
        caption=lambda courses: caption.format(line_and_band(courses)),
    )


def _traded(averages: pd.DataFrame, doses: pd.DataFrame) -> Table:
    there = [across for across in TRADED if across in set(averages["figure"])]
    parts = [averages.assign(across=across.rpartition("/")[2]) for across in there]
    return pd.concat([averages[:0].assign(across=""), *parts]), doses


def _trade(averages: pd.DataFrame, doses: pd.DataFrame) -> Figure:
    across = f"validation/{averages['across'].iloc[0]}"
    weights = {row.arm: (row.family, row.weight) for row in doses.itertuples()}
    return trade(averages, across=across, up=UP, labels=(TRADED[across], TASK_METRICS[UP]), weights=weights)


def _traded_values(averages: pd.DataFrame, doses: pd.DataFrame) -> Iterator[Untested]:
    """Yield the anisotropy that the figure shows and, beside a₁, the task's metric, by arm."""
    across = f"validation/{averages['across'].iloc[0]}"
    for figure in (across, *[UP] * (across == next(iter(TRADED)))):
        rows = averages[averages["figure"] == figure]
        if len(rows):
            yield Untested.of_seeds(f"{title(figure)}, at the end of training", rows)


def _by_fraction(averages: pd.DataFrame, doses: pd.DataFrame) -> Table:
    """Return the averages by share of the train split; no rows if all arms have the same share."""
    several, of = doses["fraction"].nunique() > 1, doses.set_index("arm")
    shares = averages.assign(
        arm=[of.loc[arm, "group"] for arm in averages["arm"]],
        step=[round(100 * of.loc[arm, "fraction"]) for arm in averages["arm"]],
        metric=averages["figure"],
    )
    return (shares if several else shares[:0],)


ANISOTROPY = _of_courses(
    "anisotropy",
    lambda _: ANISOTROPY_METRICS,
    "Does anisotropy grow during training? Shares of the largest directions of each batch's [CLS] vectors. {}. "
    + EVERY,
)
TASK = _of_courses(
    "task",
    lambda _: TASK_METRICS,
    "Task metrics on the whole validation split over training. {}. " + EVERY,
)
PENALTY = _of_courses(
    "penalty",
    _with_classes,
    "The penalty over training: its value, the norm of its gradient with respect to the points, the task loss, "
    "and for each class the selected bars. {}. " + EVERY,
)
EXPLAINED = _of_courses(
    "explained",
    lambda _: EXPLAINED_METRICS,
    "Do classes or clusters explain the share of the first direction? Measured on a fixed validation sample; compare "
    "each metric with its null (Gaussian noise, shuffled labels). " + EVERY,
)
BARS = _of_courses(
    "bars",
    lambda _: BARS_METRICS,
    "H0 bars within classes over training, on the same validation sample. {}. " + EVERY,
)
TRADE = View(
    name="trade",
    needs=("averages", "doses"),
    rows=_traded,
    by="across",
    draw=_trade,
    findings=_traded_values,
    caption="{}",
    called={
        "a_1": "Does a lower share of the first direction (a₁) cost accuracy? Validation accuracy against a₁. Small "
        "marks: runs; large marks: mean of an arm ± 1 sd, labelled with its weight where weights vary.",
        "a_1_centred": "Does a lower a₁, mean removed, cost accuracy? As in the plot above, with the mean removed.",
    },
)
FRACTIONS = View(
    name="fractions",
    needs=("averages", "doses"),
    rows=_by_fraction,
    draw=partial(course, figures=TASK_METRICS | TRADED, across="Share of the train split (%)"),
    caption="How much training data does each arm need? Metrics at the end of training by share of the train split. "
    "Line: mean over seeds; band: ± 1 sd.",
)
COMPARED = (*TASK_METRICS, *ANISOTROPY_METRICS, *EXPLAINED_METRICS, *BARS_METRICS, *PENALTY_METRICS, *POSTHOC)
"""Metrics in which arms are compared at the end of training."""
