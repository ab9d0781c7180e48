"""The tables of spaces.md, from the tables in docs/results/spaces/<text>/."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pandas as pd
from judged import MARGIN, POWER, VERDICT, of_items, verdicts
from numpy.typing import NDArray
from per_run import stored
from written import CONFIDENCE, NONE, Table, between, grid, number, same, titled

from isoscope.platform.statistics.paired import Interval
from isoscope.platform.statistics.seed_jackknife import over_pairs
from isoscope.studies.spaces.told_apart import told_apart

MODELS, RANDOM = ("MLM", "CLM", "MT"), "random weights"
LAYERS = {-1: "word table", 0: "0", 1: "1", 2: "2"}
TEXTS = {"captions": "captions", "sts": "STS"}
UPDATES = (0, 32, 128, 512, 2048)
CONTEXT = {
    "avg_sim": "AvgSim",
    "avg_sim_other_words": "AvgSim, other forms",
    "avg_sim_centred": "AvgSim, centred",
    "self_sim_corrected": "SelfSim − AvgSim",
    "mev_corrected": "MEV − random words",
    "intra_sim_left_out": "IntraSim, word left out",
    "intra_sim_left_out_pseudo": "*its pseudo-sentences*",
}
ALIKE = {
    "cka": "CKA",
    "pwcca_one": "PWCCA",
    "cca_held_out": "CCA, held out",
    "rsa": "RSA",
    "rsa_partial": "RSA, partial",
    "neighbours": "neighbours",
}
PAIR = ("MLM", "MT")
ARMS = {"": "learned, tied", "_untied": "untied", "_scaled": "words × √width", "_sinusoidal": "sinusoidal positions"}
"""Ending of a stored text → tables of its models."""
PAIRED = ["seed", "other_seed"]
WORDS, WITHOUT_FORM = "words", "words without their form's mean"
Cells = NDArray[np.float64]


def contextuality(text: str) -> pd.DataFrame:
    """Return the measures of one space by layer; the model of random weights is called so."""
    table = stored(f"spaces/{text}/contextuality.parquet").dropna(subset="value")
    return table.assign(model=table["model"].mask(table["twin"], RANDOM))


def similarity(text: str, of: str = WORDS) -> pd.DataFrame:
    """Return the similarities of layers of equal number; `value` is over the null."""
    table = stored(f"spaces/{text}/similarity.parquet")
    table = table[(table["of"] == of) & (table["layer"] == table["other_layer"])]
    pair = _pair(table).mask(table["twin"], RANDOM)
    return table.assign(value=table["adjusted"], pair=pair)


def _pair(table: pd.DataFrame) -> pd.Series:
    model, other = table["model"], table["other_model"]
    return (model + " × " + other).mask(model == other, "two seeds of " + model)


def _last(table: pd.DataFrame) -> pd.DataFrame:
    return table[table["layer"] == table["layer"].max()]


def mean(values: pd.Series) -> str:
    """Format a mean over pairs of seeds."""
    return number(values.mean())


def of_pairs(values: pd.Series) -> str:
    """Format the mean over pairs of runs of a similarity over its null, with its interval over seeds, its index."""
    known = values.dropna()
    found = over_pairs([*known], [*known.index], confidence=CONFIDENCE) if len(known) else None
    return number(known.mean()) + (f" [{number(found.low)}, {number(found.high)}]" if found else "")


def contexts(text: str) -> Table:
    """Return the measures of one space by model and layer, means over seeds with t intervals; random weights below."""
    table = titled(contextuality(text), measure=CONTEXT, model=same((*MODELS, RANDOM)))
    return grid(table, same(("measure", "model")), "layer", LAYERS)


def alike(text: str, of: str) -> Table:
    """Return the similarity of equal layers over its null: of two models, two seeds of each, and random weights."""
    table = similarity(text, of).sort_values("twin", kind="stable")
    null = _last(table).assign(layer="null", value=lambda rows: rows["null"])
    columns = {layer: title for layer, title in LAYERS.items() if (table["layer"] == layer).any()}
    both = titled(pd.concat([table.astype({"layer": object}), null], ignore_index=True), measure=ALIKE)
    return grid(both, same(("measure", "pair")), "layer", columns | {"null": "null, last layer"}, mean)


def apart(text: str, of: str) -> Table:
    """Return how much less alike two models are than two seeds of one, by measure: the last layer, and all layers.

    The layers of each pair and measure are a family.
    """
    table = stored(f"spaces/{text}/similarity.parquet")
    table = table[(table["of"] == of) & table["measure"].isin([*ALIKE])]
    seeds = {name: sorted(table["seed"].dropna().astype(int).unique()) for name in MODELS}
    judged = told_apart(table, seeds, confidence=CONFIDENCE, power=POWER, margin=MARGIN)
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


def over_training(text: str) -> Table:
    """Return the similarity of the last layer over its null, of a model at an update with chosen checkpoints.

    Means over pairs of runs with intervals by jackknife over seeds. The last column is the model's own chosen
    checkpoint (update 4000, or shortly before).
    """
    table = _last(stored(f"spaces/{text}/over_training.parquet"))
    itself = (table["model"] == table["other_model"]) & (table["seed"] == table["other_seed"])
    other = (table["other_model"] + ", next seed").mask(itself, "its own end")
    when = table["update"].map("{:.0f}".format).mask(table["chosen"], "chosen")
    table = table.assign(other=other, when=when, measure=table["measure"].map(ALIKE), value=table["adjusted"])
    rows = {"measure": "measure", "model": "model", "other": "compared with"}
    return grid(table.set_index(PAIRED), rows, "when", same((*map(str, UPDATES), "chosen")), of_pairs)


def frequencies() -> Table:
    """Return SelfSim − AvgSim of the last layer by how often a form occurs in the training split, by text and model."""
    rows = []
    for text, title in TEXTS.items():
        table = by_class(text, "by_frequency")
        classes = same(table["class"])
        shown = grid(titled(table, model=same(MODELS)), {"model": "model"}, "class", classes, _only)
        rows += [(title, *row) for row in (*shown.rows, ("*forms*", *classes))]
    return Table(("text", "model", "rarest", "rare", "frequent", "most frequent"), rows)


def parts_of_speech(text: str) -> Table:
    """Return SelfSim − AvgSim of the last layer by part of speech, of a treebank."""
    return grid(by_class(text, "by_part_of_speech"), {"class": "part of speech"}, "model", same(MODELS), _only)


def by_class(text: str, name: str) -> pd.DataFrame:
    """Return the classes of forms in the last layer; `value`: mean ± standard error."""
    table = _last(stored(f"spaces/{text}/{name}.parquet"))
    numbers = zip(table["mean"], table["error"], strict=True)
    return table.assign(value=[f"{number(value)} ± {number(error)}" for value, error in numbers])


def _only(values: pd.Series) -> str:
    return str(values.item())


def by_tables(text: str) -> Table:
    """Return AvgSim, SelfSim and CKA over its null by layer, of models with other word and position tables."""
    context, alike = (
        pd.concat([read(text + ending).assign(tables=what) for ending, what in ARMS.items()], ignore_index=True)
        for read in (contextuality, similarity)
    )
    shown = {name: CONTEXT[name] for name in ("avg_sim", "self_sim_corrected")}
    pairs = same((" × ".join(PAIR), *(f"two seeds of {name}" for name in PAIR)))
    rows = same(("measure", "model", "tables"))
    of_context = grid(titled(context, measure=shown, model=same(PAIR)), rows, "layer", LAYERS)
    alike = titled(alike, measure={"cka": "CKA"}, pair=pairs).assign(model=lambda rows: rows["pair"])
    of_pair = grid(alike.set_index(PAIRED), rows, "layer", LAYERS, of_pairs)
    return of_context._replace(rows=[*of_context.rows, *of_pair.rows])


def claims_by_tables(text: str) -> Table:
    """Return the published claims for models with other tables, and how far each is from that of learned, tied tables.

    All claims are a family, and all differences are.
    """
    own = {(claim, tables): cells(text + tables) for claim, cells in CLAIMS.items() for tables in ARMS}
    less = {key: cells - own[key[0], ""] for key, cells in own.items() if key[1]}
    (found, apart) = (dict(zip(family, _judged([*family.values()]), strict=True)) for family in (own, less))
    rows = [
        (
            claim,
            ARMS[tables],
            *found[claim, tables][:2],
            found[claim, tables][3],
            *apart.get((claim, tables), [NONE] * 4),
        )
        for claim, tables in own
    ]
    columns = ("mean", "over seeds and sentences", "verdict", "less learned, tied", "over seeds and sentences")
    return Table(("claim", "tables", *columns, "detectable", "verdict of the difference"), rows)


def _judged(family: list[Cells]) -> list[tuple[str, ...]]:
    """Return mean, interval over seeds and sentences, detectable effect and verdict of each."""
    return [(mean, both, *rest) for _, mean, _, both, _, *rest in verdicts([*map(of_items, family)])]


def third(text: str, model: str) -> Table:
    """Return the measures of another checkpoint's space by layer, and its similarity to the models' last layers."""
    own = contextuality(text).query("model == @model")
    table = stored(f"spaces/{text}/similarity.parquet").query("of == @WORDS and not twin and other_model == @model")
    last = table[table["layer"] == table.groupby(["measure", "model"])["layer"].transform("max")]
    last = titled(last, measure={"cka": "CKA", "rsa": "RSA"}, model=same(MODELS))
    last = last.assign(measure=last["measure"] + " with the last layer of " + last["model"], value=last["adjusted"])
    both = pd.concat([titled(own, measure=CONTEXT), last.assign(layer=last["other_layer"])], ignore_index=True)
    layers = {layer: LAYERS.get(layer, str(layer)) for layer in sorted(own["layer"].unique())}
    return grid(both, {"measure": "measure"}, "layer", layers, mean)


def quoted(text: str) -> Table:
    """Return CKA of the last layers over its null with 20 and with 200 permutations, means over pairs of seeds."""
    many = stored(f"spaces/{text}/quoted.parquet")
    few = stored(f"spaces/{text}/similarity.parquet").query("measure == 'cka' and not twin and layer == other_layer")
    both = pd.concat([many.assign(permutations=200), _last(few).assign(permutations=20)], ignore_index=True)
    both = both.assign(pair=_pair(both)).melt(["pair", "of", "permutations"], ["value", "null", "adjusted"])
    what = both["variable"] + ", " + both["permutations"].astype(str)
    columns = {"value, 200": "value", "null, 20": "null, 20", "null, 200": "null, 200"}
    columns |= {f"adjusted, {count}": f"over the null, {count}" for count in (20, 200)}
    return grid(both.assign(what=what), same(("pair", "of")), "what", columns, mean)


def claims() -> Table:
    """Return the published claims about contextuality on each text; a claim says that a number is above 0; a family."""
    found = {(claim, text): cells(text) for claim, cells in CLAIMS.items() for text in TEXTS}
    judged = zip(found, verdicts([*map(of_items, found.values())]), strict=True)
    return Table(("claim", "text", *VERDICT), [(claim, TEXTS[text], *cells) for (claim, text), cells in judged])


def at(text: str, measure: str, model: str, layer: int) -> Cells:
    """Return the jackknife's pseudo-values `[seeds, groups of sentences]` of a measure of a model's layer.

    They are shifted so that a seed's mean is the measure itself: a number is the same in every table.
    """
    table = contextuality(text)
    chosen = (table["measure"] == measure) & (table["model"] == model) & (table["layer"] == layer)
    rows = table[chosen].sort_values("seed")
    without = np.stack([*rows["without"]])
    apart = without.mean(1, keepdims=True) - without
    found: Cells = rows["value"].to_numpy()[:, None] + (without.shape[1] - 1) * apart
    return found


CLAIMS: dict[str, Callable[[str], Cells]] = {
    "AvgSim at layer 0 is high in MT: MT − MLM": lambda text: (
        at(text, "avg_sim", "MT", 0) - at(text, "avg_sim", "MLM", 0)
    ),
    "AvgSim rises gradually in MLM: layer 2 − layer 0": lambda text: (
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
    "spaces/by_tables": partial(by_tables, "captions"),
    "spaces/contexts": partial(contexts, "captions"),
    "spaces/contexts_sts": partial(contexts, "sts"),
    "spaces/frequencies": frequencies,
    "spaces/parts_of_speech_ewt": partial(parts_of_speech, "ewt"),
    "spaces/alike": partial(alike, "captions", WORDS),
    "spaces/alike_context": partial(alike, "captions", WITHOUT_FORM),
    "spaces/alike_sts": partial(alike, "sts", WORDS),
    "spaces/quoted_captions": partial(quoted, "captions"),
    "spaces/apart_context": partial(apart, "captions", WITHOUT_FORM),
    "spaces/apart_sts": partial(apart, "sts", WORDS),
    "spaces/third": partial(third, "sts_minilm", "MiniLM"),
    "spaces/over_training_captions": partial(over_training, "captions"),
}
