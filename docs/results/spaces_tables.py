"""The tables of spaces.md, from the tables that spaces_runs.py stores in docs/results/spaces/<text>/."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from dynamics_claims import POWER, VERDICT, verdicts
from dynamics_stored import CONFIDENCE, Lines, head, interval, number
from numpy.typing import NDArray

from isoscope.platform.statistics.seed_jackknife import over_pairs
from isoscope.studies.spaces.models_against_seeds import told_apart

STORED = Path(__file__).parent / "spaces"
MODELS = ("MLM", "CLM", "MT")
LAYERS = {-1: "word table", 0: "0", 1: "1", 2: "2"}
MARGIN = 0.01
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
Cells = NDArray[np.float64]


def stored(text: str, table: str) -> pd.DataFrame:
    """Return a stored table of a text."""
    return pd.read_parquet(STORED / text / f"{table}.parquet")


def contexts(text: str) -> Lines:
    """Yield the measures of one space by model and layer, means over seeds with t intervals; random weights below."""
    table = stored(text, "contextuality")
    yield from head("measure", "model", *LAYERS.values(), left=2)
    for measure, title in CONTEXT.items():
        own = table[table["measure"] == measure]
        for model in (*MODELS, "random weights"):
            rows = own[own["twin"]] if model == "random weights" else own[(own["model"] == model) & ~own["twin"]]
            by_layer = {layer: list(rows["value"][rows["layer"] == layer].dropna()) for layer in LAYERS}
            if any(by_layer.values()):
                cells = (interval(values) if values else "–" for values in by_layer.values())
                yield f"| {title} | {model} | {' | '.join(cells)} |"


def alike(text: str, of: str) -> Lines:
    """Yield the similarity of equal layers over its null: of two models, two seeds of each, and random weights."""
    table = stored(text, "similarity")
    table = table[(table["of"] == of) & (table["layer"] == table["other_layer"])]
    layers = [layer for layer in LAYERS if (table["layer"] == layer).any()]
    yield from head("measure", "pair", *(LAYERS[layer] for layer in layers), "null, last layer", left=2)
    for measure, title in ALIKE.items():
        own = table[table["measure"] == measure]
        for one, rows in own[~own["twin"]].groupby(["model", "other_model"], sort=False):
            name = " × ".join(one) if len({*one}) == 2 else f"two seeds of {one[0]}"
            yield _line(title, name, rows, layers)
        yield _line(title, "random weights", own[own["twin"]], layers)


def _line(title: str, name: str, rows: pd.DataFrame, layers: list[int]) -> str:
    values = (list(rows["adjusted"][rows["layer"] == layer].dropna()) for layer in layers)
    last = rows["null"][rows["layer"] == layers[-1]].mean()
    return (
        f"| {title} | {name} | {' | '.join(number(np.mean(one)) if one else '–' for one in values)} | {number(last)} |"
    )


def apart(text: str, of: str) -> Lines:
    """Yield how much less alike two models are than two seeds of one, by measure: the last layer, and all layers."""
    similarity = stored(text, "similarity")
    similarity = similarity[(similarity["of"] == of) & similarity["measure"].isin(ALIKE)]
    seeds = {name: sorted(similarity["seed"].dropna().astype(int).unique()) for name in MODELS}
    table = told_apart(similarity, seeds, confidence=CONFIDENCE, power=POWER, margin=MARGIN)
    columns = ("two models", "two seeds", "difference", "over seeds", "over seeds and sentences", "p (Holm)")
    yield from head("pair", "measure", *columns, "verdict, last layer", "holds in", left=2)
    for (one, other, measure), rows in table.groupby(["model", "other_model", "measure"], sort=False):
        last = rows.loc[rows["layer"].idxmax()]
        cells = [number(last["between"]), number(last["within"]), number(last["difference"], sign=True)]
        for low, high in (("low", "high"), ("two_way_low", "two_way_high")):
            cells.append(f"[{number(last[low], sign=True)}, {number(last[high], sign=True)}]")
        cells += [number(last["p_holm"]), f"*{last['word']}*: {last['reason']}"]
        holds = ((rows["word"] == "holds") & (rows["difference"] > 0)).sum()
        yield f"| {one} × {other} | {ALIKE[measure]} | {' | '.join(cells)} | {holds} of {len(rows)} layers |"


def over_training(text: str) -> Lines:
    """Yield the similarity of the last layer over its null, of a model at an update with chosen checkpoints.

    Means over pairs of runs with intervals by jackknife over seeds. The last column is the model's own chosen
    checkpoint (update 4000, or shortly before).
    """
    table = stored(text, "over_training")
    table = table[table["layer"] == table["layer"].max()]
    itself = (table["model"] == table["other_model"]) & (table["seed"] == table["other_seed"])
    table = table.assign(other=(table["other_model"] + ", next seed").mask(itself, "its own end"))
    yield from head("measure", "model", "compared with", *map(str, UPDATES), "chosen", left=3)
    for (measure, *pair), rows in table.groupby(["measure", "model", "other"], sort=False):
        ways = (*((rows["update"] == update) & ~rows["chosen"] for update in UPDATES), rows["chosen"])
        cells = (of_pairs(rows[way]) for way in ways)
        yield f"| {ALIKE[measure]} | {' | '.join(pair)} | {' | '.join(cells)} |"


def frequencies() -> Lines:
    """Yield SelfSim − AvgSim of the last layer by how often a form occurs in the training split, by text and model."""
    for number_, text in enumerate(TEXTS):
        table = stored(text, "by_frequency")
        last = table[table["layer"] == table["layer"].max()]
        classes = list(dict.fromkeys(last["class"]))
        if not number_:
            yield from head("text", "model", *("rarest", "rare", "frequent", "most frequent")[: len(classes)], left=2)
        for model in MODELS:
            own = last[last["model"] == model].set_index("class")
            cells = (f"{number(own['mean'][one])} ± {number(own['error'][one])}" for one in classes)
            yield f"| {TEXTS[text]} | {model} | {' | '.join(cells)} |"
        yield f"| {TEXTS[text]} | *forms* | {' | '.join(map(str, classes))} |"


def by_tables(text: str) -> Lines:
    """Yield AvgSim, SelfSim and CKA over its null by layer, of models with other word and position tables."""
    yield from head("measure", "model", "tables", *LAYERS.values(), left=3)
    for measure in ("avg_sim", "self_sim_corrected"):
        for model in PAIR:
            for tables, what in ARMS.items():
                table = stored(text + tables, "contextuality")
                own = (table["measure"] == measure) & (table["model"] == model) & ~table["twin"]
                yield f"| {CONTEXT[measure]} | {model} | {what} | {_by_layer(table[own])} |"
    for pair in (PAIR, (PAIR[0],) * 2, (PAIR[1],) * 2):
        name = " × ".join(pair) if len({*pair}) == 2 else f"two seeds of {pair[0]}"
        for tables, what in ARMS.items():
            table = stored(text + tables, "similarity")
            own = (table["model"] == pair[0]) & (table["other_model"] == pair[1]) & ~table["twin"]
            own &= (table["of"] == WORDS) & (table["measure"] == "cka") & (table["layer"] == table["other_layer"])
            cells = (of_pairs(table[own & (table["layer"] == layer)]) for layer in LAYERS)
            yield f"| CKA | {name} | {what} | {' | '.join(cells)} |"


def _by_layer(rows: pd.DataFrame) -> str:
    values = ([*rows["value"][rows["layer"] == layer].dropna()] for layer in LAYERS)
    return " | ".join(interval(one) if one else "–" for one in values)


def of_pairs(rows: pd.DataFrame) -> str:
    """Format the mean over pairs of runs of a similarity over its null, with its interval over seeds."""
    known = rows[rows["adjusted"].notna()]
    if known.empty:
        return "–"
    pairs = [*zip(known["seed"], known["other_seed"], strict=True)]
    bounds = over_pairs([*known["adjusted"]], pairs, confidence=CONFIDENCE)
    shown = f" [{number(bounds.low)}, {number(bounds.high)}]" if bounds else ""
    return number(known["adjusted"].mean()) + shown


def claims_by_tables(text: str) -> Lines:
    """Yield the published claims for models with other tables, and how far each is from that of learned, tied tables.

    p by Holm over all claims, and over all differences.
    """
    columns = ("mean", "over seeds and sentences", "verdict", "less learned, tied", "over seeds and sentences")
    yield from head("claim", "tables", *columns, "detectable", "verdict of the difference", left=2)
    own = {(claim, tables): cells(text + tables) for claim, cells in CLAIMS.items() for tables in ARMS}
    less = _family({key: cells - own[key[0], ""] for key, cells in own.items() if key[1]})
    for (claim, tables), (mean, both, _, verdict) in _family(own).items():
        apart = less.get((claim, tables), ("–",) * 4)
        yield f"| {claim} | {ARMS[tables]} | {mean} | {both} | {verdict} | {' | '.join(apart)} |"


def _family(values: dict[tuple[str, str], Cells]) -> dict[tuple[str, str], tuple[str, str, str, str]]:
    """Return mean, interval over seeds and sentences, detectable effect and verdict of each; p by Holm over all."""
    found = zip(values, verdicts([*values.values()], MARGIN), strict=True)
    return {key: (mean, both, detectable, verdict) for key, (_, mean, _, both, _, detectable, verdict) in found}


def third(text: str, model: str) -> Lines:
    """Yield the measures of one space of another checkpoint by layer, and its similarity to the models' last layers."""
    context, similarity = stored(text, "contextuality"), stored(text, "similarity")
    own = context[(context["model"] == model) & ~context["twin"]]
    layers = sorted(own["layer"].unique())
    yield from head("measure", *("word table" if layer < 0 else str(layer) for layer in layers))
    for measure, title in CONTEXT.items():
        values = own[own["measure"] == measure].set_index("layer")["value"]
        yield f"| {title} | {' | '.join(number(values.get(layer, np.nan)) for layer in layers)} |"
    pairs = similarity[(similarity["of"] == WORDS) & ~similarity["twin"] & (similarity["other_model"] == model)]
    for measure in ("cka", "rsa"):
        for name in MODELS:
            rows = pairs[(pairs["measure"] == measure) & (pairs["model"] == name)]
            values = rows[rows["layer"] == rows["layer"].max()].set_index("other_layer")["adjusted"]
            cells = (number(values.get(layer, np.nan)) for layer in layers)
            yield f"| {ALIKE[measure]} with the last layer of {name} | {' | '.join(cells)} |"


