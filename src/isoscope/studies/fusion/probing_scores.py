"""Draw probe scores by layer, in phases of training, compared with baselines; and by number of training sentences."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from scipy.optimize import isotonic_regression

from isoscope.platform.config.declared import natural, title
from isoscope.platform.figures.snapshots import (
    TWIN,
    arms_of,
    at_chosen,
    banded,
    chosen,
    keys,
    over_seeds,
    prepared,
    seeds_of,
)
from isoscope.platform.figures.style import INK, WIDTH, legend_below, look, multiples, named, style, tiles
from isoscope.studies.findings import Untested, by_arm
from isoscope.studies.view import Table, View

PER_ROW = 3
BETWEEN = 3
"""Number of snapshots between the first and the chosen, evenly spaced among those that all runs have."""
FEW = 10
"""A cell with less than 1 distinct vector per this number of points is drawn hollow."""
TWIN_LINE: Any = (0, (1, 1.2))
BASELINE: Any = (0, (5, 2))
CHANCE: Any = (0, (6, 1.5, 1, 1.5))
PERMUTED: Any = (0, (1, 3))
CHOSEN, NEVER = "chosen epoch", "random twin"


@style()
def probing_curves(
    table: pd.DataFrame,
    baselines: pd.DataFrame | None = None,
    *,
    task: str = "label",
    vectors: str = "first",
) -> Figure:
    """Draw score by layer: a panel per arm, a line per phase, mean over seeds with a band of ± 1 sd, baselines dashed.

    - Phases: the table's column `phase`, if it has it; a run's snapshots within a phase are averaged. Else: the first
      snapshot, a few between, the chosen epoch and the twin.
    - A cross marks a layer whose vectors are all equal, without a score.
    - A hollow mark has less than 1 distinct vector per `FEW` points.

    `table` and `baselines`: probing tables of a single study with columns arm and seed. Raises `ValueError` if there is
    nothing to draw.
    """
    found = prepared(table[(table["task"] == task) & (table["vectors"] == vectors)])
    lines = _phases(found)
    floor = pd.DataFrame({"baseline": [], "score": []}) if baselines is None else baselines[baselines["task"] == task]
    arms, phases, names = arms_of(found), list(dict.fromkeys(lines["line"])), list(dict.fromkeys(floor["baseline"]))
    size = (WIDTH, 2.4, 0.5, 0.17 * (len(phases) + len(names) + 4) / 2)
    figure, panels = tiles(len(arms), PER_ROW, size, up=_axis(found), sharey=True)
    for axes, arm in zip(panels, arms, strict=True):
        _panel(axes, lines[lines["arm"] == arm], phases)
        axes.set_title(
            named(arm, seeds_of(found[found["arm"] == arm]), WIDTH / min(PER_ROW, len(arms)) - 0.4), fontsize=9
        )
        axes.set_xlabel("Layer", fontsize=8)
    axes.set_ylim(top=1.02)  # for all panels, after the last curve: it ends the scaling of the shared axis
    for axes, arm in zip(panels, arms, strict=True):
        own = floor[floor["arm"] == arm] if "arm" in floor else floor
        _floors(axes, own.groupby("baseline")["score"].mean().reindex(names))
    legend_below(figure, _legend(lines, phases, names), columns=2)
    return figure


def _axis(table: pd.DataFrame) -> str:
    """Return what the scores of a probe are."""
    return f"{title(table['metric'].iloc[0])}, held-out sentences"


def _phases(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the phases, in order, with the phase's name as `line`."""
    if "phase" in table:
        rows = table[table["phase"].notna()].sort_values("column", kind="stable")
        parts = [rows.assign(line=rows["phase"])]
    else:
        last = min(chosen(table).values(), default=0)
        runs = table[table["column"] < last].groupby(["arm", "seed"])["column"].unique()
        shared = sorted(set.intersection(*map(set, runs)) - {TWIN}) if len(runs) else []
        steps = [shared[int(at)] for at in np.unique(np.linspace(0, len(shared) - 1, BETWEEN + 1).round()) if shared]
        parts = [table[table["column"] == step].assign(line=f"update {step}") for step in steps]
        parts += [at_chosen(table).assign(line=CHOSEN), table[table["column"] == TWIN].assign(line=NEVER)]
    lines = pd.concat(parts, ignore_index=True)
    if lines.empty:
        raise ValueError("no phase to draw: none of the snapshots is in the table")
    return lines.assign(line=lines["line"].where(lines["column"] != TWIN, NEVER))


