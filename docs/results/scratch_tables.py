"""The tables of fusion.md about 25 epochs at the published rate: scores, phases of training, cosines of tokens."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from fusion_tables import SMALL, UNIT, difference
from judged import VERDICT, Tested, verdicts
from per_run import by_seed, stored
from written import NONE, Table, short, spread

RUNS = "fusion/scratch"
ADDITIVE, CONV2D = "additive", "conv2d_unit"
ARMS = {ADDITIVE: SMALL, CONV2D: UNIT, "conv2d": SMALL, "fft_unit": UNIT, "fft_residual": SMALL}
"""Arm → its word and position tables."""
PHASES = (
    "Unstructured",
    "Entering structure",
    "Maximum separation",
    "Morphological changes",
    "Late homogenisation",
)
FALL = 0.2
"""Over-compression: this share of the best separability above chance is lost at the end."""
Values = Mapping[str, Mapping[int, float]]


def at_the_end() -> dict[str, dict[int, float]]:
    """Return arm → seed → validation accuracy after the last epoch."""
    table = stored(f"{RUNS}.csv")
    rows = table[(table["metric"] == "validation/accuracy") & (table["epoch"] == table["epoch"].max())]
    return _by_seed(rows)


def cosines(pairs: str = "all") -> dict[str, dict[int, float]]:
    """Return arm → seed → mean cosine of tokens after the embedding block, at the selected epoch."""
    table = stored("fusion/scratch_cosines.csv")
    return _by_seed(table[table["pairs"] == pairs].rename(columns={"cosine": "value"}))


def _by_seed(rows: pd.DataFrame) -> dict[str, dict[int, float]]:
    return {str(arm): dict(zip(own["seed"], own["value"], strict=True)) for arm, own in rows.groupby("arm")}


def course() -> pd.DataFrame:
    """Return the separability of the label by arm, seed, epoch and layer, the phase of the epoch, and chance."""
    return stored("fusion/scratch_course.csv")


def scores() -> Table:
    """Return a row per arm: selected epochs, test accuracy there, accuracy at the end, cosine of tokens."""
    best, test, end, cosine = by_seed(RUNS, "training/best_epoch"), by_seed(RUNS), at_the_end(), cosines()
    rows = [
        (
            arm,
            tables,
            len(test[arm]),
            ", ".join(f"{epoch:.0f}" for epoch in best[arm].values()),
            spread(test[arm].values()),
            spread(end[arm].values()),
            spread(cosine[arm].values()),
        )
        for arm, tables in ARMS.items()
    ]
    heads = ("selected epochs", "test accuracy", "validation accuracy, last epoch", "mean cosine of tokens")
    return Table(("arm", "tables", "seeds", *heads), rows)


def differences() -> Table:
    """Return differences in three families of four: test accuracy, validation accuracy at the end, cosine of tokens."""
    less = [(arm, ADDITIVE) for arm in ARMS if arm != ADDITIVE]
    families: tuple[tuple[str, Sequence[tuple[str, str]], Callable[[str, str], Tested]], ...] = (
        ("test accuracy", less, lambda one, other: difference(RUNS, one, other)),
        ("validation accuracy, last epoch", less, lambda one, other: _apart(at_the_end(), one, other, items=True)),
        (
            "mean cosine of tokens",
            [(CONV2D, arm) for arm in ARMS if arm != CONV2D],
            lambda one, other: _apart(cosines(), one, other, items=False),
        ),
    )
    rows = []
    for name, pairs, tested in families:
        judged = verdicts([tested(*pair) for pair in pairs], short, claims=False)
        rows += [(name, f"{one} − {other}", *cells) for (one, other), cells in zip(pairs, judged, strict=True)]
    return Table(("of", "difference", *VERDICT), rows)


def _apart(values: Values, one: str, other: str, *, items: bool) -> Tested:
    sides = values[one], values[other]
    seeds = [seed for seed in sides[0] if seed in sides[1]]
    scale = max(abs(side[seed]) for side in sides for seed in seeds)
    return Tested([sides[0][seed] - sides[1][seed] for seed in seeds], scale=scale, items=items)


def phases() -> Table:
    """Return per arm: in how many runs each phase occurs, and in which epochs; separability and over-compression."""
    table = course()
    last = table[table["layer"] == table["layer"].max()]
    rows = []
    for arm in ARMS:
        own = last[last["arm"] == arm]
        runs = [run.sort_values("epoch") for _, run in own.groupby("seed")]
        cells = [_when([run.loc[run["phase"] == phase, "epoch"].tolist() for run in runs]) for phase in PHASES]
        ends = [run["separability"].iloc[-1] for run in runs]
        best = [run["separability"].max() for run in runs]
        chance = float(own["chance"].iloc[0])
        lost = sum(top - end >= FALL * (top - chance) for top, end in zip(best, ends, strict=True) if top > chance)
        rows.append((arm, *cells, spread(best), spread(ends), f"{lost} of {len(runs)}"))
    return Table(("arm", *PHASES, "best separability", "at the end", "over-compressed"), rows)


def _when(epochs: Sequence[Sequence[int]]) -> str:
    """Write in how many runs a phase occurs, and its first and last epoch in any of them."""
    found = [own for own in epochs if own]
    ends = f": {min(map(min, found))} to {max(map(max, found))}" if found else ""
    return f"{len(found)} of {len(epochs)}{ends}"


def by_layer() -> Table:
    """Return the separability of the label by layer in each phase of each arm: mean over its epochs and runs."""
    found = course().groupby(["arm", "phase", "layer"])["separability"].mean().unstack("layer")
    rows = [
        (arm, phase, *(NONE if np.isnan(value) else short(value) for value in found.loc[(arm, phase)]))
        for arm in ARMS
        for phase in PHASES
        if (arm, phase) in found.index
    ]
    return Table(("arm", "phase", *(f"layer {layer}" for layer in found)), rows)


TABLES: dict[str, Callable[[], Table]] = {
    "fusion/scratch_scores": scores,
    "fusion/scratch_differences": differences,
    "fusion/scratch_phases": phases,
    "fusion/scratch_by_layer": by_layer,
}
