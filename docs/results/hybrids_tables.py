"""The tables of hybrids.md, from the runs in docs/results/hybrids/."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
from judged import VERDICT, of_items, verdicts
from per_run import stored
from written import NONE, Table, grid, interval, number, same, titled

from isoscope.platform.statistics.rank_agreement import rank_correlation
from isoscope.studies.hybrids.tables import MEASURES, NOT_TUNED, SCORES, TUNED, predictors

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
INVARIANT = {"before cka": "CKA, before", "before procrustes": "Procrustes, before"}
LAYERED = ("procrustes", "ridge", "trained", "random")
TUNINGS = {"none": NOT_TUNED, "all": TUNED}
FROZEN = {
    "all": "nothing",
    "frozen_embeddings": "encoder's word and position tables",
    "frozen_encoder": "encoder",
    "frozen_decoder": "decoder",
}
SENTENCES = {"hundredth": "290", "tenth": "2,900", "": "29,000"}
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
NEAR = {f"after {name}": title for name, title in MEASURES.items()}
R2, CSLS, CKA = {"after r2": "R²"}, {"after retrieval_forward": "CSLS"}, {"after cka": "CKA"}
ROTATED = R2 | {"after cosine_forward": "cosine retrieval"} | CSLS | CKA | {"after rsa": "RSA"}
AS_ALIGNED = {f"none {name}": f"{title}, {NOT_TUNED}" for name, title in SCORES.items()}
SCORED = AS_ALIGNED | {f"all {name}": f"{title}, {TUNED}" for name, title in SCORES.items()}
_ARM = r"^[a-z]+-(?P<start>\w+(?:-(?:first|tenth|hundredth))?)(?:-(?P<tuned>\w+))?$"
STUDIES = ("aligned", "aligned_layers", "hybrid", "hybrid_layers")


def values(*studies: str) -> pd.DataFrame:
    """Return the values of studies by seed: start, when (before or after an alignment, or a tuning), measure, value.

    `what`: when and measure. The stored values before an alignment were measured through the map that it begins with.
    A rotation, scaling and shift does not change the measures of `INVARIANT`, so these are known from starts of the
    same encoder that were only rotated; other values before an alignment are left out.
    """
    scores = stored("hybrids/runs.csv").rename(columns={"metric": "measure"})
    scores = scores[scores["measure"].isin([*SCORES])]
    table = pd.concat([stored("hybrids/nearness.parquet"), scores], ignore_index=True)
    table = table[table["study"].isin(studies)]
    arms = table["arm"].str.extract(_ARM)
    when = table["when"].fillna(arms["tuned"]).fillna("")
    start = arms["start"].str.replace(r"_(?=first|tenth|hundredth)", "-", regex=True)
    table = table.assign(start=start, when=when, what=when + " " + table["measure"])
    known = table["what"].isin([*INVARIANT]) & ~start.str.startswith("random") & ~start.isin([*UNMAPPED])
    rotated = table[known]
    others = [rotated[rotated["start"] == own].assign(start=start) for start, own in UNMAPPED.items()]
    return pd.concat([table[(when != "before") | known], *others], ignore_index=True)


def cell(found: pd.Series) -> str:
    """Format a score with one decimal, a measure of nearness with two."""
    return interval(found, 1 if str(found.name).endswith(tuple(SCORES)) else 2)


def of_starts(table: pd.DataFrame, rows: Mapping[str, str], columns: Mapping[str, str], *starts: str) -> Table:
    """Return the cells of `what` by start, in the order of `starts`."""
    return grid(titled(table, start={start: f"`{start}`" for start in starts}), rows, "what", columns, cell)


def starts() -> Table:
    """Return how near each aligned encoder is, and its BLEU and chrF, as aligned and after training on pairs."""
    table = values("aligned", "hybrid")
    rows = same(("start", "encoder", "seeds"))
    return of_starts(table.assign(encoder=table["start"].map(STARTS)), rows, R2 | CSLS | SCORED, *STARTS)


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
    table, shares = stored("hybrids/runs.csv"), stored("hybrids/shares.parquet")
    bleu = table[(table["study"] == study) & (table["metric"] == "bleu")].set_index(["arm", "seed"])["value"]
    runs = [f"translation-{arm}" for arm in arms]
    seeds = sorted(set.intersection(*({*bleu[run].index} for run in runs)))
    found = [[np.nan_to_num(shares[f"{study}/{run}/{seed}"], nan=bleu[run, seed]) for seed in seeds] for run in runs]
    return np.array(found)


def few() -> Table:
    """Return BLEU as aligned on fewer sentences: the masked model, random weights, and their difference; a family."""
    table = values("aligned", "aligned_few", "hybrid", "hybrid_few")
    table[["start", "few"]] = table["start"].str.extract(r"^(\w+?)(?:-(\w+))?$").fillna("")
    table = titled(table, few=SENTENCES).assign(what=table["what"] + " " + table["start"])
    columns = {
        f"{what} {start}": f"{title}, {called}"
        for what, title in (R2 | {"none bleu": "BLEU"}).items()
        for start, called in (("trained", "masked"), ("random", "random"))
    }
    shown = grid(table, {"few": "sentences"}, "what", columns, _few)
    arms = [[f"{one}{'_' * bool(of)}{of}-none" for one in ("trained", "random")] for of in SENTENCES]
    family = judged([sides("hybrid" + "_few" * bool(of), *both) for of, both in zip(SENTENCES, arms, strict=True)])
    rows = [(*row, *cells) for row, cells in zip(shown.rows, family, strict=True)]
    return Table((*shown.head, *VERDICT), rows)


def _few(found: pd.Series) -> str:
    return cell(found.rename(str(found.name).rpartition(" ")[0]))


def frozen() -> Table:
    """Return BLEU and chrF of hybrids of the trained alignment, trained on with parts that do not learn."""
    table = titled(values("hybrid_frozen"), when=FROZEN)
    return grid(table, {"when": "what does not learn", "seeds": "seeds"}, "measure", SCORES, cell)


def after() -> Table:
    """Return every measure of nearness of each start after its alignment."""
    return of_starts(values("aligned"), {"start": "start"}, NEAR, *STARTS)


def kinds() -> Table:
    """Return the starts by kind of alignment: nearness before it, and BLEU as aligned."""
    table = values(*STUDIES)
    bleu = table[table["what"] == "none bleu"].groupby("start")["value"].mean()
    kind = {start: name for name, members in KINDS.items() for start in sorted(members, key=bleu.get)}
    columns = INVARIANT | {"none bleu": AS_ALIGNED["none bleu"]}
    table = table.assign(kind=table["start"].map(kind))
    return of_starts(table, {"kind": "alignment", "start": "start"}, columns, *kind)


def within_kinds() -> Table:
    """Return Spearman's correlation of each measure with BLEU as aligned, over starts of one kind, and over all."""
    table = values(*STUDIES).pivot_table(index="start", columns="what", values="value")
    rows = []
    for name, title in MEASURES.items():
        known = table.get(f"before {name}", pd.Series(np.nan, table.index)).loc[[*KINDS["rotated"]]].dropna()
        groups = [table[f"after {name}"].loc[[*of]] for of in (KINDS["rotated"], KINDS["trained"], table.index)]
        rows.append((title, *(_with_bleu(one, table["none bleu"]) for one in (known, *groups))))
    columns = ("rotated (n 4), before", "rotated (n 4)", "trained (n 4)", "all kinds (n 11)")
    return Table(("measure", *columns), rows)