def _panel(axes: Axes, lines: pd.DataFrame, phases: Sequence[str]) -> None:
    for index, phase in enumerate(phases):
        own = lines[lines["line"] == phase]
        per_run = own.groupby(["arm", "seed", "layer"], sort=False)["score"].mean().reset_index()
        few = own.assign(few=own["distinct"] * FEW < own["n"]).groupby("layer")["few"].any()
        looks, full = _look(phase, index), np.flatnonzero(~few)
        drawn: dict[str, Any] = {"marks": 1, "alpha": 0.14, "gid": "phase", "markevery": full}
        drawn |= {"within": natural(lines["metric"].iloc[0])}
        banded(axes, per_run, "layer", "score", **drawn, **looks)
        hollow = per_run.groupby("layer")["score"].mean()[few]
        axes.plot(hollow.index, hollow, **looks | {"linestyle": "", "markerfacecolor": "none"})
    for name, dashes in (("chance", CHANCE), ("permuted", PERMUTED)):
        if name in lines and np.isfinite(level := float(lines[name].mean())):
            axes.axhline(level, color=INK, linestyle=dashes, linewidth=0.9, gid=name)
    if empty := sorted(lines.loc[lines["degenerate"], "layer"].unique()):
        at = [float(lines["chance"].mean())] * len(empty)
        axes.plot(empty, at, color=INK, marker="x", linestyle="", markersize=6, gid="degenerate")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))


def _look(phase: str, index: int) -> dict[str, Any]:
    if phase == NEVER:
        return {"color": INK, "marker": "", "linestyle": TWIN_LINE, "linewidth": 1.2}
    return {"linestyle": "solid", "linewidth": 1.4, "markersize": 4, **look(index)}


def _floors(axes: Axes, scores: pd.Series) -> None:
    """Draw a dashed line per baseline, with its letter at the right end; letters move only as far as they must."""
    known = sorted((score, chr(97 + place)) for place, score in enumerate(scores) if np.isfinite(score))
    if not known:
        return
    low, high = axes.get_ylim()
    axes.set_ylim(min(low, known[0][0] - 0.02), high)
    steps = 0.045 * (high - low) * np.arange(len(known))
    places = isotonic_regression([score for score, _ in known] - steps).x + steps
    beside = axes.get_yaxis_transform()
    for (score, letter), place in zip(known, places, strict=True):
        line: dict[str, Any] = {"color": INK, "linewidth": 0.7, "alpha": 0.7}
        axes.axhline(score, linestyle=BASELINE, gid="baseline", **line)
        axes.plot([1.0, 1.025], [score, place], transform=beside, clip_on=False, **line)
        axes.text(1.035, place, letter, transform=beside, fontsize=7, va="center")


def _legend(lines: pd.DataFrame, phases: Sequence[str], names: Sequence[str]) -> list[Line2D]:
    drawn = [Line2D([], [], label=phase, **_look(phase, index)) for index, phase in enumerate(phases)]
    permuted = "permuted" in lines and lines["permuted"].notna().any()
    few = (lines["distinct"] * FEW < lines["n"])[~lines["degenerate"]].any()
    mark: dict[str, Any] = {"linestyle": "", "label": "all vectors equal: no score", "marker": "x"}
    hollow = {"label": f"few distinct vectors (less than 1 in {FEW})", "marker": "o", "markersize": 4}
    rest: list[tuple[bool, dict[str, Any]]] = [
        (True, {"linestyle": CHANCE, "linewidth": 0.9, "label": "chance: the largest class"}),
        (permuted, {"linestyle": PERMUTED, "linewidth": 0.9, "label": "labels permuted within folds"}),
        (lines["degenerate"].any(), mark),
        (few, mark | hollow | {"markerfacecolor": "none"}),
        *(
            (True, {"linestyle": BASELINE, "linewidth": 0.7, "label": f"{chr(97 + place)}: {name}"})
            for place, name in enumerate(names)
        ),
    ]
    return drawn + [Line2D([], [], color=INK, **line) for there, line in rest if there]


