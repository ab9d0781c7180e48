"""Views of a study of penalties: curves over training, and the trade-off between a task's metric and anisotropy."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pandas as pd

from isoscope.base.view import Table, View, under
from isoscope.platform.config.declared import metrics_of, title, with_target
from isoscope.platform.figures.form import in_order
from isoscope.platform.figures.line_form import Curves
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.figures.snapshots import EVERY, common, line_and_band, with_range
from isoscope.platform.statistics.findings import Untested
from isoscope.studies import transformed

CLASSES = 8
"""Up to this number of classes, each has its panels; of more, those with most bars kept have."""


def titled(*metrics: str) -> dict[str, str]:
    """Return metric → title."""
    return {metric: title(metric, _OF_TASKS) for metric in metrics}


_OF_TASKS = {name: one for entry in with_target() for name, one in metrics_of(entry.name).items() if name != "loss"}
TASK_METRICS = titled(*(f"validation/{name}" for name in _OF_TASKS))
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
    f"posthoc/{laid}/{metric}"
    for laid in ("untouched", "all_but_the_top", "whitened")
    for metric in ("a_1", "a_1_centred", "ridge_accuracy", "ridge_matthews", "neighbour_accuracy", "neighbour_matthews")
]
FORCE = "step/penalty_gradient_norm"
PER_CLASS = {"entropy": "H of kept bars", "normalised": "H / ln k", "kept": "Kept bars"}


def course(curves: pd.DataFrame, metrics: Callable[[pd.DataFrame], Mapping[str, str]]) -> pd.DataFrame:
    """Return the rows of these metrics at updates that every seed of their arm has, with the metric's range.

    Every arm has a row, so that it has the same colour in all figures.
    """
    shown = metrics(curves)
    own = curves[curves["metric"].isin(shown)]
    every = curves.drop_duplicates("arm").assign(metric=own["metric"].iloc[0], value=float("nan"), seed=float("nan"))
    table = pd.concat([every, *(common(rows, "step") for _, rows in own.groupby("metric", sort=False))])
    return in_order(with_range(table.assign(title=table["metric"].map(shown)), "metric"), "metric", shown)


def _form(metrics: Callable[[pd.DataFrame], Mapping[str, str]], across: str = "Update") -> Curves:
    return Curves(
        points=partial(course, metrics=metrics),
        x="step",
        y="value",
        columns="title",
        labels=(across, ""),
        scales=("linear", "linear"),
    )


def _with_classes(courses: pd.DataFrame) -> Mapping[str, str]:
    """Return the penalty's metrics and those of its classes, the `CLASSES` with most kept bars."""
    kept = courses[courses["metric"].str.startswith("step/kept/class_")]
    largest = set(kept.groupby("metric")["value"].mean().nlargest(CLASSES).index)
    numbers = [metric.rpartition("_")[2] for metric in kept["metric"].drop_duplicates() if metric in largest]
    of = {k: f", class {k}" if kept["metric"].nunique() > 1 else "" for k in numbers}
    per_class = {f"step/{name}/class_{k}": label + of[k] for k in numbers for name, label in PER_CLASS.items()}
    return PENALTY_METRICS | per_class


def _of_courses(
    name: str,
    names: Callable[[pd.DataFrame], Mapping[str, str]],
    caption: str,
    remakes: str | None = None,
    **words: tuple[str, str],
) -> View:
    """Return the view of metrics; with any of them it has the whole table, so every arm keeps its colour.

    - `remakes`: the published figure of studies with a persistent-entropy penalty.
    - `words`: name in the caption → its text for a task with classes, and for another.
    """

    def said(courses: pd.DataFrame) -> str:
        of_classes = courses["metric"].isin(["validation/between_share", "step/kept/class_1"])
        without = not of_classes.any()
        return caption.format(line_and_band(courses), **{place: texts[without] for place, texts in words.items()})

    return View(
        name=name,
        needs=("courses",),
        rows=lambda courses: (courses if courses["metric"].isin(names(courses)).any() else courses[:0],),
        form=_form(names),
        caption=said,
        remakes=remakes and partial(_of_entropy, remakes),
    )


def _of_entropy(remakes: str, courses: pd.DataFrame) -> str | None:
    """Return the published figure, if an arm has the published penalty; no other penalty selects bars."""
    return remakes if courses["metric"].str.startswith("step/kept/").any() else None


def _traded(averages: pd.DataFrame, doses: pd.DataFrame) -> Table:
    there = [across for across in TRADED if across in set(averages["metric"])]
    parts = [averages.assign(across=across.rpartition("/")[2]) for across in there]
    return pd.concat([averages[:0].assign(across=""), *parts]), doses


def task_metric(averages: pd.DataFrame) -> str:
    """Return the task's metric that anisotropy is traded against: the first that was measured."""
    there = {*averages["metric"]}
    return next((one for one in TASK_METRICS if one in there), next(iter(TASK_METRICS)))


