"""The tables of hybrids.md that have a verdict or are on the page, from the runs in docs/results/hybrids/."""

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import pandas as pd
from judged import VERDICT, of_items, verdicts
from per_run import stored
from written import Table, interval, number

from isoscope.studies.hybrids.tables import NEARNESS, NOT_TUNED, SCORES, TUNED, predictors

MARGIN = 1.0
"""BLEU that matters: .01 of its range."""
STARTS = {
    "identity": "no alignment",
    "procrustes": "rotation, scaling and shift",
    "ridge": "linear map",
    "trained": "encoder and map trained (published)",
    "random": "the same, encoder of random weights",
    "other_seed": "MT encoder of another seed, rotated",
    "itself": "MT's own encoder",
}
TUNINGS = {"none": NOT_TUNED, "all": TUNED}
SENTENCES = {"_hundredth": "290", "_tenth": "2,900", "": "29,000"}
ADDS, HELPS, LACKS = (
    ("its training adds to a linear map", "trained", "ridge"),
    ("the masked model's training helps", "trained", "random"),
    ("it lacks to MT's own encoder", "itself", "trained"),
)
CLAIMS = {
    "none": (("an aligned encoder translates", "trained", "identity"), ADDS, HELPS, LACKS),
    "all": (("an alignment helps", "trained", "identity"), ADDS, HELPS, LACKS),
}
"""Tuning → claims that the first start is above the second."""
BEFORE = ("cka", "procrustes", "pwcca", "rsa", "neighbours")
"""Measures that do not depend on a rotation, so that they say something of two spaces before a map."""
ENCODERS = {
    "masked_125": "masked, 125 updates",
    "masked_250": "masked, 250 updates",
    "masked_500": "masked, 500 updates",
    "masked_1000": "masked, 1,000 updates",
    "masked_4000": "masked, 4,000 updates",
    "masked_first": "masked, its first layer",
    "masked_deep": "masked, 4 layers",
    "masked_tenth": "masked, a tenth of the sentences",
    "masked_sinusoidal": "masked, sinusoidal positions",
    "causal": "causal",
    "translation_250": "translation, 250 updates",
    "translation_1000": "translation, 1,000 updates",
    "translation_4000": "translation, 4,000 updates",
    "random": "random weights",
}
MASKED = tuple(one for one in ENCODERS if one.startswith("masked"))
BUDGETS = tuple(one for one in MASKED if one.removeprefix("masked_").isdigit())
DIFFERENCES = (
    ("masked_250", "random"),
    ("masked_500", "random"),
    ("masked_1000", "random"),
    ("masked_first", "masked_4000"),
)


def scores(study: str, arm: str, metric: str = "bleu") -> dict[int, float]:
    """Return seed → value of a metric of an arm's runs."""
    table = stored("hybrids/runs.csv")
    own = table[(table["study"] == study) & (table["arm"] == f"translation-{arm}") & (table["metric"] == metric)]
    return dict(zip(own["seed"], own["value"], strict=True))


def near(study: str, start: str, measure: str) -> str:
    """Return a measure of nearness after an alignment: mean over seeds with interval."""
    table = stored("hybrids/nearness.parquet")
    own = table[(table["study"] == study) & (table["arm"] == f"alignment-{start}") & (table["when"] == "after")]
    return interval(own.loc[own["measure"] == measure, "value"], 2)


def starts() -> Table:
    """Return how near each aligned encoder is, and its BLEU and chrF, as aligned and after training on pairs."""
    rows = []
    for start, what in STARTS.items():
        found = [scores("hybrid", f"{start}-{of}", metric) for of in TUNINGS for metric in SCORES]
        nearness = (near("aligned", start, measure) for measure in ("r2", "retrieval_forward"))
        cells = (interval(one.values(), 1) for one in found)
        rows.append((f"`{start}`", what, max(map(len, found)), *nearness, *cells))
    columns = (f"{score}, {of}" for of in TUNINGS.values() for score in SCORES.values())
    return Table(("start", "encoder", "seeds", "R²", "CSLS", *columns), rows)


