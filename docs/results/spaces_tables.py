"""The tables of spaces.md that have a verdict, from the tables in docs/results/spaces/<text>/."""

from collections.abc import Callable
from functools import partial

import numpy as np
from judged import MARGIN, POWER, VERDICT, of_items, verdicts
from per_run import stored
from written import CONFIDENCE, NONE, Table, between, number

from isoscope.platform.statistics.paired import Interval
from isoscope.studies.spaces.models_against_seeds import models_against_seeds

MODELS = ("MLM", "CLM", "MT")
TEXTS = {"captions": "captions", "sts": "STS"}
ALIKE = {
    "cka": "CKA",
    "pwcca_one": "PWCCA",
    "cca_held_out": "CCA, held out",
    "rsa": "RSA",
    "rsa_partial": "RSA, partial",
    "neighbours": "neighbours",
}
ARMS = {"": "learned, tied", "_untied": "untied", "_scaled": "words × √width", "_sinusoidal": "sinusoidal positions"}
"""Ending of a stored text → tables of its models."""
WORDS, WITHOUT_FORM = "words", "words without their form's mean"


def apart(text: str, of: str) -> Table:
    """Return how much less alike two models are than two seeds of one, by measure: the last layer, and all layers.

    The layers of each pair and measure are a family.
    """
    table = stored(f"spaces/{text}/similarity.parquet")
    table = table[(table["of"] == of) & table["measure"].isin([*ALIKE])]
    seeds = {name: sorted(table["seed"].dropna().astype(int).unique()) for name in MODELS}
    judged = models_against_seeds(table, seeds, confidence=CONFIDENCE, power=POWER, margin=MARGIN)
    rows = []
    for (one, other, measure), own in judged.groupby(["model", "other_model", "measure"], sort=False):
        last = own.loc[own["layer"].idxmax()]
        means = (number(last["between"]), number(last["within"]), number(last["difference"], sign=True))
        over = (between(Interval(last[f"{kind}low"], last[f"{kind}high"])) for kind in ("", "two_way_"))
        holds = ((own["word"] == "holds") & (own["difference"] > 0)).sum()
        verdict = (number(last["p_holm"]), f"*{last['word']}*: {last['reason']}", f"{holds} of {len(own)} layers")
        rows.append((f"{one} × {other}", ALIKE[measure], *means, *over, *verdict))
    columns = ("two models", "two seeds", "difference", "over seeds", "over seeds and sentences", "p (Holm)")
    return Table(("pair", "measure", *columns, "verdict, last layer", "holds in"), rows)


def claims_by_tables(text: str) -> Table:
    """Return the published claims for models with other tables, and how far each is from that of learned, tied tables.

    All claims are a family, and all differences are.
    """
    own = {(claim, tables): cells(text + tables) for claim, cells in CLAIMS.items() for tables in ARMS}
    less = {key: cells - own[key[0], ""] for key, cells in own.items() if key[1]}
    judged, apart = (dict(zip(family, _judged([*family.values()]), strict=True)) for family in (own, less))
    rows = [
        (claim, ARMS[tables], mean, both, verdict, *apart.get((claim, tables), [NONE] * 4))
        for (claim, tables), (mean, both, _, verdict) in judged.items()
    ]
    columns = ("mean", "over seeds and sentences", "verdict", "less learned, tied", "over seeds and sentences")
    return Table(("claim", "tables", *columns, "detectable", "verdict of the difference"), rows)


def _judged(family: list[np.ndarray]) -> list[tuple[str, ...]]:
    """Return mean, interval over seeds and sentences, detectable effect and verdict of each."""
    return [(mean, both, *rest) for _, mean, _, both, _, *rest in verdicts([*map(of_items, family)])]


def claims() -> Table:
    """Return the published claims about contextuality on each text; a claim says that a number is above 0; a family."""
    found = {(claim, text): cells(text) for claim, cells in CLAIMS.items() for text in TEXTS}
    judged = zip(found, verdicts([*map(of_items, found.values())]), strict=True)
    return Table(("claim", "text", *VERDICT), [(claim, TEXTS[text], *cells) for (claim, text), cells in judged])


def at(text: str, measure: str, model: str, layer: int) -> np.ndarray:
    """Return the jackknife's pseudo-values `[seeds, groups of sentences]` of a measure of a model's layer.

    They are shifted so that a seed's mean is the measure itself: a number is the same in every table.
    """
    table = stored(f"spaces/{text}/contextuality.parquet")
    chosen = (table["measure"] == measure) & (table["model"] == model) & (table["layer"] == layer) & ~table["twin"]
    rows = table[chosen].sort_values("seed")
    without = np.stack([*rows["without"]])
    apart = without.mean(1, keepdims=True) - without
    return rows["value"].to_numpy()[:, None] + (without.shape[1] - 1) * apart


CLAIMS: dict[str, Callable[[str], np.ndarray]] = {
    "AvgSim at layer 0 is high in MT: MT − MLM": lambda text: (
        at(text, "avg_sim", "MT", 0) - at(text, "avg_sim", "MLM", 0)
    ),
    "AvgSim rises in MLM: layer 2 − layer 0": lambda text: (
        at(text, "avg_sim", "MLM", 2) - at(text, "avg_sim", "MLM", 0)
    ),
    "AvgSim's last step is steep in MT: (2 − 1) − (1 − 0)": lambda text: (
        at(text, "avg_sim", "MT", 2) - 2 * at(text, "avg_sim", "MT", 1) + at(text, "avg_sim", "MT", 0)
    ),
    "MLM is more contextual: SelfSim − AvgSim of the last layer, MT − MLM": lambda text: (
        at(text, "self_sim_corrected", "MT", 2) - at(text, "self_sim_corrected", "MLM", 2)
    ),
}
TABLES: dict[str, Callable[[], Table]] = {
    "spaces/claims": claims,
    "spaces/apart": partial(apart, "captions", WORDS),
    "spaces/claims_by_tables": partial(claims_by_tables, "captions"),
    "spaces/apart_context": partial(apart, "captions", WITHOUT_FORM),
    "spaces/apart_sts": partial(apart, "sts", WORDS),
}
