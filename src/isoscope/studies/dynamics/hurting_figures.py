"""Draw what hurts: the table by component, maps by layer, and the comparison with the published table."""

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from isoscope.base.view import Table, View
from isoscope.platform.figures.matrix_form import Matrix
from isoscope.platform.figures.numbers import NOTHING
from isoscope.platform.figures.text_form import Texts
from isoscope.studies.dynamics import notes
from isoscope.studies.dynamics.allocated_runs import COMPONENTS, OUTSIDE, ordered
from isoscope.studies.dynamics.allocation_bars import STACK_NAMES
from isoscope.studies.dynamics.hurting_counts import COUNTED, PUBLISHED
from isoscope.studies.dynamics.learning import NOT


def _unit(unit: str, *tables: pd.DataFrame) -> Table:
    counts, *rest = tables
    return (counts[counts["unit"] == unit], *rest)


def by_component(*tables: pd.DataFrame) -> Table:
    """Keep sums over layers."""
    return _unit("component", *tables)


def by_block(*tables: pd.DataFrame) -> Table:
    """Keep components of single layers."""
    return _unit("block", *tables)


def hurting_table(counts: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return a row per component, a group of columns per arm, like the published table."""
    arms = list(dict.fromkeys(counts["arm"]))
    folds = bool(counts["surely"].notna().any())
    cells = {(row["arm"], row["component"]): row for row in counts.to_dict("records")}
    head = ["Component"]
    for arm in arms:
        head += [f"{arm}: hurts{' (noise)' * folds}, share", *([f"{arm}: surely (noise)"] if folds else [])]
    names = ordered(counts["component"], COMPONENTS)
    rows = [[name, *(text for arm in arms for text in _cells(cells.get((arm, name)), folds))] for name in names]
    for label, found in _summary(counts, arms):
        rows.append([label, *(text for one in found for text in ([one, ""] if folds else [one]))])
    return pd.DataFrame(rows, columns=head)


def _cells(row: Any, folds: bool) -> list[str]:
    if row is None:
        return [NOTHING] * (2 if folds else 1)
    hurts = _mean(row["hurts"])
    share = f"{100 * row['share']:.0f} %"
    if not folds:
        return [f"{hurts}, {share}"]
    return [f"{hurts} ({row['hurts_by_noise']:.1f}), {share}", f"{_mean(row['surely'])} ({row['surely_by_noise']:.2f})"]


def _mean(count: float) -> str:
    """Return a mean of counts over seeds; of one seed it is a whole number."""
    return f"{count:.0f}" if float(count).is_integer() else f"{count:.1f}"


def _summary(counts: pd.DataFrame, arms: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the rows below the components: last, largest, and the number of cases, as texts by arm."""
    own = [counts[counts["arm"] == arm] for arm in arms]
    tops = [table.loc[table["largest"].astype(float).idxmax()] for table in own]
    largest = [f"{top['largest']:.2g} ({top['component']})" if top["largest"] > 0 else "none" for top in tops]
    return [
        ("Last update", [f"{int(table['last'].max()):,}" for table in own]),
        ("Largest", largest),
        ("Cases", [f"{table['cases'].iloc[0]:,.0f}" for table in own]),
    ]


def _hurting_caption(counts: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    counted = counts["counted"].iloc[0]
    folds = bool(counts["surely"].notna().any())
    noise = (
        "Surely: the 95 % interval over folds of the sentences is above 0. In brackets: the count that noise of the "
        "sentences alone would give. "
        if folds
        else "No noise is known for this estimator. It is negative nearly by construction. "
    )
    return notes.joined(
        f"How often does a component hurt ({COUNTED[counted]})? Number and share of cases with a positive allocation, "
        "mean over seeds. Each component is summed over layers and stacks.",
        noise + "Last update: the last at which any component of the table hurts. Largest: the largest positive "
        "allocation of a component in nats. Both are over all seeds.",
        "A chord's allocation is not the sum of its updates' allocations, so counts of chords, of single updates and "
        "of the minibatch estimator are different things.",
        notes.seeds(learned),
        notes.shown(closed) if folds else "",
        notes.untrained(learned),
    )


def hurting_layers(counts: pd.DataFrame, *_: pd.DataFrame) -> pd.DataFrame:
    """Return the share of cases in which a component of a layer hurts; in a cell: the count."""
    inside = counts[counts["layer"] != OUTSIDE]
    texts = [f"{hurts:.0f}" for hurts in inside["hurts"]]
    panel = inside["arm"] + "\n" + inside["stack"].map(STACK_NAMES).fillna(inside["stack"])
    order = inside["component"].map(COMPONENTS.index)
    inside = inside.assign(text=texts, panel=panel, depth=inside["layer"] + 1, order=order)
    return inside.sort_values("order", kind="stable").drop(columns="n")


def _limits(counts: pd.DataFrame) -> tuple[float, float]:
    return 0.0, _top(counts)


def _top(counts: pd.DataFrame) -> float:
    """Return the end of the colours: 1, or a tenth above the largest share if few cases hurt (all would be dark)."""
    largest = float(counts.loc[counts["layer"] != OUTSIDE, "share"].max())
    return 1.0 if largest > 0.5 or math.isnan(largest) else max(math.ceil(10 * largest) / 10, 0.1)


def _map_caption(counts: pd.DataFrame, closed: pd.DataFrame, learned: pd.DataFrame) -> str:
    counted = counts["counted"].iloc[0]
    cases = ", ".join(f"{own['cases'].iloc[0]:,.0f} ({arm})" for arm, own in counts.groupby("arm", sort=False))
    return notes.joined(
        f"Which components of which layers hurt, and how often ({COUNTED[counted]})? Number of cases: {cases}. Colour: "
        f"share of cases with a positive allocation, from 0 to {_top(counts):g}; number: count, mean over seeds. A "
        "part without any effect hurts in half of the cases.",
        notes.seeds(learned),
        notes.shown(closed) if counted != "updates" else "",
        notes.untrained(learned),
    )


def published_table(compared: pd.DataFrame) -> pd.DataFrame:
    """Return a row per arm and counting: the last positive update and its phase, ours and published."""
    rows = compared.to_dict("records")
    return compared.assign(
        ours=[f"{row['last']:,} {row['phase']}" for row in rows],
        published=[f"{row['published_last']:,} {row['published_phase']}" for row in rows],
        same=[row["word"] if row["word"] == NOT else row["same_phase"] or NOTHING for row in rows],
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
        f"{'; '.join(f'{name}, {text}' for name, text in COUNTED.items())}. Last update that hurts: the last at "
        "which any of these seven hurts (other components do not count here), inside or after the warm-up, whose "
        f"updates are {warmups}; published: {PUBLISHED['warmup']:,}. Published counts: {tables}."
    )


_REMAKES = "Vázquez et al. 2022, summary of parameters that hurt the training process"
_OPTIONS: dict[str, Any] = {"needs": ("hurting", "closed", "learned"), "by": "counted"}
HURTING = View(
    name="hurting",
    form=Texts(points=hurting_table),
    rows=by_component,
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
        limits=_limits,
        bar="Share of cases that hurt",
    ),
    rows=by_block,
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
