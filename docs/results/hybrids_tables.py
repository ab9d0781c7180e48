"""The tables of hybrids.md, from the runs that hybrids_runs.py stores in docs/results/hybrids/."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from dynamics_claims import VERDICT, verdicts
from dynamics_stored import Lines, head, interval, number

from isoscope.platform.statistics.rank_agreement import rank_correlation
from isoscope.studies.hybrids.tables import MEASURES, NOT_TUNED, SCORES, TUNED, called, predictors

STORED = Path(__file__).parent / "hybrids"
DIGITS = 5
"""Decimals that are ranked: measures that a rotation does not change differ by rounding."""
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
KINDS = {
    "rotated": ("procrustes", "procrustes-first", "other_seed", "itself"),
    "linear map": ("ridge", "ridge-first"),
    "trained": ("trained", "trained-first", "random", "random-first"),
}
"""Kind of alignment → its starts. Starts of several kinds differ in what was done to them, too."""
UNMAPPED = {
    "ridge": "identity",
    "trained": "identity",
    "ridge-first": "procrustes-first",
    "trained-first": "procrustes-first",
}
"""Start → start of the same encoder and layer whose CKA and Procrustes, which no rotation changes, are known."""
INVARIANT = ("cka", "procrustes")
LAYERED = ("procrustes", "ridge", "trained", "random")
TUNINGS = {"none": NOT_TUNED, "all": TUNED}
FROZEN = {
    "all": "nothing",
    "frozen_embeddings": "encoder's word and position tables",
    "frozen_encoder": "encoder",
    "frozen_decoder": "decoder",
}
CLAIMS = {
    "none": (
        ("an aligned encoder translates", "trained", "identity"),
        ("its training adds to a linear map", "trained", "ridge"),
        ("the masked model's training helps", "trained", "random"),
        ("it lacks to MT's own encoder", "itself", "trained"),
    ),
    "all": (
        ("an alignment helps", "trained", "identity"),
        ("its training adds to a linear map", "trained", "ridge"),
        ("the masked model's training helps", "trained", "random"),
        ("it lacks to MT's own encoder", "itself", "trained"),
    ),
}
"""Tuning → claims that the first start is above the second."""


def runs(study: str, metric: str) -> dict[str, dict[int, float]]:
    """Return arm → seed → value of a metric of a study's runs."""
    table = pd.read_csv(STORED / "runs.csv")
    own = table[(table["study"] == study) & (table["metric"] == metric)]
    return {arm: dict(zip(rows["seed"], rows["value"], strict=True)) for arm, rows in own.groupby("arm", sort=False)}


def near(study: str, when: str) -> pd.DataFrame:
    """Return how near the encoders of a study are: arm, seed, measure, value, n."""
    table = pd.read_parquet(STORED / "nearness.parquet")
    return table[(table["study"] == study) & (table["when"] == when)]


def cell(values: Iterable[float], digits: int) -> str:
    """Format values of seeds; a dash for none."""
    found = [*values]
    return interval(found, digits) if found else "–"


def of_measure(study: str, when: str, arm: str, measure: str) -> list[float]:
    """Return a measure's values by seed."""
    table = near(study, when)
    return [*table["value"][(table["arm"] == arm) & (table["measure"] == measure)]]


def starts() -> Lines:
    """Yield how near each aligned encoder is, and its BLEU and chrF, as aligned and after training on pairs."""
    columns = ("R²", "CSLS", "BLEU, as aligned", "chrF, as aligned", "BLEU, trained on", "chrF, trained on")
    yield from head("start", "encoder", "seeds", *columns, left=2)
    for start, what in STARTS.items():
        arm = f"alignment-{start}"
        cells = [cell(of_measure("aligned", "after", arm, "r2"), 2)]
        cells.append(cell(of_measure("aligned", "after", arm, "retrieval_forward"), 2))
        found = {
            (of, score): runs("hybrid", score).get(f"translation-{start}-{of}", {})
            for of in TUNINGS
            for score in SCORES
        }
        cells += [cell(found[of, score].values(), 1) for of in TUNINGS for score in SCORES]
        yield f"| `{start}` | {what} | {max(map(len, found.values()))} | {' | '.join(cells)} |"


def claims() -> Lines:
    """Yield differences of BLEU between starts, with verdicts; a claim says that the first is better."""
    yield from head("claim: BLEU", "difference", *VERDICT, left=2)
    rows = [(of, *claim) for of, some in CLAIMS.items() for claim in some]
    found = judged([sides("hybrid", f"{first}-{of}", f"{second}-{of}") for of, _, first, second in rows])
    for (of, claim, first, second), cells in zip(rows, found, strict=True):
        yield f"| {claim}, {TUNINGS[of]} | {first} − {second} | {cells} |"