def _with_bleu(nearness: pd.Series, bleu: pd.Series) -> str:
    pairs = np.array([nearness, bleu.loc[nearness.index]]).round(DIGITS)
    return NONE if len(nearness) < 4 else number(rank_correlation(*pairs).rho, 2)


def predicted() -> Table:
    """Return which measure of an aligned encoder predicts BLEU: Spearman's correlation over starts; two families."""
    which = {"all starts": (), "without MT's own": ("itself", "other_seed")}
    nearness, bleu = values("aligned").query("when == 'after'"), values("hybrid").query("measure == 'bleu'")
    nearness = nearness[nearness["measure"].isin([*MEASURES])]
    bleu = bleu.assign(training=bleu["when"].map(TUNINGS), score="bleu")
    found = [
        predictors(nearness, bleu[~bleu["start"].isin(left_out)]).assign(which=title)
        for title, left_out in which.items()
    ]
    table = titled(pd.concat(found, ignore_index=True), measure=MEASURES)
    numbers = zip(table["rho"], table["p_holm"], table["n"], strict=True)
    texts = [f"{number(rho, 2)} (p {number(p, 2)}, n {n:.0f})" for rho, p, n in numbers]
    table = table.assign(value=texts, which=table["which"] + ", " + table["training"])
    columns = same(f"{title}, {training}" for training in TUNINGS.values() for title in which)
    return grid(table, {"measure": "measure"}, "which", columns, lambda one: one.iloc[0])


def layers() -> Table:
    """Return alignments of the encoder's first layer beside those of its last: nearness, and BLEU as aligned."""
    table = values(*STUDIES)
    first = table["start"].str.endswith("-first")
    table = table.assign(start=table["start"].str.removesuffix("-first"), layer=2 - first.astype(int))
    rows = same(("start", "layer", "seeds"))
    return of_starts(table.sort_values("layer", kind="stable"), rows, R2 | CSLS | CKA | AS_ALIGNED, *LAYERED)


def rotations() -> Table:
    """Return BLEU of translation models whose own states are rotated, by angle, with measures of nearness."""
    degrees = {f"by_{angle}": str(angle) for angle in (0, 5, 10, 20, 30, 45, 60, 90)}
    table = titled(values("rotated", "rotated_hybrid"), start=degrees)
    columns = {f" {name}": title for name, title in SCORES.items()} | ROTATED
    return grid(table, {"start": "degrees", "seeds": "seeds"}, "what", columns, cell)


def texts() -> Table:
    """Return BLEU and chrF of the hybrids on other texts, as aligned and after training on pairs."""
    table = stored("hybrids/texts.csv")
    sentences = table.groupby("text")["sentences"].transform("max").map("{:,}".format)
    table = table.assign(text=table["text"] + " (" + sentences + " sentences)").melt(["text", "arm"], [*SCORES])
    arms = table["arm"].str.extract(_ARM)
    table = table.assign(start=arms["start"], what=arms["tuned"] + " " + table["variable"])
    table = titled(table, text=same(table["text"]), start={start: f"`{start}`" for start in STARTS})
    return grid(table, same(("text", "start")), "what", SCORED, cell)


TABLES: dict[str, Callable[[], Table]] = {
    "hybrids/starts": starts,
    "hybrids/claims": claims,
    "hybrids/few": few,
    "hybrids/texts": texts,
    "hybrids/frozen": frozen,
    "hybrids/predictors": predicted,
    "hybrids/kinds": kinds,
    "hybrids/within_kinds": within_kinds,
    "hybrids/layers": layers,
    "hybrids/after": after,
    "hybrids/rotations": rotations,
}
