"""Views of probe scores by layer, in phases of training, compared with baselines; and by number of sentences."""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.config.declared import title
from isoscope.platform.figures.form import averaged, where
from isoscope.platform.figures.line_form import Curves, Profile
from isoscope.platform.figures.snapshots import TWIN, at_chosen, at_last_layer, chosen, prepared, with_range
from isoscope.platform.statistics.findings import Untested, by_arm

BETWEEN = 3
"""Number of snapshots between the first and the chosen, evenly spaced among those that all runs have."""
FEW = 10
"""A cell with less than 1 distinct vector per this number of points is marked."""
CHOSEN, NEVER = "chosen epoch", "random-weights control"
EQUAL, HOLLOW = "all vectors equal: no score", f"few distinct vectors (less than 1 in {FEW})"
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


def scores(probing: pd.DataFrame, baselines: pd.DataFrame) -> pd.DataFrame:
    """Return score by layer, arm and phase, and each baseline as a line of its own.

    Phases: the column `phase`, if there is one; else the first snapshot, a few between, the chosen epoch and the twin.
    A run's snapshots within a phase are averaged.
    """
    if "phase" in probing:
        probing = probing[(probing["task"] == "label") & (probing["vectors"] == "first")]
    found = phases(prepared(probing))
    flat, few = found["degenerate"].astype(bool), found["distinct"] * FEW < found["n"]
    found = found.assign(gap=where(flat, EQUAL), mark=where(few & ~flat, HOLLOW), kind="probe")
    found = averaged(found, ("arm", "seed", "line", "layer"), "score").drop(columns=["low", "high"])
    found = with_range(found, "metric")
    floors = baselines[(baselines["task"] == probing["task"].iloc[0]) & baselines["score"].notna()]
    ends = pd.DataFrame({"layer": [found["layer"].min(), found["layer"].max()]})
    floors = floors.rename(columns={"baseline": "line"}).drop(columns=["seed", "n", "layer"], errors="ignore")
    return pd.concat([found, floors.merge(ends, how="cross").assign(kind="baseline")], ignore_index=True)


def phases(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the phases, in order, with the phase's name as `line`."""
    if "phase" in table:
        rows = table[table["phase"].notna()].sort_values("column", kind="stable")
        parts = [rows.assign(line=rows["phase"])]
    else:
        last = chosen(table).min()
        runs = table[table["column"] < last].groupby(["arm", "seed"])["column"].unique()
        shared = sorted(set.intersection(*map(set, runs)) - {TWIN}) if len(runs) else []
        steps = [shared[int(at)] for at in np.unique(np.linspace(0, len(shared) - 1, BETWEEN + 1).round()) if shared]
        parts = [table[table["column"] == step].assign(line=f"update {step}") for step in steps]
        parts += [at_chosen(table).assign(line=CHOSEN), table[table["column"] == TWIN].assign(line=NEVER)]
    lines = pd.concat(parts, ignore_index=True)
    if lines.empty:
        raise ValueError("no phase to draw: none of the snapshots is in the table")
    return lines.assign(line=lines["line"].where(lines["column"] != TWIN, NEVER))


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
    last = at_last_layer(found)
    own, twins = at_chosen(last).dropna(subset="score"), by_arm(last[last["column"] == TWIN], "score")
    if own.empty:
        return
    floors = baselines[baselines["task"] == task].groupby("baseline")["score"].mean().dropna()
    beside = {"chance": float(own["chance"].mean())}
    beside |= {f"best baseline ({floors.idxmax()})": float(floors.max())} if len(floors) else {}
    what = f"{title(own['metric'].iloc[0])}, held-out sentences, of a linear probe of the last layer: {task}"
    yield Untested.of_seeds(what, own, "score", beside=beside, control="random weights", controls=twins)


def _of_cls(learning: pd.DataFrame) -> Table:
    return (learning[learning["vectors"] == "first"],)


PROFILE = Profile(
    points=scores,
    y="score",
    series="line",
    dash="kind",
    columns="arm",
    labels=("Layer", "Score, held-out sentences"),
    names={"probe": "probe", "baseline": "baseline"},
    beside={"chance": "chance: the largest class", "permuted": "labels permuted within folds"},
)
PHASES = View(
    name="probing-phases",
    needs=("probing", "phases", "baselines"),
    rows=_of_phases,
    form=PROFILE,
    caption="In which phase of training does the label become linearly decodable? Score of a linear probe by layer, a "
    "line per phase; dotted: baselines.",
)
PROBING = View(
    name="probing",
    needs=("probing", "baselines"),
    rows=_named,
    by="task",
    form=PROFILE,
    caption="What a linear probe reads by layer: {}. Line: mean over seeds; band: ± 1 sd; dotted: baselines.",
    findings=_probed,
    remakes="Li 2025 (fusion), Figure 6",
)
SENTENCES = Curves(
    x="trained",
    y="score",
    labels=("Training sentences of the probe", "Accuracy, held-out sentences"),
    scales=("linear", "linear"),
    beside={"chance": "chance"},
)
LEARNING = View(
    name="learning",
    needs=("learning",),
    form=SENTENCES,
    rows=_of_cls,
    caption="How many sentences does the label probe need? Held-out accuracy at the last layer of the chosen epoch, by "
    "number of training sentences. Mean over seeds ± 1 sd; dashed: chance.",
)
VIEWS = (LEARNING, PHASES, PROBING)
