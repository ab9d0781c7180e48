"""Generated text tasks. The label or the translation is a function of the text, so every error is the model's."""

import pyarrow as pa

from isoscope.base.errors import InputError
from isoscope.data import embedded_sentiment, embedded_translation
from isoscope.data.corpus import PAIR, SPLITS, Corpus
from isoscope.data.draws import Draws, SpentError

GENERATORS = {"sentiment": embedded_sentiment}
"""Module of each generator with labels: class names, draw of a new text per class, tree of a text, calibration."""
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
    task = GENERATORS.get(generator)
    groups: list[tuple[tuple[str, object], ...]] = []
    facts: dict[str, object] = {}
    try:
        if task is None:
            drawn, facts = embedded_translation.pairs(draws, difficulty, size)
            groups = [(pair,) for pair in drawn]
        else:
            seen: set[str] = set()
            while len(seen) < size:
                texts = task.group(draws, difficulty, seen)
                groups.append(tuple((text, label) for label, text in enumerate(texts)))
                seen.update(texts)
    except SpentError as spent:
        raise InputError(
            f"size = {size}: the generator {generator!r} at difficulty {difficulty} runs out of distinct {spent}; "
            "lower size or raise difficulty"
        ) from None
    held_out = round(HELD_OUT * len(groups))
    parts = groups[2 * held_out :], groups[:held_out], groups[held_out : 2 * held_out]
    rows = {split: [row for group in part for row in group] for split, part in zip(SPLITS, parts, strict=True)}
    del rows["train"][len(rows["train"]) + size - sum(map(len, groups)) :]
    settings = {"size": size, "difficulty": difficulty, "seed": seed}
    facts |= {"generator": generator, **settings}
    columns, labels, bank = PAIR, (), None
    if task is not None:
        rows = {split: draws.shuffled(own) for split, own in rows.items()}
        columns, labels = ("sentence", "label"), task.LABELS
        facts["bayes_ceiling"] = 1.0
        if settings == task.DESIGN:
            facts["design"] = {"of": "test accuracy at the default size, difficulty and seed", **task.BANDS}
        known = {text for split in ("train", "validation") for text, _ in rows[split]}
        trees = [task.tree(text)._asdict() for text, _ in rows["test"] if text not in known]
        bank = pa.Table.from_pylist(trees, schema=_TREE)
    splits = {split: pa.table(list(zip(*own, strict=True)), columns) for split, own in rows.items()}
    return Corpus(splits, labels, f"embedded:{generator}", "Apache-2.0", None, facts, bank)
