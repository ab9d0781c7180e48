"""Write a prepared task's folder: a parquet file per split, and manifest.json, which describes the task."""

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from isoscope.data.corpus import SPLITS, TREEBANK, Corpus, check, text_columns, texts
from isoscope.sealing import write_text

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def write(corpus: Corpus, folder: Path, *, lengths: Mapping[str, Sequence[int]] | None = None) -> dict[str, object]:
    """Write `<split>.parquet` (text and label columns only) and manifest.json to `folder`; return the manifest.

    A corpus with trees also gets a `treebank.parquet`. `lengths`: tokens per example by split, if known. Equal corpora
    give equal bytes: no dates, no paths. Raises `InputError` for a corpus that `corpus.check` refuses.
    """
    check(corpus)
    folder.mkdir(parents=True, exist_ok=True)
    tables = {f"{split}.parquet": _bare(corpus.splits[split]) for split in SPLITS}
    if corpus.trees is not None:
        tables[TREEBANK] = corpus.trees
    files = {name: folder / name for name in tables}
    for name, path in files.items():
        fresh = path.with_suffix(".writing")  # the old file may be a link to a cache: never open it for writing
        pq.write_table(tables[name], fresh, compression="zstd")
        fresh.replace(path)
    manifest = describe(corpus, lengths=lengths, files=files)
    text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "manifest.json", text, "data")
    return manifest


def describe(
    corpus: Corpus, *, lengths: Mapping[str, Sequence[int]] | None, files: Mapping[str, Path]
) -> dict[str, object]:
    """Return a description of the task as plain JSON values.

    Contents: source, licence, revision, class names and `facts`; per split: rows, rows per class, words (and tokens)
    per example, and `duplicates`, the number of rows that repeat a text of the split; per pair of splits: number of
    common distinct texts; sha256 of `files`; metrics of `baselines`. Texts are compared exactly; a pair is one text.
    """
    from isoscope.data.baselines import (
        baselines,
    )  # scikit-learn takes 2 s to import; readers of manifests do not need it

    distinct = {split: Counter(texts(corpus.splits[split])) for split in SPLITS}
    splits: dict[str, dict[str, object]] = {}
    for split in SPLITS:
        table = corpus.splits[split]
        rows = Counter(table["label"].to_pylist())
        splits[split] = {
            "rows": table.num_rows,
            "labels": {name: rows[number] for number, name in enumerate(corpus.labels)},
            "words": _distribution([sum(len(part.split()) for part in text) for text in texts(table)]),
            "duplicates": table.num_rows - len(distinct[split]),
        }
        if lengths is not None:
            splits[split] |= {"tokens": _distribution(lengths[split])}
    return {
        "source": corpus.source,
        "licence": corpus.licence,
        "revision": corpus.revision,
        "columns": list(text_columns(corpus.splits["train"])),
        "labels": list(corpus.labels),
        "facts": corpus.facts,
        "splits": splits,
        "shared": {
            f"{one}/{other}": len(distinct[one].keys() & distinct[other]) for one, other in combinations(SPLITS, 2)
        },
        "files": {name: {"sha256": sha256(path), "bytes": path.stat().st_size} for name, path in files.items()},
        "baselines": baselines(corpus),
    }


def _bare(table: pa.Table) -> pa.Table:
    return table.select([*text_columns(table), "label"]).replace_schema_metadata(None)


def sha256(path: Path) -> str:
    """Return the sha256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _distribution(lengths: Sequence[int]) -> dict[str, float | int]:
    values = np.asarray(lengths)
    quantiles = {f"q{round(100 * q):02d}": float(np.quantile(values, q)) for q in QUANTILES}
    return {"min": int(values.min()), "mean": round(float(values.mean()), 3), **quantiles, "max": int(values.max())}
