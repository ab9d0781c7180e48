"""Generated text tasks: the label is a function of the text, so what a model misses is the model's."""

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
SMALLEST = 20  # groups, one row of each class: three in validation and in test


class Design(NamedTuple):
    """Settings a task was calibrated at, and the test accuracies it was calibrated to."""

    size: int
    difficulty: int
    seed: int
    bands: dict[str, object]


class Generator(NamedTuple):
    """How a task is written: classes, text columns, a draw of one new row for each class in turn, a sentence's tree."""

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
    """Write `size` examples: 70 % train, 15 % validation, 15 % test, no two alike, each class as often as another.

    A function of its four arguments on every platform. Rows come in groups, one per class, that stay in one split;
    where `size` is no multiple of the classes, train lacks the surplus rows of one group. `facts` states how the task
    was made, that its Bayes ceiling is 1, and, at the default settings, the test accuracies it was calibrated to;
    `trees` are those of the sentences of test that stand in no other split.

    Raises InputError for an unknown generator, a number out of range and a size above the distinct examples.
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
    """The trees of the sentences of test that stand in no other split, each once."""
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
