"""The probing tasks of a run: points of each kind, labels and control tasks."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from isoscope.data.arrays import Vectors
from isoscope.geometry.moments import Ints
from isoscope.states.trajectory import Arrays, Trajectory

WORDS, TREEBANK = ("word position", "word order"), ("part of speech", "tree depth")
TASKS = ("label", "first token", "length", "bigram shift", *WORDS, *TREEBANK)
FREQUENT = 10  # minimum number of words per tag class
Labels = npt.NDArray[Any]


class Cloud(NamedTuple):
    """Vectors of one kind, the labels `[n]` of their tasks, and the control labels of tasks that have a control.

    `points(arrays, layer)` takes the vectors from the arrays `needs`. `groups`: sentence of each vector. `words`: the
    words behind them. `metric`: accuracy, or r2 (of ridge regression) for numeric labels.
    """

    vectors: str
    needs: tuple[str, ...]
    points: Callable[[Arrays, int], Vectors]
    groups: Ints
    tasks: dict[str, Labels]
    controls: dict[str, Labels]
    strata: Labels | None = None
    words: tuple[Labels, ...] = ()
    metric: str = "accuracy"


def clouds(run: Trajectory, vectors: Sequence[str], tasks: Collection[str], *, seed: int) -> list[Cloud]:
    """Return the clouds for those of `tasks` that the run has data and at least two classes for."""
    bank = [] if run.treebank is None else _treebank(run.treebank, seed)
    kept = []
    words = _words(run, seed) if len(run.words) else ()
    for cloud in (*_sentences(run, vectors, seed), *words, *bank):
        told = {name: of for name, of in cloud.tasks.items() if name in tasks and len(np.unique(of)) > 1}
        controls = {name: of for name, of in cloud.controls.items() if name in told and len(np.unique(of)) > 1}
        kept += [cloud._replace(tasks=told, controls=controls)] if told else []
    return kept


def _sentences(run: Trajectory, vectors: Sequence[str], seed: int) -> Iterator[Cloud]:
    probe, every, random = run.probe, run.groups, np.random.default_rng((seed, 10))
    label = probe["label"].to_numpy()
    permuted = random.permutation(label)
    strata = label * len(label) + permuted  # spread both tasks' classes over folds
    if "tokens" not in probe:  # vectors without a model
        yield from (
            Cloud(name, (name,), partial(_layer, name), every, {"label": label}, {"label": permuted}, strata)
            for name in vectors
        )
        return
    length, shifted = (probe[name].to_numpy() for name in ("tokens", "shifted"))
    frequent = probe["token_1"].value_counts().index[:2]
    first = probe["token_1"].where(probe["token_1"].isin(frequent), -1).to_numpy()
    tasks = {"label": label, "first token": first, "length": _terciles(length)}
    # A sentence too short for a word swap would reveal its class.
    kept = np.flatnonzero(shifted | (length >= length[shifted].min(initial=length.max())))
    moved = shifted[kept]
    shuffled = random.permutation(moved)
    for name in vectors:
        yield Cloud(name, (name,), partial(_layer, name), every, tasks, {"label": permuted}, strata)
        points, needs = partial(_shifted, name, shifted, kept), (name, f"shifted_{name}")
        task, control = {"bigram shift": moved}, {"bigram shift": shuffled}
        yield Cloud(name, needs, points, every[kept], task, control, moved * 2 + shuffled)


def _words(run: Trajectory, seed: int) -> Iterator[Cloud]:
    words, group = run.words, run.groups
    sentence, position, text = (words[name].to_numpy() for name in ("sentence", "position", "text"))
    place = _terciles(position)
    task, control = {"word position": place}, {"word position": _by_type(text, place, seed)}
    yield Cloud("words", ("words",), partial(_layer, "words"), group[sentence], task, control, None, (text,))
    numbered = words[["sentence", "position"]].assign(word=np.arange(len(words)))
    pairs = numbered.merge(numbered, on="sentence", suffixes=("_1", "_2")).query("position_1 < position_2")
    # As many pairs as words: more pairs of the same sentences would add little.
    drawn = np.sort(np.random.default_rng((seed, 13)).permutation(len(pairs))[: len(words)])
    before, after = (pairs[name].to_numpy()[drawn] for name in ("word_1", "word_2"))
    right = np.random.default_rng((seed, 11)).permutation(len(drawn)) % 2 == 0
    one, other = np.where(right, before, after), np.where(right, after, before)
    rank = _by_type(text, np.arange(len(text)), seed)  # the control: order of types in a random permutation
    yield Cloud(
        *("words", ("words",), partial(_pairs, one, other), group[sentence[one]]),
        *({"word order": right}, {"word order": rank[one] < rank[other]}, None, (text[one], text[other])),
    )


def _treebank(bank: pd.DataFrame, seed: int) -> Iterator[Cloud]:
    sentence, text, tag, depth = (bank[name].to_numpy() for name in ("sentence", "text", "tag", "depth"))
    kept = np.flatnonzero(bank["tag"].map(bank["tag"].value_counts()).to_numpy() >= FREQUENT)
    asked, control = {"part of speech": tag[kept]}, {"part of speech": _by_type(text[kept], tag[kept], seed)}
    points, needs = partial(_layer, "treebank", rows=kept), ("treebank",)
    yield Cloud("treebank", needs, points, sentence[kept], asked, control, None, (text[kept],))
    asked, control = {"tree depth": depth}, {"tree depth": _by_type(text, depth, seed)}
    yield Cloud("treebank", needs, partial(_layer, "treebank"), sentence, asked, control, None, (text,), "r2")


def _layer(name: str, arrays: Arrays, layer: int, rows: Ints | slice = slice(None)) -> Vectors:
    return arrays.layer(name, layer)[rows]


def _shifted(name: str, shifted: Labels, kept: Ints, arrays: Arrays, layer: int) -> Vectors:
    points = arrays.layer(name, layer).copy()
    points[shifted] = arrays.layer(f"shifted_{name}", layer)
    return points[kept]


def _pairs(one: Ints, other: Ints, arrays: Arrays, layer: int) -> Vectors:
    points = arrays.layer("words", layer)
    return np.concatenate([points[one], points[other]], 1)


def _terciles(values: Labels) -> Ints:
    return np.searchsorted(np.quantile(values, [1 / 3, 2 / 3]), values)


def _by_type(text: Labels, labels: Labels, seed: int) -> Labels:
    """Return a label per word type, drawn from the labels of all words; Hewitt and Liang 2019."""
    types, of = np.unique(text, return_inverse=True)
    return np.asarray(np.random.default_rng((seed, 12)).choice(labels, len(types))[of])
