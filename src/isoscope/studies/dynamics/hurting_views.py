"""Views of what hurts: the table by component, maps by layer, and the comparison with the published table."""

import math
from functools import partial
from typing import Any

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.form import in_order
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.numbers import NOTHING
from isoscope.platform.figures.text_form import Texts
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, OUTSIDE
from isoscope.studies.dynamics.allocation_views import in_stacks
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED
from isoscope.studies.dynamics.learning import NOT, about_runs

BELOW = ("Last update", "Largest", "Cases")
"""Rows of the table below the components."""


def of_unit(counts: pd.DataFrame, *rest: pd.DataFrame, unit: str) -> Table:
    """Keep components, summed over layers, or blocks: components of single layers."""
    return counts[counts["unit"] == unit], *rest


def hurting_table(counts: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return a row per component, a group of columns per arm, like the published table."""
    folds = bool(counts["surely"].notna().any())
    columns: dict[str, pd.Series] = {}
    for arm, own in counts.set_index("component").groupby("arm", sort=False):
        top, largest = own["largest"].astype(float).idxmax(), own["largest"].max()
        below = f"{own['last'].max():,}", f"{largest:.2g} ({top})" if largest > 0 else "none"
        cells = own.apply(partial(_hurts, folds=folds), axis=1)
        columns[f"{arm}: hurts{' (noise)' * folds}, share"] = pd.concat(
            [cells, pd.Series([*below, f"{own['cases'].iloc[0]:,.0f}"], BELOW)]
        )
        if folds:
            surely = own.apply(lambda row: f"{_mean(row['surely'])} ({row['surely_by_noise']:.2f})", axis=1)
            columns[f"{arm}: surely (noise)"] = pd.concat([surely, pd.Series("", BELOW)])
    names = [name for name in COMPONENTS if name in set(counts["component"])]
    return pd.DataFrame(columns, index=[*names, *BELOW]).fillna(NOTHING).rename_axis("Component").reset_index()


def _hurts(row: pd.Series, *, folds: bool) -> str:
    noise = f" ({row['hurts_by_noise']:.1f})" * folds
    return f"{_mean(row['hurts'])}{noise}, {100 * row['share']:.0f} %"


def _mean(count: float) -> str:
    """Return a mean of counts over seeds; of one seed it is a whole number."""
    return f"{count:.0f}" if float(count).is_integer() else f"{count:.1f}"


def _hurting_caption(counts: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    folds = counts["surely"].notna().any()
    noise = (
        "Surely: the 95 % interval over folds of the sentences is above 0. In brackets: the count that noise of the "
        "sentences alone would give. "
        if folds
        else "No noise is known for this estimator. It is negative nearly by construction. "
    )
    return (
        f"How often does a component hurt ({COUNTED[counts['counted'].iloc[0]]})? Number and share of cases with a "
        f"positive allocation, mean over seeds. Each component is summed over layers and stacks. {noise}"
        "Last update: the last at which any component of the table hurts. Largest: the largest positive "
        "allocation of a component in nats. Both are over all seeds. "
        "A chord's allocation is not the sum of its updates' allocations, so counts of chords, of single updates and "
        f"of the minibatch estimator are different things. {about_runs(learned, closed if folds else None)}"
    )


def hurting_layers(counts: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the share of cases in which a component of a layer hurts; in a cell: the count."""
    inside = in_stacks(counts[counts["layer"] != OUTSIDE]).drop(columns="n")
    return in_order(inside.assign(text=inside["hurts"].map("{:.0f}".format)), "component", COMPONENTS)


def _top(counts: pd.DataFrame) -> float:
    """Return the end of the colours: 1, or a tenth above the largest share if few cases hurt (all would be dark)."""
    largest = float(counts.loc[counts["layer"] != OUTSIDE, "share"].max())
    return 1.0 if largest > 0.5 or math.isnan(largest) else max(math.ceil(10 * largest) / 10, 0.1)


def _map_caption(counts: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    counted = counts["counted"].iloc[0]
    cases = ", ".join(f"{own['cases'].iloc[0]:,.0f} ({arm})" for arm, own in counts.groupby("arm", sort=False))
    return (
        f"Which components of which layers hurt, and how often ({COUNTED[counted]})? Number of cases: {cases}. Colour: "
        f"share of cases with a positive allocation, from 0 to {_top(counts):g}; number: count, mean over seeds. A "
        "part without any effect hurts in half of the cases. "
        f"{about_runs(learned, None if counted == 'updates' else closed)}"
    )


def published_table(compared: pd.DataFrame) -> pd.DataFrame:
    """Return a row per arm and counting: the last positive update and its phase, ours and published."""
    rows = compared.to_dict("records")
    return compared.assign(
        ours=[f"{row['last']:,} {row['phase']}" for row in rows],
        published=[f"{row['published_last']:,} {row['published_phase']}" for row in rows],
        same=compared["same_phase"].fillna(NOTHING).mask(compared["word"] == NOT, NOT),
    )


def _published_caption(compared: pd.DataFrame) -> str:
    warmups = ", ".join(dict.fromkeys(f"{row.warmup:,} ({row.arm})" for row in compared.itertuples()))
    tables = "; ".join(
        f"{kind}: {', '.join(f'{name} {count:,}' for name, count in found['counts'].items())}"
        for kind, found in PUBLISHED["values"].items()
        if kind in set(compared["objective"])
    )
    return (
        "Do the same components hurt as in Vázquez et al. 2022? Ranks of seven components by their number of positive "
        "allocations: +1 is the same order, 0 no agreement. p: exact, over all orders; not corrected. "
        "Counts themselves depend on the number of updates and on the estimator, so they are not compared. Counted: "
        f"{'; '.join(map(', '.join, COUNTED.items()))}. Last update that hurts: the last at "
        "which any of these seven hurts (other components do not count here), inside or after the warm-up, whose "
        f"updates are {warmups}; published: {PUBLISHED['warmup']:,}. Published counts: {tables}."
    )


_REMAKES = "Vázquez et al. 2022, summary of parameters that hurt the training process"
_OPTIONS: dict[str, Any] = {"needs": ("hurting", "closed", "learned"), "by": "counted"}
HURTING = View(
    name="hurting",
    form=Texts(points=hurting_table),
    rows=partial(of_unit, unit="component"),
    caption=_hurting_caption,
    remakes=_REMAKES,
    **_OPTIONS,
)
MAPS = View(
    name="hurting_layers",
    form=Matrix(
        points=hurting_layers,
        x="component",
        y="depth",
        columns="panel",
        value="share",
        labels=("", "Layer"),
        limits=lambda counts: (0.0, _top(counts)),
        bar="Share of cases that hurt",
    ),
    rows=partial(of_unit, unit="block"),
    caption=_map_caption,
    **_OPTIONS,
)
COMPARED = View(
    name="hurting_published",
    needs=("hurting_published",),
    form=Texts(
        points=published_table,
        heads={"arm": "Arm", "counted": "Counted", "n": "n", "tau": "Kendall τ", "p": "p of τ", "rho": "Spearman ρ"}
        | {"ours": "Last update that hurts; warm-up", "published": "Published", "same": "Phase"},
    ),
    caption=_published_caption,
    remakes=_REMAKES,
)