def judged(pairs: Sequence[np.ndarray]) -> Lines:
    """Yield the cells `VERDICT` of differences in shares of BLEU; p by Holm over all. BLEU of no translation is 0.

    `pairs`: of each, both sides `[2, seeds, sentences]`.
    """
    values = [first - second for first, second in pairs]
    above = [list(both.mean((1, 2))) for both in pairs]
    yield from map(" | ".join, verdicts(values, MARGIN, above=above))


def sides(study: str, first: str, second: str) -> np.ndarray:
    """Return the shares of BLEU of two arms of a study, `[2, seeds, sentences]`, of the seeds of both.

    An arm whose translations match too few n-grams for shares has its BLEU in place of each.
    """
    scores = runs(study, "bleu")
    shares = pd.read_parquet(STORED / "shares.parquet")
    arms = [f"translation-{start}" for start in (first, second)]
    seeds = sorted(scores[arms[0]].keys() & scores[arms[1]].keys())
    found = [
        np.stack([np.nan_to_num(shares[f"{study}/{arm}/{seed}"], nan=scores[arm][seed]) for seed in seeds])
        for arm in arms
    ]
    return np.stack(found)


def few() -> Lines:
    """Yield BLEU as aligned on fewer sentences: the masked model, random weights, and their difference."""
    yield from head("sentences", "R², masked", "R², random", "BLEU, masked", "BLEU, random", *VERDICT)
    rows = {"hundredth": "290", "tenth": "2,900", "": "29,000"}
    pairs = {
        of: ("hybrid_few", f"trained_{of}-none", f"random_{of}-none")
        if of
        else ("hybrid", "trained-none", "random-none")
        for of in rows
    }
    found = judged([sides(*one) for one in pairs.values()])
    for (of, (study, *both)), verdict in zip(pairs.items(), found, strict=True):
        aligned = "aligned_few" if of else "aligned"
        near_by = (
            of_measure(aligned, "after", f"alignment-{one}{'-' * bool(of)}{of}", "r2") for one in ("trained", "random")
        )
        scores = (runs(study, "bleu")[f"translation-{one}"].values() for one in both)
        cells = [*(cell(one, 2) for one in near_by), *(cell(one, 1) for one in scores)]
        yield f"| {rows[of]} | {' | '.join(cells)} | {verdict} |"


def frozen() -> Lines:
    """Yield BLEU and chrF of hybrids of the trained alignment, trained on with parts that do not learn."""
    yield from head("what does not learn", "seeds", *SCORES.values())
    for of, what in FROZEN.items():
        found = [runs("hybrid_frozen", score).get(f"translation-trained-{of}", {}) for score in SCORES]
        yield f"| {what} | {len(found[0])} | {' | '.join(cell(one.values(), 1) for one in found)} |"


def measures() -> Lines:
    """Yield every measure of nearness of each start after its alignment."""
    yield from head("start", *MEASURES.values())
    for start in STARTS:
        cells = (cell(of_measure("aligned", "after", f"alignment-{start}", name), 2) for name in MEASURES)
        yield f"| `{start}` | {' | '.join(cells)} |"


def before(start: str, measure: str) -> list[float]:
    """Return a measure by seed of an encoder before its alignment, without a map; empty where it was not measured.

    The stored values were measured through the map that an alignment begins with. A rotation, scaling and shift does
    not change the measures of `INVARIANT`, so these are known from starts of the same encoder that were only rotated.
    """
    known = UNMAPPED.get(start, start)
    if measure not in INVARIANT or known.startswith("random"):
        return []
    return of_measure(
        "aligned_layers" if known.endswith("first") else "aligned", "before", f"alignment-{known}", measure
    )


def kinds() -> Lines:
    """Yield the starts by kind of alignment: nearness before it, and BLEU as aligned."""
    yield from head("alignment", "start", "CKA, before", "Procrustes, before", "BLEU, as aligned", left=2)
    bleu = _as_aligned()
    for kind, members in KINDS.items():
        for start in sorted(members, key=lambda one: np.mean([*bleu[one].values()])):
            cells = [*(cell(before(start, name), 2) for name in INVARIANT), cell(bleu[start].values(), 1)]
            yield f"| {kind} | `{start}` | {' | '.join(cells)} |"


def _as_aligned() -> dict[str, dict[int, float]]:
    """Return start → seed → BLEU without training on pairs, of starts of the encoder's last and first layer."""
    found = {start: runs("hybrid", "bleu")[f"translation-{start}-none"] for start in STARTS}
    first = {f"{start}-first": runs("hybrid_layers", "bleu")[f"translation-{start}_first-none"] for start in LAYERED}
    return found | first


