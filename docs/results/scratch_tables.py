"""The tables of scratch.md: 25 epochs at the published rate: scores, cosines of tokens, phases of training."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from fusion_tables import SMALL, UNIT, above_chance, difference
from judged import VERDICT, Tested, apart, of_items, verdicts
from per_run import by_item, by_seed, seeds_of, stored
from written import NONE, Table, short, spread

RUNS, LAST = "scratch/runs", "scratch/last"
ADDITIVE, CONV2D = "additive", "conv2d_unit"
ARMS = {ADDITIVE: SMALL, CONV2D: UNIT, "conv2d": SMALL, "fft_unit": UNIT, "fft_residual": SMALL}
"""Arm → its word and position tables."""
UNSTRUCTURED = "Unstructured"
PHASES = (
    UNSTRUCTURED,
    "Entering structure",
    "Maximum separation",
    "Morphological changes",
    "Late homogenisation",
)
FALL = 0.2
"""Over-compression: this share of the best separability above chance is lost at the end."""


def ran() -> list[str]:
    """Return the arms with runs, in the order of `ARMS`."""
    found = by_seed(RUNS)
    return [arm for arm in ARMS if arm in found]


def at_the_end() -> dict[str, dict[int, np.ndarray]]:
    """Return arm → seed → which validation sentences are right after the last epoch."""
    found: dict[str, dict[int, np.ndarray]] = {arm: {} for arm in ran()}
    for run, right in by_item(LAST).items():
        arm, _, seed = run.partition("/")
        found[arm][int(seed)] = right
    return found


def cosines(pairs: str = "all") -> dict[str, dict[int, float]]:
    """Return arm → seed → mean cosine of tokens after the embedding block, at the selected epoch."""
    table = stored("scratch/cosines.csv")
    return seeds_of(table[table["pairs"] == pairs].rename(columns={"cosine": "value"}))


def course() -> pd.DataFrame:
    """Return separability by arm, seed, epoch and layer, with the phase of the epoch, and chance; best: selected."""
    return stored("scratch/course.csv")


def scores() -> Table:
    """Return a row per arm: selected epochs, test accuracy there, accuracy at the end, cosine of tokens."""
    best, test, end, cosine = by_seed(RUNS, "training/best_epoch"), by_seed(RUNS), at_the_end(), cosines()
    minutes = by_seed(RUNS, "training/seconds")
    rows: list[Sequence[object]] = [
        (
            arm,
            ARMS[arm],
            len(test[arm]),
            ", ".join(f"{epoch:.0f}" for epoch in best[arm].values()),
            spread(test[arm].values()),
            spread(right.mean() for right in end[arm].values()),
            spread(cosine[arm].values()),
            f"{np.median([*minutes[arm].values()]) / 60:.0f}",
        )
        for arm in ran()
    ]
    baselines = stored(f"{RUNS}.csv").query("seed.isna() and metric == 'test/accuracy'")
    rows += [
        (f"*{str(one['arm']).replace('_', ' ')}*", "", "", "", short(one["value"]), "", "", "")
        for one in baselines.to_dict("records")
    ]
    heads = ("selected epochs", "test accuracy", "validation accuracy, last epoch", "mean cosine of tokens", "minutes")
    return Table(("arm", "tables", "seeds", *heads), rows)


def differences() -> Table:
    """Return differences in three families of four: test accuracy, validation accuracy at the end, cosine of tokens."""
    less = [(arm, ADDITIVE) for arm in ran() if arm != ADDITIVE]
    families: Mapping[str, tuple[Sequence[tuple[str, str]], Callable[[str, str], Tested]]] = {
        "test accuracy": (less, lambda one, other: difference(RUNS, one, other)),
        "validation accuracy, last epoch": (less, _at_the_end),
        "mean cosine of tokens": (
            [(CONV2D, arm) for arm in ran() if arm != CONV2D],
            lambda one, other: apart(cosines()[one], cosines()[other], items=False),
        ),
    }
    rows = []
    for name, (pairs, tested) in families.items():
        judged = verdicts([tested(*pair) for pair in pairs], short, claims=False)
        rows += [(name, f"{one} − {other}", *cells) for (one, other), cells in zip(pairs, judged, strict=True)]
    return Table(("of", "difference", *VERDICT), rows)


def _at_the_end(one: str, other: str) -> Tested:
    ends = at_the_end()
    seeds = [seed for seed in ends[one] if seed in ends[other]]
    sides = [np.stack([ends[arm][seed] for seed in seeds]) for arm in (one, other)]
    return of_items(sides[0] - sides[1], above=above_chance(LAST, [side.mean() for side in sides]), scale=1.0)


def phases() -> Table:
    """Return per arm: in which epochs each phase occurs, when a run leaves chance, and what separability it loses."""
    table = course()
    last = table[table["layer"] == table["layer"].max()].sort_values("epoch")
    rows = []
    for arm in ran():
        runs = [run for _, run in last[last["arm"] == arm].groupby("seed")]
        cells = [_when([run.loc[run["phase"] == phase, "epoch"].tolist() for run in runs]) for phase in PHASES]
        leaves = [run.loc[run["phase"] != UNSTRUCTURED, "epoch"].min() for run in runs]
        ends = [run["separability"].iloc[-1] for run in runs]
        best = [run["separability"].max() for run in runs]
        above = [top - run["chance"].iloc[0] for top, run in zip(best, runs, strict=True)]
        lost = sum(top - end >= FALL * most > 0 for top, end, most in zip(best, ends, above, strict=True))
        first = ", ".join(NONE if np.isnan(epoch) else f"{epoch:.0f}" for epoch in leaves)
        rows.append((arm, *cells, first, spread(best), spread(ends), f"{lost} of {len(runs)}"))
    return Table(("arm", *PHASES, "leaves chance", "best separability", "at the end", "over-compressed"), rows)


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
        for arm in ran()
        for phase in PHASES
        if (arm, phase) in found.index
    ]
    return Table(("arm", "phase", *(f"layer {layer}" for layer in found)), rows)


def pairs_of_tokens() -> Table:
    """Return the mean cosine of tokens after the embedding block, at the selected epoch, by kind of pair."""
    kinds = dict.fromkeys(stored("scratch/cosines.csv")["pairs"])
    rows = [(arm, *(spread(cosines(kind).get(arm, {}).values()) for kind in kinds)) for arm in ran()]
    return Table(("arm", *kinds), rows)


TABLES: dict[str, Callable[[], Table]] = {
    "scratch/scores": scores,
    "scratch/differences": differences,
    "scratch/phases": phases,
    "scratch/by_layer": by_layer,
    "scratch/pairs": pairs_of_tokens,
}