def claims() -> Table:
    """Return differences of BLEU between starts; a claim says that the first is better; a family."""
    rows = [(of, *claim) for of, some in CLAIMS.items() for claim in some]
    family = judged([sides("hybrid", f"{first}-{of}", f"{second}-{of}") for of, _, first, second in rows])
    found = [
        (f"{claim}, {TUNINGS[of]}", f"{first} − {second}", *cells)
        for (of, claim, first, second), cells in zip(rows, family, strict=True)
    ]
    return Table(("claim: BLEU", "difference", *VERDICT), found)


def judged(pairs: Sequence[np.ndarray]) -> list[tuple[str, ...]]:
    """Return the cells `VERDICT` of differences in shares of BLEU, which is 0 of no translation.

    `pairs`: of each, both sides `[2, seeds, sentences]`.
    """
    above = ([float(side) for side in both.mean((1, 2))] for both in pairs)
    tests = [of_items(one - other, above=over, margin=MARGIN) for (one, other), over in zip(pairs, above, strict=True)]
    return [*verdicts(tests)]


def sides(study: str, *arms: str) -> np.ndarray:
    """Return the shares of BLEU of two arms of a study, `[2, seeds, sentences]`, of the seeds of both.

    An arm whose translations match too few n-grams for shares has its BLEU in place of each.
    """
    shares, bleu = stored("hybrids/shares.parquet"), [scores(study, arm) for arm in arms]
    seeds = sorted(set.intersection(*map(set, bleu)))
    found = [
        [np.nan_to_num(shares[f"{study}/translation-{arm}/{seed}"], nan=own[seed]) for seed in seeds]
        for arm, own in zip(arms, bleu, strict=True)
    ]
    return np.array(found)


def few() -> Table:
    """Return BLEU as aligned on fewer sentences: the masked model, random weights, and their difference; a family."""
    both, studies = ("trained", "random"), {of: "_few" if of else "" for of in SENTENCES}
    family = judged([sides(f"hybrid{few}", *(f"{one}{of}-none" for one in both)) for of, few in studies.items()])
    rows = []
    for (of, few), cells in zip(studies.items(), family, strict=True):
        nearness = (near(f"aligned{few}", f"{one}{of.replace('_', '-')}", "r2") for one in both)
        bleu = (interval(scores(f"hybrid{few}", f"{one}{of}-none").values(), 1) for one in both)
        rows.append((SENTENCES[of], *nearness, *bleu, *cells))
    return Table(("sentences", "R², masked", "R², random", "BLEU, masked", "BLEU, random", *VERDICT), rows)


def encoders() -> Table:
    """Return how near each of fourteen encoders is before its linear map, and BLEU after it, means over seeds."""
    near, bleu = before(), stored("hybrids/encoders_translated.csv").query("score == 'bleu'")
    means = near.groupby(["start", "measure"])["value"].mean()
    rows = []
    for start, own in sorted(bleu.groupby("start"), key=lambda one: -one[1]["value"].mean()):
        cells = (number(means[start, measure], 2) for measure in BEFORE)
        rows.append((ENCODERS[start.removeprefix("ridge-")], len(own), *cells, interval(own["value"], 1)))
    return Table(("encoder", "seeds", *(NEARNESS[one] for one in BEFORE), "BLEU, as aligned"), rows)


def before() -> pd.DataFrame:
    """Return the nearness of each encoder to the decoder's own before a map: start, when, measure, seed, value."""
    near = stored("hybrids/encoders_nearness.csv")
    return near[(near["when"] == "before") & near["measure"].isin(BEFORE)]


def predicting() -> Table:
    """Return Spearman's ρ of nearness before the map with BLEU after it, of all encoders and of the masked.

    Each is a family of tests.
    """
    return over_encoders({"encoders": ENCODERS, "masked": MASKED})


