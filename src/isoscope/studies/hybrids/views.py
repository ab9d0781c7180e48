"""Views of hybrids: their scores, how near their encoders are to the decoder's own, and both against each other."""

import math
from collections.abc import Iterator

import pandas as pd

from isoscope.base.view import View
from isoscope.platform.figures.form import in_order
from isoscope.platform.figures.interval_form import MARKED, Intervals
from isoscope.platform.figures.scatter_form import Scatter
from isoscope.platform.statistics.findings import Untested
from isoscope.studies.hybrids.tables import NEARNESS, NOT_TUNED, SCORES, TUNED, of_translated

CALLED = {NOT_TUNED: "as aligned", TUNED: "after updates on pairs"}
WHEN = {"before": "before: without the map", "after": "after the alignment"}
LOWEST = -1.05
"""Left end of the axes of nearness."""


def scores(table: pd.DataFrame, translated: pd.DataFrame) -> pd.DataFrame:
    """Return each score by start and training, a row per seed, with the interval of their mean."""
    keys = ["start", "training", "score"]
    return translated.merge(table[[*keys, "low", "high"]], on=keys)


def predictors(table: pd.DataFrame, near: pd.DataFrame, translated: pd.DataFrame) -> pd.DataFrame:
    """Return BLEU against each measure of a start, means over seeds; in the title: the rank correlation."""
    keys = ["measure", "start", "training"]
    values = of_translated(near, translated).groupby(keys, sort=False)["value"].mean().reset_index()
    bleu = translated[translated["score"] == "bleu"].groupby(["training", "start"], sort=False)["value"].mean()
    found = values.merge(bleu.rename("bleu").reset_index(), on=["start", "training"])
    rho = table.set_index(["measure", "training"])["rho"].to_dict()
    several = found["training"].nunique() > 1
    places = zip(found["measure"], found["training"], strict=True)
    titles = [
        f"{NEARNESS[one]}\n" + f"{CALLED[when]}: " * several + f"ρ {rho.get((one, when), float('nan')):+.2f}"
        for one, when in places
    ]
    found = found.assign(title=[text.replace("ρ +nan", "").replace("-", "−") for text in titles])
    return in_order(found, "measure", NEARNESS)


def _scores_caption(table: pd.DataFrame, translated: pd.DataFrame) -> str:
    n, (first, *more) = int(table["n"].max()), [one for one in CALLED if one in set(table["training"])]
    seeds = f"n = {n} seeds; lines: t intervals over seeds." if n > 2 else f"n = {n}, so no interval."
    alone = f"Each start is scored {'as it is' if first == NOT_TUNED else 'after updates on pairs'}"
    shown = "Open: the start as it is; filled: after updates on pairs" if more else alone
    itself = " itself: the decoder's own encoder." if (table["start"] == "itself").any() else ""
    return (
        f"Corpus BLEU and chrF of translations of the test split, by what the decoder reads. {shown}. "
        f"Dots: seeds; large marks: their mean. {seeds}{itself}"
    )


def _nearness_caption(table: pd.DataFrame) -> str:
    cut = f" {MARKED}" * bool((table["value"] < LOWEST).any())
    return (
        "How near the states of each encoder are to those of the decoder's own encoder, before (without the map that "
        "the decoder reads through) and after the alignment, for "
        f"{int(table['n'].max()):,} tokens of as many test sentences, a dot per seed. Retrieval: the own target is the "
        f"nearest of all; chance is {1 / table['n'].max():.4f}.{cut}"
    )


def _predictors_caption(table: pd.DataFrame, near: pd.DataFrame, translated: pd.DataFrame) -> str:
    rows = table.dropna(subset=["rho"])
    tests = ", ".join(
        f"{NEARNESS[row.measure]} {row.training} p {row.p_holm:.3f}" for row in rows.itertuples() if row.p_holm < 0.05
    )
    n = int(table["n"].max()) if len(table) else 0
    least = 2 / math.factorial(n)
    found = f"Below .05 after Holm's correction for {len(rows)} tests: {tests or 'none'}."
    if len(rows) and least * len(rows) >= 0.05:
        corrected = f", and {min(1.0, least * len(rows)):.2g} after Holm's correction for {len(rows)} tests"
        found = f"With n = {n}, p is at least 2/{n}! = {least:.2g}{corrected}: none can be below .05."
    if (near["start"] == "itself").any():
        found += " The start itself is the decoder's own encoder: its nearness is about 1 by definition."
    return (
        f"BLEU against measures of nearness of a start, {WHEN[near['when'].iloc[0]]}. A point is the mean over seeds "
        f"of a start. ρ: Spearman's rank correlation over n = {n} starts, p from permutations; none if all are equal. "
        "Starts of several kinds (rotated, mapped, trained) differ in their kind, too: compare starts of a kind. "
        f"{found}"
    )


def _bleu(table: pd.DataFrame, translated: pd.DataFrame) -> Iterator[Untested]:
    """Yield BLEU by start, as aligned and trained on."""
    for training, rows in table[table["score"] == "bleu"].groupby("training", sort=False):
        when = "as aligned, without updates on pairs" if training == NOT_TUNED else "after updates on pairs"
        means = dict(zip(rows["start"], rows["mean"], strict=True))
        own = translated[(translated["score"] == "bleu") & (translated["training"] == training)]
        sds = own.groupby("start")["value"].std().to_dict()
        yield Untested(f"BLEU by start, {when}", means, int(rows["n"].min()), sds=sds)


VIEWS = (
    View(
        "hybrid_scores",
        ("scores", "translated"),
        Intervals(
            points=scores,
            x="value",
            y="start",
            fill="training",
            columns="score",
            names=SCORES | CALLED,
            limits=(0.0, None),
        ),
        _scores_caption,
        findings=_bleu,
        remakes="Vázquez et al. 2021, BLEU before and after alignment",
    ),
    View(
        "hybrid_nearness",
        ("nearness",),
        Intervals(
            x="value",
            y="start",
            fill="when",
            columns="measure",
            labels=("Nearness", ""),
            names=NEARNESS | WHEN,
            limits=(LOWEST, 1.05),
        ),
        _nearness_caption,
    ),
    View(
        "hybrid_predictors",
        ("predictors", "nearness", "translated"),
        Scatter(points=predictors, x="value", y="bleu", series="start", columns="title", labels=("Nearness", "BLEU")),
        _predictors_caption,
        by="when",
    ),
)
