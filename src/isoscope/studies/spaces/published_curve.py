"""AvgSim of a checkpoint by layer, measured by the published procedure, next to the published curve."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy import stats

from isoscope.base.errors import InputError
from isoscope.data import task_files, tokens
from isoscope.data.checkpoints import loadable_config
from isoscope.data.corpus import PAIR
from isoscope.data.plain import read_texts
from isoscope.data.word_table import Located
from isoscope.geometry.contextuality import units
from isoscope.geometry.moments import Floats
from isoscope.models.encoder import load_encoder, longest
from isoscope.platform.results.published import Reproduced, agrees, published, reproduced
from isoscope.platform.statistics.paired import NO_VERDICT, Verdict
from isoscope.states.word_space import word_states

PUBLISHED = published(Path(__file__).parent)
SENTENCES, PAIRS = PUBLISHED["sentences"], PUBLISHED["pairs"]
DRAWS, CONFIDENCE = 100, 0.95


def repeated(states: npt.ArrayLike, *, seed: int) -> Floats:
    """Return AvgSim by the published procedure, repeated `[DRAWS, layers]`.

    `states` `[layers, S, D]`: a random token of each sentence. Raises `InputError` for fewer than 1,000 sentences.
    """
    points = np.asarray(states)
    if points.shape[1] < SENTENCES:
        raise InputError(f"text: {points.shape[1]} sentences; the published procedure draws {SENTENCES:,}; give more")
    random = np.random.default_rng(seed)
    chosen = np.array([random.permutation(points.shape[1])[:SENTENCES] for _ in range(DRAWS)])
    drawn = random.integers(SENTENCES, size=(2, DRAWS, PAIRS))
    one, other = (np.take_along_axis(chosen, part, 1) for part in drawn)
    found = np.empty((DRAWS, len(points)))
    for layer, own in enumerate(points):
        unit = units(own)
        for draw in range(DRAWS):
            found[draw, layer] = (unit[one[draw]] * unit[other[draw]]).sum(1).mean()
    return found


def cells(found: Floats, known: Mapping[str, Any], differs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row per layer of `repeated`: layer, published, value, low, high, difference, verdict, reason.

    A single repetition of the procedure lies between low and high with a probability of `CONFIDENCE`. Verdicts are
    those of `agrees`: the interval of the difference includes the rounding and the error of a single repetition, which
    the published value is. *No verdict*: something differs from the published measurement (`differs`, as text).
    """
    draws = len(found)
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, draws - 1)) * (1 + 1 / draws) ** 0.5
    for layer, own in enumerate(found.T):
        value, half = float(own.mean()), reach * float(own.std(ddof=1))
        curve = known["avg_sim"]
        theirs = curve[layer] if layer < len(curve) else None
        difference = None if theirs is None else value - theirs
        verdict = Verdict(NO_VERDICT, "; ".join(differs))
        if not differs and difference is not None:
            verdict = agrees(difference, half + known["rounding"], known["tolerance"])
        row = {"layer": layer, "published": theirs, "value": value, "low": value - half, "high": value + half}
        yield row | {"difference": difference, "verdict": verdict.word, "reason": verdict.reason}


Find = Callable[[Sequence[str]], Sequence[Any]]
SAMPLE, LONGEST, BATCH, SEED = 4000, 512, 32, 0
"""Sentences that the repetitions of the procedure draw from; tokens of a sentence; sentences per forward pass; seed."""


def published_spaces(
    checkpoint: str | None, text: Path | None, *, find: Find, known: Mapping[str, Any] = PUBLISHED
) -> Reproduced:
    """Measure AvgSim of a checkpoint on sentences as published; by default on the published checkpoint and data sets.

    `find`: names of checkpoints → where they are. With another checkpoint or `text` there is no verdict. Raises
    `InputError` if one cannot be found, and for fewer than 1,000 sentences.
    """
    asked = checkpoint or known["checkpoints"][0]
    (found,) = find([asked])
    differs = [*_other_checkpoint(asked, loadable_config(found.folder), known)]
    if text is not None:
        sentences = read_texts(text, column=None, labels=None).table["sentence"].to_pylist()
        differs.append(f"sentences of {text.name}, not of {', '.join(known['data'])}")
    else:
        sentences, lacking = _sentences(known)
        differs += lacking
    states = _states(found.folder, sentences)
    return reproduced([*cells(repeated(states, seed=SEED), known, differs)], known)


def _other_checkpoint(asked: str, config: dict[str, object], known: Mapping[str, Any]) -> Iterator[str]:
    name, _, revision = asked.partition("@")
    if name not in known["checkpoints"] or revision not in ("", "main"):
        yield f"checkpoint {asked}, not {known['checkpoints'][0]}"
    for name, value in known["config"].items():
        if config.get(name) != value:
            yield f"config.json: {name} {config.get(name)}, not {value}"


def _sentences(known: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Return the sentences of both sides of the data sets, and what is not as published."""
    found: list[str] = []
    differs = []
    for name, pairs in known["data"].items():
        source = {"kind": "hub", "name": name, "config": None, "revision": "main", "licence": "unknown", "seed": SEED}
        source["columns"] = {column: column for column in PAIR}
        source["splits"] = {"train": "test", "validation": None, "test": None}
        corpus = task_files.read(source | {"held_out": 0.1}, Path())  # all three parts are used
        rows = [text for part in corpus.splits.values() for column in PAIR for text in part[column].to_pylist()]
        if len(rows) != len(PAIR) * pairs:
            differs.append(f"{name}: {len(rows) // len(PAIR):,} pairs, not {pairs:,}")
        found += rows
    return found, differs


def _states(folder: Path, sentences: list[str]) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """Return the states `[layers, S, D]` of a random token, no special token, of each of a sample of sentences."""
    random = np.random.default_rng(SEED)
    column = pa.table({"sentence": [sentences[row] for row in random.permutation(len(sentences))[:SAMPLE]]})
    tokenizer, model = tokens.load(folder, padded=False), load_encoder(folder)
    if not sys.stderr.isatty():
        print(f"{folder.name}: states of {len(column):,} tokens", file=sys.stderr, flush=True)
    most = longest(model, LONGEST)
    encodings = list(tokens.encodings(tokenizer, column, max_length=most))
    texts = [np.flatnonzero(np.array(one.special_tokens_mask) == 0) for one in encodings]
    kept = np.array([row for row, places in enumerate(texts) if len(places)], np.int64)
    if not len(kept):
        raise InputError("text: no sentence has a token")
    place = np.array([random.choice(texts[row]) for row in kept], np.int64)
    encoded = tokens.encoded(encodings, tokens.classes(column))
    words = Located(encoded, kept, place, place + 1, np.ones(len(kept), bool))
    return word_states(model, words, pad_id=tokenizer.pad_id, batch_size=BATCH).values
