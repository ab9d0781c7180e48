"""Generated text tasks. The label or the translation is a function of the text, so every error is the model's."""

from math import ceil

import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data import embedded_sentiment, embedded_translation
from isoscope.data.corpus import PAIR, SPLITS, Corpus
from isoscope.data.draws import Draws, SpentError

GENERATORS = {"sentiment": embedded_sentiment}
"""Module of each generator with labels: class names, draw of a new text per class, tree of a text, calibration."""
TRANSLATION = "translation"
HELD_OUT = 0.15  # share of validation, and of test
_WORDS = pa.list_(pa.string())
_TREE = pa.schema({"tokens": _WORDS, "upos": _WORDS, "head": pa.list_(pa.int64())})


def generate(generator: str, *, size: int, difficulty: int, seed: int) -> Corpus:
    """Generate `size` distinct examples: 70 % train, 15 % validation, 15 % test.

    Depends only on its four arguments, on every platform. `facts`: how the task was generated.

    - With labels, classes are balanced. Rows come in groups with one row per class; a group stays in one split. If
      `size` is not a multiple of the number of classes, train has an incomplete group. More `facts`: its Bayes ceiling
      1, and, at the default settings, the calibrated test accuracies. `trees`: the trees of test sentences that occur
      in no other split.
    - `translation`: pairs, without labels. More `facts`: the entropy of the source sentences.

    Raises `InputError` for a size above the number of distinct examples.
    """
    draws = Draws(f"{generator}/{difficulty}/{seed}")
    if generator == TRANSLATION:
        return _translated(draws, size=size, difficulty=difficulty, seed=seed)
    task = GENERATORS[generator]
    seen: set[str] = set()
    groups: list[tuple[str, ...]] = []
    for _ in range(ceil(size / len(task.LABELS))):
        try:
            groups.append(task.group(draws, difficulty, seen))
        except SpentError as spent:
            raise _too_many(generator, size, difficulty, f"{spent} after {len(seen)} examples") from None
        seen.update(groups[-1])
    held_out = round(HELD_OUT * len(groups))
    parts = groups[2 * held_out :], groups[:held_out], groups[held_out : 2 * held_out]
    drawn: dict[str, list[tuple[str, int]]] = {}
    for split, part in zip(SPLITS, parts, strict=True):
        rows = [(text, label) for group in part for label, text in enumerate(group)]
        if split == "train":
            rows = rows[: len(rows) + size - len(seen)]
        drawn[split] = draws.shuffled(rows)
    splits = {split: pa.table(list(zip(*rows, strict=True)), ["sentence", "label"]) for split, rows in drawn.items()}
    settings = {"size": size, "difficulty": difficulty, "seed": seed}
    facts: dict[str, object] = {"generator": generator, **settings, "bayes_ceiling": 1.0}
    if settings == task.DESIGN:
        facts["design"] = {"of": "test accuracy at the default size, difficulty and seed", **task.BANDS}
    known = {text for split in ("train", "validation") for text, _ in drawn[split]}
    trees = [task.tree(text)._asdict() for text, _ in drawn["test"] if text not in known]
    bank = pa.Table.from_pylist(trees, schema=_TREE)
    return Corpus(splits, task.LABELS, f"embedded:{generator}", "Apache-2.0", None, facts, bank)


def _translated(draws: Draws, *, size: int, difficulty: int, seed: int) -> Corpus:
    try:
        drawn, facts = embedded_translation.pairs(draws, difficulty, size)
    except SpentError as spent:
        raise _too_many(TRANSLATION, size, difficulty, str(spent)) from None
    held_out = round(HELD_OUT * size)
    parts = drawn[2 * held_out :], drawn[:held_out], drawn[held_out : 2 * held_out]
    splits = {split: pa.table(list(zip(*part, strict=True)), PAIR) for split, part in zip(SPLITS, parts, strict=True)}
    facts = {"generator": TRANSLATION, "size": size, "difficulty": difficulty, "seed": seed, **facts}
    return Corpus(splits, (), f"embedded:{TRANSLATION}", "Apache-2.0", None, facts)


def _too_many(generator: str, size: int, difficulty: int, spent: str) -> InputError:
    return InputError(
        f"size = {size}: the generator {generator!r} at difficulty {difficulty} runs out of distinct {spent}; lower "
        "size or raise difficulty"
    )
