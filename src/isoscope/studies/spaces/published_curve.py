"""Figures of a checkpoint by layer, measured by the published procedure, next to the published curves."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from scipy import stats
from tqdm import tqdm

from isoscope.base.errors import InputError
from isoscope.data import task_files, tokens
from isoscope.data.arrays import Indices
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


class Sampled(NamedTuple):
    """What the procedure reads of each of S sentences."""

    token: Floats
    """State of a random token `[layers, S, D]`."""
    within: Floats
    """Mean cosine of the sentence's tokens with their mean `[layers, S]`."""
    norm: Floats
    """Mean length of the states of its tokens `[layers, S]`."""
    tokens: Indices
    """Number of its tokens `[S]`."""


def repeated(states: Sampled, *, seed: int) -> dict[str, Floats]:
    """Return each metric by the published procedure, repeated `[DRAWS, layers]`.

    `avg_sim`: mean cosine of pairs of random tokens; `sentence_words`: of tokens with their sentence's mean; `norm`:
    mean length of all tokens. Raises `InputError` for fewer than 1,000 sentences.
    """
    layers, count, _ = states.token.shape
    if count < SENTENCES:
        raise InputError(f"text: {count} sentences; the published procedure draws {SENTENCES:,}; give more")
    random = np.random.default_rng(seed)
    chosen = np.array([random.permutation(count)[:SENTENCES] for _ in range(DRAWS)])
    drawn = random.integers(SENTENCES, size=(2, DRAWS, PAIRS))
    one, other = (np.take_along_axis(chosen, part, 1) for part in drawn)
    avg_sim = np.empty((DRAWS, layers))
    for layer, own in enumerate(states.token):
        unit = units(own)
        for draw in range(DRAWS):
            avg_sim[draw, layer] = (unit[one[draw]] * unit[other[draw]]).sum(1).mean()
    sizes = states.tokens[chosen]
    norm = (states.norm[:, chosen] * sizes).sum(2) / sizes.sum(1)
    return {"avg_sim": avg_sim, "sentence_words": states.within[:, chosen].mean(2).T, "norm": norm.T}


def cells(found: Mapping[str, Floats], known: Mapping[str, Any], differs: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield a row per metric and layer: metric, layer, published, value, low, high, difference, verdict, reason.

    `found`: of `repeated`. A single repetition of the procedure lies between low and high with a probability of
    `CONFIDENCE`. Verdicts are those of `agrees`: the interval of the difference includes the rounding and the error of
    a single repetition, which the published value is. *No verdict*: something differs from the published measurement
    (`differs`, as text).
    """
    reach = float(stats.t.ppf((1 + CONFIDENCE) / 2, DRAWS - 1)) * (1 + 1 / DRAWS) ** 0.5
    for metric, curve in known["curves"].items():
        for layer, own in enumerate(found[metric].T):
            value, half = float(own.mean()), reach * float(own.std(ddof=1))
            theirs = curve["values"][layer] if layer < len(curve["values"]) else None
            difference = None if theirs is None else value - theirs
            verdict = Verdict(NO_VERDICT, "; ".join(differs))
            if not differs and difference is not None:
                verdict = agrees(difference, half + known["rounding"], curve["tolerance"])
            row = {"metric": metric, "layer": layer, "published": theirs, "value": value}
            row |= {"low": value - half, "high": value + half, "difference": difference}
            yield row | {"verdict": verdict.word, "reason": verdict.reason}


Find = Callable[[Sequence[str]], Sequence[Any]]
SAMPLE, LONGEST, BATCH, SEED = 4000, 512, 32, 0
"""Sentences that the repetitions of the procedure draw from; tokens of a sentence; sentences per forward pass; seed."""
PART = 256
"""Sentences whose tokens are in memory at once."""


def published_spaces(
    checkpoint: str | None, text: Path | None, *, find: Find, known: Mapping[str, Any] = PUBLISHED
) -> Reproduced:
    """Measure a checkpoint on sentences as published; by default the published checkpoint on the published data sets.

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


def _states(folder: Path, sentences: list[str]) -> Sampled:
    """Return what the procedure reads of a sample of sentences; no special token counts."""
    random = np.random.default_rng(SEED)
    column = pa.table({"sentence": [sentences[row] for row in random.permutation(len(sentences))[:SAMPLE]]})
    tokenizer, model = tokens.load(folder, padded=False), load_encoder(folder)
    if not sys.stderr.isatty():
        print(f"{folder.name}: states of {len(column):,} sentences", file=sys.stderr, flush=True)
    most = longest(model, LONGEST)
    encodings = list(tokens.encodings(tokenizer, column, max_length=most))
    texts = [np.flatnonzero(np.array(one.special_tokens_mask) == 0) for one in encodings]
    kept = [row for row, places in enumerate(texts) if len(places)]
    if not kept:
        raise InputError("text: no sentence has a token")
    found: list[tuple[Floats, Floats, Floats]] = []
    for begin in tqdm(range(0, len(kept), PART), "states", disable=None):
        rows = kept[begin : begin + PART]
        encoded = tokens.encoded([encodings[row] for row in rows], tokens.classes(column.take(rows)))
        sizes = [len(texts[row]) for row in rows]
        place = np.concatenate([texts[row] for row in rows])
        of = np.repeat(np.arange(len(rows)), sizes)
        words = Located(encoded, of, place, place + 1, np.ones(len(place), bool))
        values = word_states(model, words, pad_id=tokenizer.pad_id, batch_size=BATCH).values
        for part in np.split(values, np.cumsum(sizes)[:-1], axis=1):
            own = part.astype(np.float64)  # a copy: what is kept of it does not hold the whole part in memory
            lengths, mean = np.linalg.norm(own, axis=2), own.mean(1)
            of_mean = np.linalg.norm(mean, axis=1)[:, None]
            cosines = (own * mean[:, None]).sum(2) / np.maximum(lengths * of_mean, np.finfo(np.float64).tiny)
            found.append((own[:, random.integers(own.shape[1])].copy(), cosines.mean(1), lengths.mean(1)))
    token, within, norm = (np.stack(part, axis=1) for part in zip(*found, strict=True))
    return Sampled(token, within, norm, np.array([len(texts[row]) for row in kept]))