def quoted(text: str) -> Lines:
    """Yield CKA of the last layers over its null with 20 and with 200 permutations, means over pairs of seeds."""
    yield from head("pair", "of", "value", "null, 20", "null, 200", "over the null, 20", "over the null, 200", left=2)
    columns = ["model", "other_model", "of"]
    few = stored(text, "similarity")
    few = few[(few["measure"] == "cka") & ~few["twin"] & (few["layer"] == few["other_layer"])]
    few = few[few["layer"] == few["layer"].max()].groupby(columns)[["value", "null", "adjusted"]].mean()
    for key, row in (
        stored(text, "quoted").groupby(columns, sort=False)[["value", "null", "adjusted"]].mean().iterrows()
    ):
        one, other, of = key
        pair = f"{one} × {other}" if one != other else f"two seeds of {one}"
        cells = (row["value"], few["null"][key], row["null"], few["adjusted"][key], row["adjusted"])
        yield f"| {pair} | {of} | {' | '.join(map(number, cells))} |"


def parts_of_speech(text: str) -> Lines:
    """Yield SelfSim − AvgSim of the last layer by part of speech, of a treebank."""
    table = stored(text, "by_part_of_speech")
    last = table[table["layer"] == table["layer"].max()]
    yield from head("part of speech", *MODELS)
    for name, rows in last.groupby("class", sort=False):
        own = rows.set_index("model")
        cells = (f"{number(own['mean'][model])} ± {number(own['error'][model])}" for model in MODELS)
        yield f"| {name} | {' | '.join(cells)} |"


