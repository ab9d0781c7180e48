"""Tables of `isoscope geometry`: encoders or decoders on any sentences, each beside its random-weights control.

Results are cached in sealed folders: hidden states by (weights, sentences, classes, code), values of each measure by
(hidden states, code, settings). A second call computes only what is new or was altered.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pandas as pd
from threadpoolctl import threadpool_limits

from isoscope import plugins
from isoscope.base.atomic_files import kept, write_text
from isoscope.base.code_closure import code_version
from isoscope.base.errors import InputError
from isoscope.base.parquet import write_tables
from isoscope.data.plain import Texts
from isoscope.data.words import bag
from isoscope.states.catalogue import MAPPED, AnalysisOptions, Tables, analysed, kind_of
from isoscope.states.checkpoint_states import hidden_states, page_facts
from isoscope.states.choices import GIVEN, SENTENCE, SPACES_COMPARED, Settings
from isoscope.states.given_checkpoints import Checkpoint
from isoscope.states.given_vectors import NO_MODEL, GivenVectors
from isoscope.states.measure import SAMPLED, measured
from isoscope.states.sentence_tables import aligned
from isoscope.states.trajectory import Snapshot, Trajectory, stacked

NOTE = "note.json"
NEIGHBOURS, DIAGRAM = 5, 120
"""Number of nearest tokens, and of points in a persistence diagram, as in params.yaml: a page has no params.yaml."""
OF_MODELS = ("attention", "embedding")
"""Analyses that vectors alone do not have."""
COMPOSED = {"probing": ("probing", "learning", "baselines")}
"""Analyses that consist of several in `states.catalogue`."""
LACKING = {
    "probing": "its rows have no labels; name their column with --labels",
    "attention": "the model returns none",
    "embedding": "the model has no word embedding with a known name",
    "spectrum": "the model has no word embedding with a known name",
    "topology": "all its vectors are equal",
}
"""Reason why an analysis has no table."""


def geometry(
    checkpoints: Sequence[Checkpoint | GivenVectors],
    texts: Texts,
    settings: Settings,
    cache: Path,
    *,
    pairs: Path | None = None,
    grids: Tables | None = None,
) -> tuple[Tables, dict[str, Any]]:
    """Run every analysis on every checkpoint and its random-weights control. Return tables and the page's facts.

    Every table has a column `checkpoint`, except `grids`, those of `compared_checkpoints.grids` for the same page.
    `geometry` and `transformed` are the tables of measures, see `states.measure`. `pairs`: file of scored pairs. Raises
    `InputError` for a model that is no text transformer, for NaN weights, too few sentences, and measures that apply to
    none of the representations.
    """
    runs = {one.name: hidden_states(one, texts, settings, cache, attended=False, pairs=pairs) for one in checkpoints}
    found: list[Tables] = []
    each = [name for name in settings.analyses if name not in ("planes", SPACES_COMPARED)]
    lacking = (_first_token, _sentence)
    notes = [note for name, run in runs.items() for one in lacking for note in one(name, run, settings)]
    notes += [
        {"checkpoint": name, "analysis": "attention, embedding block, words, random-weights control", "note": NO_MODEL}
        for name, run in runs.items()
        if run.facts.get("given")
    ]
    with threadpool_limits(settings.threads):
        for one, name in product(checkpoints, each):
            if not sys.stderr.isatty():  # a log has no progress bar
                print(f"{one.name}: {name}", file=sys.stderr, flush=True)
            run = runs[one.name]
            if run.facts.get("given") and name in OF_MODELS:
                continue
            if name == "attention":
                run = hidden_states(one, texts, settings, cache, attended=True)
            tables, note = analysis(name, run, settings, cache, one.name)
            found.append({kind: table.assign(checkpoint=one.name) for kind, table in tables.items()})
            said = "transformed measures" if name == "measures" else name  # no others have a note
            notes += [{"checkpoint": one.name, "analysis": said, "note": note}] if note else []
        whole = stacked(found)
        whole |= planes(runs, settings, cache) if "planes" in settings.analyses else {}
        whole |= grids or {}
    looked_at = next(iter(runs.values())).facts["sentences"]
    facts = page_facts(checkpoints, texts, settings, looked_at, [run.facts["about"] for run in runs.values()])
    if "geometry" in whole:
        facts["settings"]["vectors"] = [*whole["geometry"]["vectors"].unique()]
    return whole, facts | {
        "causal": [name for name, run in runs.items() if run.facts["causal"]],
        "pieces": {
            name: [
                run.facts["pieces"][str(token)] for token in run.tokens.loc[~run.tokens["end"], "token"].head(MAPPED)
            ]
            for name, run in runs.items()
        },
        "notes": notes,
        "file": texts.sha256,
        "truncated": {name: run.facts["truncated"] for name, run in runs.items() if run.facts["truncated"]},
        "classes": list(texts.classes),
        "measures": {name: code_of(name) for name in settings.measures},
    }


def _first_token(name: str, run: Trajectory, settings: Settings) -> Iterator[dict[str, str]]:
    """Yield notes if the requested first token is no [CLS]. Raises `InputError` if it carries no information."""
    if "first" not in settings.vectors or (run.facts["cls"] and not run.facts["causal"]):
        return
    why = "its tokenizer has none, so `first` is a sentence's first word"
    if run.facts["causal"]:
        lost = "its first token attends to no other token, so it carries no information about the sentence"
        why = f"it is a decoder: {lost}"
        if settings.vectors == ("first",):
            raise InputError(f"checkpoint {name}: --vectors first: {why}; use last or mean")
    yield {"checkpoint": name, "analysis": "[CLS]", "note": why}


def _sentence(name: str, run: Trajectory, settings: Settings) -> Iterator[dict[str, str]]:
    """Yield a note if the requested sentence vectors are lacking, or cannot be made. Raises `InputError` if alone."""
    why = run.facts["no_sentence"] or "its folder is not of sentence-transformers (modules.json)"
    asked = SENTENCE in settings.vectors and not run.facts["sentence"]
    if asked and settings.vectors == (SENTENCE,):
        raise InputError(f"checkpoint {name}: --vectors {SENTENCE}: {why}; use mean")
    if asked or run.facts["no_sentence"]:
        yield {"checkpoint": name, "analysis": "sentence vectors", "note": why}


def _measures(run: Trajectory, settings: Settings, cache: Path, title: str) -> tuple[Tables, str | None]:
    """Make the tables of `states.measure`; the rows of each measure are cached separately."""
    vectors = asked_vectors(run, settings.vectors)
    options = {name: getattr(settings, name) for name in (*SAMPLED, "transforms")}

    def part(name: str) -> Tables:
        about = {"states": run.folder.name, "measure": name, "code": code_of(name), "vectors": vectors, **options}
        named = f"{title}: {name}"
        transforms = settings.transforms
        return _kept(
            cache, about, lambda: measured(run, [name], vectors, settings, title=named, transforms=transforms)
        )[0]

    given = run.facts.get("given")
    parts = [part(name) for name in settings.measures if not (given and kind_of(name) == "pairs")]
    if not any(parts):
        raise InputError(
            f"--measure {', '.join(settings.measures)}: nothing to measure in {', '.join(vectors)}; "
            "the measure classes needs --labels; classes and shape need sentence vectors, not words"
        )
    tables = stacked(parts)
    transformed = tables.get("transformed", pd.DataFrame({"fitted_on": [], "transform": [], "note": []}))
    without = transformed[(transformed["fitted_on"] < 2) & (transformed["transform"] != "none")]
    return tables, "; ".join(without["note"].dropna().unique()) or None


def analysis(name: str, run: Trajectory, settings: Settings, cache: Path, title: str) -> tuple[Tables, str | None]:
    """Make the tables of `measures` or of an analysis of `states.catalogue`; return them, and why there are none."""
    if name == "measures":
        return _measures(run, settings, cache, title)
    given = (settings.seed, settings.folds, settings.confidence, NEIGHBOURS, DIAGRAM)
    asked = AnalysisOptions(sentence_vectors(run, settings.vectors), *given, alignment="sign")
    about = {"states": run.folder.name, "analysis": name, "code": code_version("geometry"), "settings": asked}
    if name == "probing" and "text" in run.probe and (by := bag(run.probe["text"].tolist()).by):
        about["words"] = by
    parts = COMPOSED.get(name, (name,))
    if name == "probing" and run.facts.get("given") and run.probe["label"].nunique() < 2:
        return {}, LACKING[name]
    tables, note = _kept(
        cache, about, lambda: {k: one for part in parts for k, one in analysed(part, run, asked).items()}
    )
    return tables, None if tables else note or run.facts.get("lacking") or LACKING[name]


def planes(runs: Mapping[str, Trajectory], settings: Settings, cache: Path) -> Tables:
    """Make the tables of principal planes. Checkpoints of the same width and depth are aligned to the first of them.

    `planes` and `frames` as in `states.sentence_tables.aligned`, with `vectors`, `checkpoint`, `group` (number from 0
    of the checkpoints aligned together) and, for points, `label`.
    """
    groups: dict[Any, dict[str, Trajectory]] = {}
    for name, run in runs.items():
        for kind in sentence_vectors(run, settings.vectors):
            groups.setdefault((kind, run.arrays(run.best).shape(kind)), {})[name] = run
    found = []
    for number, ((kind, _), group) in enumerate(groups.items()):
        about = {
            "planes": [[name, run.folder.name] for name, run in group.items()],
            "code": code_version("geometry"),
            "settings": [settings.alignment, kind],
        }
        tables = _kept(cache, about, partial(_planes, group, kind, settings.alignment))[0]
        found.append({name: table.assign(vectors=kind, group=number) for name, table in tables.items()})
    return stacked(found)


def _planes(runs: Mapping[str, Trajectory], kind: str, alignment: Any) -> Tables:
    frames = {Snapshot(name, None, None, False, ""): run.arrays(run.best) for name, run in runs.items()}
    labels = next(iter(runs.values())).probe["label"].to_numpy()
    points, shown = aligned(frames, alignment, reference=next(iter(frames)), vectors=kind)
    found = {"planes": points.assign(label=labels[points["sentence"]]), "frames": shown}
    return {name: table.rename(columns={"snapshot": "checkpoint"}) for name, table in found.items()}


def asked_vectors(run: Trajectory, vectors: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the kinds of representation to analyse: the requested kinds, else the model's own, and words.

    An encoder has [CLS] and the mean; only the mean if its tokenizer has no [CLS]. A causal model has the last token
    and the mean, never `first`, since its first token sees no other token. [SEP] is analysed only on request. A
    sentence-transformers folder also has the sentence vector.
    """
    if run.facts.get("given"):
        return (GIVEN,)
    causal = run.facts["causal"]
    asked = tuple(kind for kind in vectors if kind != "first" or not causal)
    own = ("last",) if causal else ("first",) * run.facts["cls"]
    return asked or (*own, "mean", *(SENTENCE,) * run.facts["sentence"], "words")