def trade(averages: pd.DataFrame, doses: pd.DataFrame) -> pd.DataFrame:
    """Return a row per run: its task metric and its anisotropy, with its family and weight."""
    across, up = f"validation/{averages['across'].iloc[0]}", task_metric(averages)
    wide = averages.pivot_table(index=["arm", "seed"], columns="metric", values="value", sort=False)
    if missing := [metric for metric in (across, up) if metric not in wide]:
        raise ValueError(f"none of these was measured: {', '.join(missing)}")
    runs = wide[[across, up]].dropna().reset_index().merge(doses[["arm", "family", "weight"]], on="arm")
    runs = runs.rename(columns={across: "across", up: "up"})
    runs = runs.assign(text=runs["weight"].map("{:g}".format), panel=f"{TASK_METRICS[up]}, against {TRADED[across]}")
    return in_order(runs.sort_values("weight", kind="stable"), "family", runs["family"].unique())


def _traded_values(averages: pd.DataFrame, doses: pd.DataFrame) -> Iterator[Untested]:
    """Yield the anisotropy that the figure shows and, beside a₁, the task's metric, by arm."""
    across = f"validation/{averages['across'].iloc[0]}"
    for metric in (across, *[task_metric(averages)] * (across == next(iter(TRADED)))):
        rows = averages[averages["metric"] == metric]
        if len(rows):
            yield Untested.of_seeds(f"{title(metric)}, at the end of training", rows)


def _by_fraction(averages: pd.DataFrame, doses: pd.DataFrame) -> Table:
    """Return the averages by share of the train split; no rows if all arms have the same share."""
    of = doses.set_index("arm").loc[averages["arm"]]
    step = 100 * of["fraction"]
    shares = averages.assign(arm=[*of["group"]], step=[*step])
    return (shares if doses["fraction"].nunique() > 1 else shares[:0],)


COMPARED = (*TASK_METRICS, *ANISOTROPY_METRICS, *EXPLAINED_METRICS, *BARS_METRICS, *PENALTY_METRICS, *POSTHOC)
"""Metrics in which arms are compared at the end of training."""


VIEWS = (
    *under(
        "Does anisotropy grow, and why?",
        _of_courses(
            "anisotropy",
            lambda _: ANISOTROPY_METRICS,
            "Does anisotropy grow during training? Shares of the largest directions of each batch's [CLS] vectors. {}. "
            + EVERY,
            remakes="Shrink the Longest, Figure 1",
        ),
        _of_courses(
            "explained",
            lambda _: EXPLAINED_METRICS,
            "Do {parts} explain the share of the first direction? Measured on a fixed validation sample; compare each "
            "metric with its null ({nulls}). " + EVERY,
            parts=("classes or clusters", "clusters"),
            nulls=("Gaussian noise, shuffled labels", "Gaussian noise"),
        ),
        _of_courses(
            "bars",
            lambda _: BARS_METRICS,
            "H0 bars {of}over training, on the same validation sample. {}. " + EVERY,
            of=("within classes ", ""),
        ),
    ),
    *under(
        "What does the penalty cost?",
        _of_courses(
            "task",
            lambda _: TASK_METRICS,
            "Task metrics on the whole validation split over training. {}. " + EVERY,
            remakes="Shrink the Longest, Figure 2",
        ),
        _of_courses(
            "penalty",
            _with_classes,
            "The penalty over training: its value, the norm of its gradient with respect to the points, the task loss, "
            "and the selected bars{of}. {}. " + EVERY,
            of=(" of each class", ""),
        ),
        View(
            name="trade",
            needs=("averages", "doses"),
            rows=_traded,
            by="across",
            form=Scatter(
                points=trade,
                x="across",
                y="up",
                series="family",
                means="arm",
                beside="text",
                columns="panel",
                labels=("Validation anisotropy", "Validation score"),
            ),
            findings=_traded_values,
            caption="{}",
            called={
                "a_1": "Does a lower share of the first direction (a₁) lower the task's score? Validation score "
                "against a₁. Small marks: runs; large marks: mean of an arm ± 1 sd, labelled with its weight where "
                "weights vary.",
                "a_1_centred": "Does a lower a₁, mean removed, lower the task's score? As in the plot above, with the "
                "mean removed.",
            },
        ),
        View(
            name="fractions",
            needs=("averages", "doses"),
            rows=_by_fraction,
            form=_form(lambda _: TASK_METRICS | TRADED, "Share of the train split (%)"),
            caption=lambda averages, _: (
                "How much training data does each arm need? Metrics at the end of training by share of the train "
                f"split. {line_and_band(averages)}. Shown: shares that all seeds of an arm have."
            ),
        ),
    ),
)
VIEWS += under("Is a transform after training worth as much as a penalty?", transformed.COMPARISON)
TESTED = {
    "differences": (
        "Differences at the end of training: each arm minus its reference arm, over the seeds that both have. "
        "Interval: paired t over seeds. p: corrected by Holm over the arms of a metric. Detectable: the difference "
        "that Holm's first step finds with the stated power. Metrics of each update (step) and of each evaluation "
        "(validation) are means over the last updates and evaluations."
    ),
    "equal": (
        "Matched-effect comparison of penalties: metrics are compared where anisotropy, or the norm of the penalty's "
        "gradient, is equal. Each penalty's metric is interpolated along its sweep of weights. Difference: minus the "
        "first penalty with the same share of the train split, over the seeds that both have. p: corrected by Holm "
        "over all tests of a metric. If a seed never reaches the level, the remaining seeds are a selection: there is "
        "no interval and no test."
    ),
}
"""Table of differences between arms → its caption."""
