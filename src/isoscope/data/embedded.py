"""Generated text tasks. The label is a function of the text, so every error is the model's."""

from collections.abc import Callable
from math import ceil
from typing import NamedTuple

import pyarrow as pa

from isoscope.data import embedded_sentiment, embedded_trees
from isoscope.data.corpus import SPLITS, Corpus, texts
from isoscope.data.embedded_draws import Draws, SpentError
from isoscope.data.embedded_trees import Tree
from isoscope.errors import InputError

Row = tuple[str, ...]

HELD_OUT = 0.15  # share of validation, and of test
SMALLEST = 20  # groups of one row per class: three groups in validation and in test


class Design(NamedTuple):
    """Settings at which a task was calibrated, and the calibrated test accuracies."""

    size: int
    difficulty: int
    seed: int
    bands: dict[str, object]


class Generator(NamedTuple):
    """Generator of a task: classes, text columns, draw of a new row per class, tree of a sentence."""

    labels: tuple[str, ...]
    columns: tuple[str, ...]
    group: Callable[[Draws, int, set[Row]], list[Row]]
    tree: Callable[[str], Tree]
    design: Design


_SENTIMENT = Design(
    size=7200,
    difficulty=2,
    seed=0,
    bands={"tfidf_unigram_below": 0.65, "tfidf_bigram_below": 0.75, "additive_between": [0.85, 0.95]},
)
GENERATORS = {
    "sentiment": Generator(
        embedded_sentiment.LABELS,
        embedded_sentiment.COLUMNS,
        embedded_sentiment.group,
        embedded_trees.sentiment,
        _SENTIMENT,
    )
}


def generate(generator: str, *, size: int, difficulty: int, seed: int) -> Corpus:
    """Generate `size` distinct examples with balanced classes: 70 % train, 15 % validation, 15 % test.

    Depends only on its four arguments, on every platform. Rows come in groups with one row per class; a group stays in
    one split. If `size` is not a multiple of the number of classes, train has an incomplete group. `facts`: how the
    task was generated, its Bayes ceiling 1, and, at the default settings, the calibrated test accuracies. `trees`: the
    trees of test sentences that occur in no other split.

    Raises `InputError` for an unknown generator, a number out of range, and a size above the number of distinct
    examples.
    """
    if generator not in GENERATORS:
        raise InputError(f"generator = {generator!r}: expected one of {', '.join(GENERATORS)}")
    task = GENERATORS[generator]
    classes = len(task.labels)
    for key, value, least in (("size", size, SMALLEST * classes), ("difficulty", difficulty, 1), ("seed", seed, 0)):
        if value < least:
            raise InputError(f"{key} = {value}: expected {least} or more for the generator {generator!r}")
    draws = Draws(f"{generator}/{difficulty}/{seed}")
    seen: set[Row] = set()
    groups: list[list[Row]] = []
    for _ in range(ceil(size / classes)):
        try:
            groups.append(task.group(draws, difficulty, seen))
        except SpentError as spent:
            raise InputError(
                f"size = {size}: the generator {generator!r} at difficulty {difficulty} runs out of distinct {spent} "
                f"after {len(seen)} examples; lower size or raise difficulty"
            ) from None
        seen.update(groups[-1])
    held_out = round(HELD_OUT * len(groups))
    parts = groups[2 * held_out :], groups[:held_out], groups[held_out : 2 * held_out]
    splits = {}
    for split, part in zip(SPLITS, parts, strict=True):
        rows = [(*texts, label) for group in part for label, texts in enumerate(group)]
        if split == "train":
            rows = rows[: len(rows) + size - len(seen)]
        splits[split] = _table(draws.shuffled(rows), task.columns)
    facts: dict[str, object] = {
        "generator": generator,
        "size": size,
        "difficulty": difficulty,
        "seed": seed,
        "bayes_ceiling": 1.0,
    }
    if task.design[:3] == (size, difficulty, seed):
        facts["design"] = {"of": "test accuracy at the default size, difficulty and seed", **task.design.bands}
    return Corpus(splits, task.labels, f"embedded:{generator}", "Apache-2.0", None, facts, _trees(splits, task.tree))


def _trees(splits: dict[str, pa.Table], tree: Callable[[str], Tree]) -> pa.Table:
    """Return the trees of the distinct test sentences that occur in no other split."""
    known, *found = (
        dict.fromkeys(sentence for split in names for text in texts(splits[split]) for sentence in text)
        for names in (("train", "validation"), ("test",))
    )
    trees = [tree(sentence) for sentence in found[0] if sentence not in known]
    types = pa.list_(pa.string()), pa.list_(pa.string()), pa.list_(pa.int64())
    columns = zip(Tree._fields, types, strict=True)
    return pa.table({name: pa.array([getattr(one, name) for one in trees], type_) for name, type_ in columns})


def _table(rows: list[tuple[object, ...]], columns: tuple[str, ...]) -> pa.Table:
    fields = [*((name, pa.string()) for name in columns), ("label", pa.int64())]
    arrays = [pa.array(values, type_) for values, (_, type_) in zip(zip(*rows, strict=True), fields, strict=True)]
    return pa.table(arrays, schema=pa.schema(fields))