def sentence_vectors(run: Trajectory, vectors: Sequence[str]) -> tuple[str, ...]:
    """Return the requested kinds of vector that a sentence has at each layer; if there is none, the default kinds."""
    other = ("words", SENTENCE)
    asked, usual = (tuple(kind for kind in asked_vectors(run, of) if kind not in other) for of in (vectors, ()))
    return asked or usual


def code_of(name: str) -> str:
    """Return the version of the code that a measure's values depend on; for a plugin also the digest of its file."""
    one = plugins.MEASURES.own.get(name)
    return code_version("geometry") + (plugins.digest(one.file) if one else "")


def _kept(cache: Path, about: Mapping[str, Any], make: Callable[[], Tables]) -> tuple[Tables, str | None]:
    """Return the tables of `make`, cached by what they depend on, and a note: the text of an `InputError`, or None."""

    def fill(folder: Path) -> None:
        tables, note = {}, None
        try:
            tables = make()
        except InputError as error:
            note = str(error)
        write_text(folder / NOTE, json.dumps(note), "table")
        write_tables(folder, tables)

    folder = kept(cache / "tables", about, fill, "table")
    stored = {path.stem: pd.read_parquet(path) for path in sorted(folder.glob("*.parquet"))}
    whole = ("step", "epoch")  # parquet does not distinguish whole numbers with gaps from floats
    found = {
        name: table.astype({column: "Int64" for column in whole if column in table}) for name, table in stored.items()
    }
    return found, json.loads((folder / NOTE).read_text())