def within_kinds() -> Lines:
    """Yield Spearman's correlation of each measure with BLEU as aligned, over starts of one kind, and over all."""
    bleu = {start: np.mean([*values.values()]) for start, values in _as_aligned().items()}
    after = pd.concat([near("aligned", "after"), near("aligned_layers", "after")])
    after = after.assign(start=after["arm"].map(called)).groupby(["measure", "start"])["value"].mean()

    def shown(values: Mapping[str, float]) -> str:
        if len(values) < 4:
            return "–"
        pairs = np.array([[value, bleu[start]] for start, value in values.items()]).round(DIGITS).T
        return number(rank_correlation(*pairs).rho, 2)

    columns = ("rotated (n 4), before", "rotated (n 4)", "trained (n 4)", "all kinds (n 11)")
    yield from head("measure", *columns)
    for name, title in MEASURES.items():
        known = {start: np.mean(one) for start in KINDS["rotated"] if (one := before(start, name))}
        groups = (
            known,
            *({start: after[name, start] for start in one} for one in (KINDS["rotated"], KINDS["trained"], bleu)),
        )
        yield f"| {title} | {' | '.join(map(shown, groups))} |"


def predicted() -> Lines:
    """Yield which measure of an aligned encoder predicts BLEU: Spearman's correlation over starts."""
    which = {"all starts": (), "without MT's own": ("itself", "other_seed")}
    yield from head("measure", *(f"{name}, {training}" for training in TUNINGS.values() for name in which))
    tables = {name: _predictors(without).set_index(["measure", "training"]) for name, without in which.items()}
    for name, title in MEASURES.items():
        rows = [tables[one].loc[(name, training)] for training in TUNINGS.values() for one in which]
        cells = (f"{number(row['rho'], 2)} (p {number(row['p_holm'], 2)}, n {row['n']:.0f})" for row in rows)
        yield f"| {title} | {' | '.join(cells)} |"


def _predictors(without: Sequence[str]) -> pd.DataFrame:
    nearness = near("aligned", "after").assign(when="after", start=lambda rows: rows["arm"].map(called))
    translated = [
        {"start": start, "training": training, "score": "bleu", "seed": seed, "value": value}
        for of, training in TUNINGS.items()
        for start in STARTS
        if start not in without
        for seed, value in runs("hybrid", "bleu")[f"translation-{start}-{of}"].items()
    ]
    return predictors(nearness[nearness["measure"].isin(MEASURES)], pd.DataFrame(translated))


def layers() -> Lines:
    """Yield alignments of the encoder's first layer beside those of its last: nearness, and BLEU as aligned."""
    columns = ("R²", "CSLS", "CKA", "BLEU, as aligned", "chrF, as aligned")
    yield from head("start", "layer", "seeds", *columns, left=2)
    for start in LAYERED:
        for layer, aligned, hybrid, end in (
            (1, "aligned_layers", "hybrid_layers", "first"),
            (2, "aligned", "hybrid", ""),
        ):
            arm = f"alignment-{start}{'-' * bool(end)}{end}"
            cells = [cell(of_measure(aligned, "after", arm, name), 2) for name in ("r2", "retrieval_forward", "cka")]
            scores = [runs(hybrid, score)[f"translation-{start}{'_' * bool(end)}{end}-none"] for score in SCORES]
            cells += [cell(one.values(), 1) for one in scores]
            yield f"| `{start}` | {layer} | {len(scores[0])} | {' | '.join(cells)} |"


def rotations() -> Lines:
    """Yield BLEU of translation models whose own states are rotated, by angle, with measures of nearness."""
    shown = {"r2": "R²", "cosine_forward": "cosine retrieval", "retrieval_forward": "CSLS", "cka": "CKA", "rsa": "RSA"}
    yield from head("degrees", "seeds", "BLEU", "chrF", *shown.values())
    scores = {score: runs("rotated_hybrid", score) for score in SCORES}
    for arm, bleu in scores["bleu"].items():
        degrees = arm.rpartition("_")[2]
        cells = [cell(bleu.values(), 1), cell(scores["chrf"][arm].values(), 1)]
        cells += [cell(of_measure("rotated", "after", f"alignment-by_{degrees}", name), 2) for name in shown]
        yield f"| {degrees} | {len(bleu)} | {' | '.join(cells)} |"


def texts() -> Lines:
    """Yield BLEU and chrF of the hybrids on other texts, as aligned and after training on pairs."""
    table = pd.read_csv(STORED / "texts.csv")
    columns = [(of, score) for of in TUNINGS for score in SCORES]
    yield from head("text", "start", *(f"{SCORES[score]}, {TUNINGS[of]}" for of, score in columns), left=2)
    for text, rows in table.groupby("text", sort=False):
        for start in STARTS:
            cells = (cell(rows[score][rows["arm"] == f"translation-{start}-{of}"], 1) for of, score in columns)
            yield f"| {text} ({rows['sentences'].max():,} sentences) | `{start}` | {' | '.join(cells)} |"


TABLES: dict[str, Callable[[], Lines]] = {
    "hybrids/starts": starts,
    "hybrids/claims": claims,
    "hybrids/few": few,
    "hybrids/frozen": frozen,
    "hybrids/after": measures,
    "hybrids/kinds": kinds,
    "hybrids/within_kinds": within_kinds,
    "hybrids/predictors": predicted,
    "hybrids/layers": layers,
    "hybrids/rotations": rotations,
    "hybrids/texts": texts,
}