def claims() -> Lines:
    """Yield the published claims about contextuality on each text; a claim says that a number is above 0."""
    yield from head("claim", "text", *VERDICT, left=2)
    found = {(claim, text): cells(text) for claim, cells in CLAIMS.items() for text in TEXTS}
    for (claim, text), judged in zip(found, verdicts([*found.values()], MARGIN), strict=True):
        yield f"| {claim} | {TEXTS[text]} | {' | '.join(judged)} |"


def at(text: str, measure: str, model: str, layer: int) -> Cells:
    """Return the jackknife's pseudo-values `[seeds, groups of sentences]` of a measure of a model's layer.

    They are shifted so that a seed's mean is the measure itself: a number is the same in every table.
    """
    table = stored(text, "contextuality")
    chosen = (table["measure"] == measure) & (table["model"] == model) & (table["layer"] == layer) & ~table["twin"]
    rows = table[chosen].sort_values("seed")
    without = np.stack([*rows["without"]])
    apart = without.mean(1, keepdims=True) - without
    found: Cells = rows["value"].to_numpy()[:, None] + (without.shape[1] - 1) * apart
    return found


PAIR = ("MLM", "MT")
ARMS = {
    ending: called
    for ending, called in {
        "": "learned, tied",
        "_untied": "untied",
        "_scaled": "words × √width",
        "_sinusoidal": "sinusoidal positions",
    }.items()
    if (STORED / f"captions{ending}").is_dir()
}
"""Ending of a stored text → tables of its models."""
TEXTS = {"captions": "captions", "sts": "STS"}
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
WORDS, WITHOUT_FORM = "words", "words without their form's mean"
TABLES: dict[str, Callable[[], Lines]] = {
    "spaces/claims": claims,
    "spaces/frequencies": frequencies,
    "spaces/contexts": partial(contexts, "captions"),
    "spaces/contexts_sts": partial(contexts, "sts"),
    "spaces/alike": partial(alike, "captions", WORDS),
    "spaces/alike_context": partial(alike, "captions", WITHOUT_FORM),
    "spaces/alike_sts": partial(alike, "sts", WORDS),
    "spaces/apart": partial(apart, "captions", WORDS),
    "spaces/apart_context": partial(apart, "captions", WITHOUT_FORM),
    "spaces/apart_sts": partial(apart, "sts", WORDS),
}
TABLES |= {
    f"spaces/over_training_{file.parent.name}": partial(over_training, file.parent.name)
    for file in sorted(STORED.glob("*/over_training.parquet"))
}
TABLES |= {
    f"spaces/quoted_{file.parent.name}": partial(quoted, file.parent.name)
    for file in sorted(STORED.glob("*/quoted.parquet"))
}
if (STORED / "sts_minilm").is_dir():
    TABLES["spaces/third"] = partial(third, "sts_minilm", "MiniLM")
TABLES |= {
    f"spaces/parts_of_speech_{file.parent.name}": partial(parts_of_speech, file.parent.name)
    for file in sorted(STORED.glob("*/by_part_of_speech.parquet"))
}
if len(ARMS) > 1:
    TABLES |= {
        "spaces/claims_by_tables": partial(claims_by_tables, "captions"),
        "spaces/by_tables": partial(by_tables, "captions"),
    }