@style()
def learning_curves(learning: pd.DataFrame, *, vectors: str = "first") -> Figure:
    """Draw held-out accuracy of the label probe against the number of its training sentences: a line per arm.

    Mean over seeds ± 1 sd; a dotted line at chance; n and d in the title.
    """
    table = learning[learning["vectors"] == vectors]
    title = f"n = {table['n'].max()} sentences, d = {table['d'].max()}"
    figure, panels = multiples(
        {"": "Accuracy, held-out sentences"}, {"": title}, (4.6, 3.2), across="Training sentences of the probe"
    )
    (axes,) = panels.values()
    for index, (key, arm) in enumerate(zip(keys(table, 2.0), arms_of(table), strict=True)):
        means = over_seeds(table[table["arm"] == arm], ["trained"], "score").sort_values("trained")
        line: dict[str, Any] = {"elinewidth": 0.9, "label": key.get_label(), **look(index)}
        axes.errorbar(means["trained"], means["mean"], yerr=np.nan_to_num(means["sd"]), **line)
    axes.axhline(float(table["chance"].mean()), color=INK, linestyle=(0, (1, 1.5)), linewidth=1.0, label="chance")
    legend_below(figure, axes.get_legend_handles_labels()[0], columns=2)
    return figure


TASKS = {
    "label": "first",
    "bigram shift": "first",
    "part of speech": "treebank",
    "word order": "words",
    "word position": "words",
}
"""Task → the vectors that its probe reads."""
ON_FIRST_SCREEN = ("label", "word position")
"""What a model is trained for, and what fusion could lose."""


def _named(probing: pd.DataFrame, baselines: pd.DataFrame) -> Table:
    shown = [probing[(probing["task"] == task) & (probing["vectors"] == kind)] for task, kind in TASKS.items()]
    return pd.concat(shown), baselines


def _of_phases(probing: pd.DataFrame, phases: pd.DataFrame, baselines: pd.DataFrame) -> Table:
    return probing.merge(phases, on=["arm", "seed", "snapshot"], how="left"), baselines


def _probed(probing: pd.DataFrame, baselines: pd.DataFrame) -> Iterator[Untested]:
    """Yield what the probe reads from the last layer at the chosen epoch, beside random weights and the best baseline.

    Of the tasks `ON_FIRST_SCREEN` alone; a checkpoint has no chosen epoch.
    """
    task = probing["task"].iloc[0]
    if task not in ON_FIRST_SCREEN or "checkpoint" in probing:
        return
    found = prepared(probing)
    last = found[found["layer"] == found["layer"].max()]
    own, twins = at_chosen(last).dropna(subset="score"), by_arm(last[last["column"] == TWIN], "score")
    if own.empty:
        return
    floors = baselines[baselines["task"] == task].groupby("baseline")["score"].mean().dropna()
    beside = {"chance": float(own["chance"].mean())}
    beside |= {f"best baseline ({floors.idxmax()})": float(floors.max())} if len(floors) else {}
    what = f"{_axis(own)}, of a linear probe of the last layer: {task}"
    yield Untested.of_seeds(what, own, "score", beside=beside, control="random weights", controls=twins)


def _drawn(probing: pd.DataFrame, baselines: pd.DataFrame) -> Figure:
    return probing_curves(probing, baselines, task=probing["task"].iloc[0], vectors=probing["vectors"].iloc[0])


PHASES = View(
    name="probing-phases",
    needs=("probing", "phases", "baselines"),
    rows=_of_phases,
    draw=probing_curves,
    caption="In which phase of training does the label become linearly decodable? Score of a linear probe by layer, a "
    "line per phase; dashed: baselines.",
)
PROBING = View(
    name="probing",
    needs=("probing", "baselines"),
    rows=_named,
    by="task",
    draw=_drawn,
    caption="What a linear probe reads by layer: {}. Line: mean over seeds; band: ± 1 sd; dashed: baselines.",
    findings=_probed,
    remakes="Li 2025 (fusion), Figure 6",
)
LEARNING = View(
    name="learning",
    needs=("learning",),
    draw=learning_curves,
    caption="How many sentences does the label probe need? Held-out accuracy at the last layer of the chosen epoch, by "
    "number of training sentences. Mean over seeds ± 1 sd; dotted: chance.",
)
