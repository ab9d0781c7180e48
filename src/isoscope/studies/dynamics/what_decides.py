"""The comparison `objective_or_data`: what decides the profiles of the runs of several studies, as tables and views."""

from collections.abc import Iterator, Mapping
from typing import Any

import pandas as pd

from isoscope.base.errors import InputError
from isoscope.platform.figures.interval_form import Intervals
from isoscope.studies.arms import StudyRuns
from isoscope.studies.dynamics.allocated_runs import ALLOCATED, allocated_runs
from isoscope.studies.dynamics.learning import learned, words
from isoscope.studies.dynamics.notes import joined
from isoscope.studies.dynamics.objective_or_data import DISTANCES, objective_or_data
from isoscope.studies.dynamics.profiles import profiles
from isoscope.studies.findings import Untested
from isoscope.studies.view import View

QUESTION = "Does the objective or the data decide which parts lower the loss?"
FILES = ALLOCATED
CALLED = {"all": "All objectives", "masked and causal": "Masked and causal alone"}


def tables(
    studies: Mapping[str, StudyRuns], *, confidence: float, permutations: int, **_: Any
) -> dict[str, pd.DataFrame]:
    """Return the tables `profiles`, `shares`, `told` and `left_out` (see `objective_or_data`) of several studies.

    Raises `InputError` for a study without an allocation, and as `objective_or_data`.
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


def labelled(told: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with what is told, and what is left out."""
    return told.assign(row=[_told_label(one) for one in told.itertuples()])


def _told_label(row: Any) -> str:
    return f"{row.told} ({row.left_out} left out)"


def _shares_caption(shares: pd.DataFrame, left_out: pd.DataFrame) -> str:
    return joined(
        "Which part of the variance of the runs' profiles does each source explain? A profile: the allocation by "
        "component and half of the depth. Condition: task and number of training examples. Interaction: what objective "
        "and condition explain only together. Seed: runs that differ in nothing else. Data: tasks of equal size. Size: "
        "number of examples of one task. Shares by permutation MANOVA, markers by distance.",
        "Intervals: jackknife over seeds. They cover other seeds, not other data."
        if shares["low"].notna().any()
        else "Below three seeds there is no interval.",
        "Shares and p describe these data conditions. They do not decide which matters more in other data.",
        _n(shares),
        _incomplete(shares.iloc[0]),
        _chances(shares, "source", "hellinger"),
        _left_out(left_out),
    )


def _sources(shares: pd.DataFrame, left_out: pd.DataFrame) -> Iterator[Untested]:
    """Yield each source's share of the variance, by choice of objectives, for the first distance."""
    for objectives, rows in shares[shares["distance"] == next(iter(DISTANCES))].groupby("objectives", sort=False):
        of = f"Share of the variance of the profiles, {CALLED[str(objectives)].lower()}"
        yield Untested(of, dict(zip(rows["source"], rows["share"], strict=True)), int(rows["runs"].max()), "run")


def _incomplete(first: pd.Series) -> str:
    if first["cells"] == first["of"]:
        return ""
    without = f"{first['cells']} of {first['of']} combinations of objective and condition have runs"
    return f"{without}, so that a share is what a source adds to the others, and shares need not sum to 1."


def _chances(table: pd.DataFrame, named: str, distance: str | None = None) -> str:
    """Return p by Holm of the first choice of objectives (and of a distance), and the number of tests."""
    own = table[table["objectives"] == table["objectives"].iloc[0]]
    own = own[own["distance"] == distance] if distance else own
    found = {str(row[named]): row["p_holm"] for _, row in own.iterrows() if pd.notna(row["p_holm"])}
    if not found:
        return "A p needs several runs per combination of levels."
    which = f", {distance}" if distance else ""
    shown = ", ".join(f"{name} {p:.3g}" for name, p in found.items())
    choice = CALLED[str(own["objectives"].iloc[0])].lower()
    return f"p by permutation, by Holm over {table['p'].notna().sum()} tests ({choice}{which}): {shown}."


def _told_caption(told: pd.DataFrame, left_out: pd.DataFrame) -> str:
    return joined(
        "Can the objective of a run be told from its profile, in data that the classifier has not seen? A row: what is "
        "told. In brackets: the factor whose levels are left out of training, in turn. Classifier: nearest class mean "
        "of standardised profiles. Chance: mean accuracy with classes permuted within the left-out groups.",
        _n(told),
        _chances(told.assign(row=[_told_label(row) for row in told.itertuples()]), "row"),
        _left_out(left_out),
    )


def _n(table: pd.DataFrame) -> str:
    counts = table.drop_duplicates("objectives").set_index("objectives")["runs"]
    return f"n = {', '.join(f'{n} runs ({CALLED[str(name)].lower()})' for name, n in counts.items())}."


def _left_out(left_out: pd.DataFrame) -> str:
    return f"Not trained, so left out: {', '.join(left_out['runs'])}." if len(left_out) else ""


_OPTIONS: dict[str, Any] = {"columns": "objectives", "names": CALLED, "limits": (-0.02, 1.02)}
SHARES = Intervals(
    x="share", y="source", series="distance", labels=("Share of the variance of the profiles", ""), **_OPTIONS
)
TOLD = Intervals(
    points=labelled, x="accuracy", y="row", labels=("Accuracy", ""), beside={"chance": "chance"}, **_OPTIONS
)
VIEWS = (
    View("shares_of_variance", ("shares", "left_out"), SHARES, _shares_caption, findings=_sources),
    View("told_apart", ("told", "left_out"), TOLD, _told_caption),
)