def predicting_further() -> Table:
    """Return the same of the encoders that are no translation models, and over the training of the masked model.

    These families were not declared before the runs.
    """
    others = [one for one in ENCODERS if not one.startswith("translation")]
    return over_encoders({"without translation models": others, "budgets of the masked model": BUDGETS})


def over_encoders(families: Mapping[str, Collection[str]]) -> Table:
    """Return Spearman's ρ of nearness before the map with BLEU after it, over each family of encoders."""
    near, bleu = before(), stored("hybrids/encoders_translated.csv")
    found = [
        predictors(near[near["start"].isin([f"ridge-{one}" for one in some])], bleu).set_index("measure")
        for some in families.values()
    ]
    digits = {"rho": 2, "p": 4, "p_holm": 4}
    rows = [
        (NEARNESS[one], *(number(own.loc[one, name], places) for own in found for name, places in digits.items()))
        for one in BEFORE
    ]
    heads = [f"{name}, {len(some)} {what}" for what, some in families.items() for name in ("ρ", "p", "p (Holm)")]
    return Table(("before the map", *heads), rows)


def encoder_differences() -> Table:
    """Return differences of BLEU after the map and of nearness before it, of the same seeds, between encoders.

    They were not declared before the runs and have no test: intervals over seeds alone.
    """
    bleu = stored("hybrids/encoders_translated.csv").query("score == 'bleu'").assign(measure="bleu")
    values = pd.concat([before(), bleu]).pivot_table(index=["start", "measure"], columns="seed", values="value")
    heads, rows = {"bleu": "BLEU, as aligned", **{one: NEARNESS[one] for one in BEFORE}}, []
    for first, second in DIFFERENCES:
        own = values.loc[f"ridge-{first}"] - values.loc[f"ridge-{second}"]
        cells = (interval(own.loc[one], 1 if one == "bleu" else 2) for one in heads)
        rows.append((f"{ENCODERS[first]} − {ENCODERS[second]}", own.shape[1], *cells))
    return Table(("difference", "seeds", *heads.values()), rows)


def earlier_starts() -> Table:
    """Return ρ of nearness after the alignment, before any training on pairs, with BLEU, over the starts of one depth.

    Families: all starts, and those without an encoder of MT's own.
    """
    table = stored("hybrids/nearness.parquet")
    near = table[(table["study"] == "aligned") & (table["when"] == "after") & table["measure"].isin(NEARNESS)]
    near = near.assign(start=near["arm"].str.removeprefix("alignment-"))
    found = []
    for without in ((), ("other_seed", "itself")):
        bleu = [
            {"start": start, "training": training, "score": "bleu", "seed": seed, "value": value}
            for of, training in TUNINGS.items()
            for start in STARTS
            if start not in without
            for seed, value in scores("hybrid", f"{start}-{of}").items()
        ]
        found.append(predictors(near, pd.DataFrame(bleu)).set_index(["training", "measure"]))
    rows = []
    for measure in [one for one in NEARNESS if (NOT_TUNED, one) in found[0].index]:
        cells = [own.loc[(training, measure)] for training in TUNINGS.values() for own in found]
        shown = (f"{number(one['rho'], 2)} (p {number(one['p_holm'], 2)}, n {one['n']:.0f})" for one in cells)
        rows.append((NEARNESS[measure], *shown))
    heads = [f"{which}, {training}" for training in TUNINGS.values() for which in ("all starts", "without MT's own")]
    return Table(("measure", *heads), rows)


TABLES: dict[str, Callable[[], Table]] = {
    "hybrids/starts": starts,
    "hybrids/predictors": earlier_starts,
    "hybrids/encoders": encoders,
    "hybrids/predicting": predicting,
    "hybrids/predicting_further": predicting_further,
    "hybrids/encoder_differences": encoder_differences,
    "hybrids/claims": claims,
    "hybrids/few": few,
}
