"""Write a prepared task: a parquet file per split, and manifest.json, which describes it and its baselines."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from unicodedata import normalize

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.base.atomic_files import sha256, write_text
from isoscope.data.baselines import baselines
from isoscope.data.corpus import SPLITS, TREEBANK, Corpus, target_of, text_columns, texts
from isoscope.data.scripts import language
from isoscope.data.words import CHARACTERS, bag

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
ENDS = " .,;:!?…‽。．！？；：、，।॥؟۔\"'”’»」)"
"""Signs at the end of a text that do not count where texts are compared nearly."""


def write(
    corpus: Corpus,
    folder: Path,
    *,
    lengths: Mapping[str, Sequence[int]] | None = None,
    models: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Write `<split>.parquet` (columns of text and target) and manifest.json to the new `folder`; return the manifest.

    A corpus with trees also gets a `treebank.parquet`. Equal corpora give equal bytes: no dates, no paths.

    - The task: source, licence, revision, text columns, `target` (its column), names of classes or labels, and `facts`.
    - Per split: rows; rows per class or label, the distribution of scores, and `cardinality`, the mean number of labels
      per row; words (and tokens, by `lengths`) per example; `duplicates`, the number of rows that repeat a text.
    - Per pair of splits: `shared`, the number of common distinct texts, and `shared_nearly`, the number of distinct
      texts of the second split with a nearly equal text in the first (see `nearly`). A pair is one text.
    - sha256 of files, and metrics of `baselines`; of a text task the metrics of `models`, which depend on its tokenizer
      (see `ngrams.baselines`). `languages`: those of text columns whose script tells it (see `scripts.language`).
      `words_by`: of texts without spaces between words, the segmenter with its version, or `words.CHARACTERS`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = text_columns(corpus.splits["train"])
    target = target_of(corpus.splits["train"])
    wanted = [*columns, *filter(None, [target])]
    tables = {f"{split}.parquet": table.select(wanted) for split, table in corpus.splits.items()}
    if corpus.trees is not None:
        tables[TREEBANK] = corpus.trees
    for name, table in tables.items():
        pq.write_table(table.replace_schema_metadata(None), folder / name, compression="zstd")
    distinct = {split: {*texts(corpus.splits[split])} for split in SPLITS}
    near = {split: Counter(map(nearly, distinct[split])) for split in SPLITS}
    pairs = [*combinations(SPLITS, 2)]
    train = {column: corpus.splits["train"][column].to_pylist() for column in columns}
    own = bag(*train.values())
    counted = own.split if own.by not in (None, CHARACTERS) else str.split
    splits: dict[str, dict[str, object]] = {}
    for split in SPLITS:
        table = corpus.splits[split]
        splits[split] = {
            "rows": table.num_rows,
            **_targets(table, corpus.labels),
            "words": _distribution([sum(len(counted(part)) for part in text) for text in texts(table)]),
            "duplicates": table.num_rows - len(distinct[split]),
        }
        if lengths is not None:
            splits[split] |= {"tokens": _distribution(lengths[split])}
    known = {column: language(found) for column, found in train.items()}
    languages = {column: name for column, name in known.items() if name}
    manifest: dict[str, object] = {
        "source": corpus.source,
        "licence": corpus.licence,
        "revision": corpus.revision,
        "columns": list(columns),
        **({"languages": languages} if languages else {}),
        **({"words_by": own.by} if own.by else {}),
        "target": target,
        "labels": list(corpus.labels),
        "facts": corpus.facts,
        "splits": splits,
        "shared": {f"{one}/{other}": len(distinct[one] & distinct[other]) for one, other in pairs},
        "shared_nearly": {
            f"{one}/{other}": sum(near[other][text] for text in near[one].keys() & near[other]) for one, other in pairs
        },
        "files": {name: {"sha256": sha256(path := folder / name), "bytes": path.stat().st_size} for name in tables},
        "baselines": baselines(corpus) if target else dict(models or {}),
    }
    text = json.dumps(manifest, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "manifest.json", text, "data")
    return manifest


def nearly(text: tuple[str, ...]) -> tuple[str, ...]:
    """Return a text in lower case, in NFC, with single spaces, and without punctuation at its end."""
    plain = (" ".join(normalize("NFC", part).casefold().split()) for part in text)
    return tuple(part.rstrip(ENDS) or part for part in plain)


def _targets(table: pa.Table, names: Sequence[str]) -> dict[str, object]:
    """Return what a manifest says of the targets of a split."""
    target = target_of(table)
    if target == "score":
        return {"labels": {}, "score": _distribution(table["score"].to_pylist())}
    own = [] if target is None else table[target].to_pylist()
    rows = Counter([one for row in own for one in row] if target == "labels" else own)
    counts = {"labels": {name: rows[number] for number, name in enumerate(names)}}
    return counts | ({"cardinality": round(rows.total() / len(own), 3)} if target == "labels" else {})


def _distribution(lengths: Sequence[float]) -> dict[str, float | int]:
    values = np.asarray(lengths)
    quantiles = {f"q{round(100 * q):02d}": float(np.quantile(values, q)) for q in QUANTILES}
    return {"min": values.min().item(), "mean": round(float(values.mean()), 3), **quantiles, "max": values.max().item()}
