"""Write a prepared task: a parquet file per split, and manifest.json, which describes it and its baselines."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

from isoscope.base.atomic_files import sha256, write_text
from isoscope.data.corpus import SPLITS, TREEBANK, Corpus, text_columns, texts
from isoscope.data.scripts import language, token_pattern
from isoscope.metrics.matrix_scores import scores

GRAMS = {"tfidf_unigrams": (1, 1), "tfidf_bigrams": (1, 2)}


def baselines(corpus: Corpus) -> dict[str, dict[str, dict[str, float | int]]]:
    """Compute metrics of TF-IDF with logistic regression (L2, C = 1), for word unigrams and for uni- and bigrams.

    Fitted on train, evaluated on validation and test: `{name: {split: {n, accuracy, f1, matthews}}}`. n: number of
    rows; f1: of class 1 for two classes, macro for more. The features of a pair are those of both sentences and their
    absolute difference.
    """
    train = corpus.splits["train"]
    known = [text for column in text_columns(train) for text in train[column].to_pylist()]
    found: dict[str, dict[str, dict[str, float | int]]] = {}
    for name, grams in GRAMS.items():
        # Include one-letter words ("I", "a", the "t" of "don't"), which scikit-learn skips by default.
        vectorizer = TfidfVectorizer(ngram_range=grams, token_pattern=token_pattern(known))
        vectorizer.fit(known)
        model = LogisticRegression(C=1.0, max_iter=1000)
        model.fit(_features(vectorizer, train), train["label"].to_numpy())
        found[name] = {}
        for split in ("validation", "test"):
            table = corpus.splits[split]
            predicted = model.predict(_features(vectorizer, table))
            metrics = scores(table["label"].to_numpy(), predicted, len(corpus.labels))
            found[name][split] = {"n": table.num_rows, **metrics}
    return found


def _features(vectorizer: TfidfVectorizer, table: pa.Table) -> csr_matrix:
    parts = [vectorizer.transform(table[column].to_pylist()) for column in text_columns(table)]
    return parts[0] if len(parts) == 1 else hstack([*parts, abs(parts[0] - parts[1])], format="csr")


QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def write(
    corpus: Corpus,
    folder: Path,
    *,
    lengths: Mapping[str, Sequence[int]] | None = None,
    models: Mapping[str, object] | None = None,
) -> dict[str, object]:
    """Write `<split>.parquet` (text and label columns only) and manifest.json to the new `folder`; return the manifest.

    A corpus with trees also gets a `treebank.parquet`. Equal corpora give equal bytes: no dates, no paths.

    The manifest has source, licence, revision, class names and `facts`; per split: rows, rows per class, words (and
    tokens, by `lengths`) per example, and `duplicates`, the number of rows that repeat a text of the split; per pair of
    splits: number of common distinct texts; sha256 of files; metrics of `baselines`. Texts are compared exactly; a pair
    is one text. A text task has no class names, no rows per class, and the baselines `models`, which depend on its
    tokenizer (see `ngrams.baselines`). `languages`: those of text columns whose script tells it (see
    `scripts.language`), if any.
    """
    folder.mkdir(parents=True, exist_ok=True)
    columns = text_columns(corpus.splits["train"])
    wanted = [*columns, *(["label"] if corpus.labels else [])]
    tables = {f"{split}.parquet": table.select(wanted) for split, table in corpus.splits.items()}
    if corpus.trees is not None:
        tables[TREEBANK] = corpus.trees
    for name, table in tables.items():
        pq.write_table(table.replace_schema_metadata(None), folder / name, compression="zstd")
    distinct = {split: {*texts(corpus.splits[split])} for split in SPLITS}
    splits: dict[str, dict[str, object]] = {}
    for split in SPLITS:
        table = corpus.splits[split]
        rows = Counter(table["label"].to_pylist() if corpus.labels else ())
        splits[split] = {
            "rows": table.num_rows,
            "labels": {name: rows[number] for number, name in enumerate(corpus.labels)},
            "words": _distribution([sum(len(part.split()) for part in text) for text in texts(table)]),
            "duplicates": table.num_rows - len(distinct[split]),
        }
        if lengths is not None:
            splits[split] |= {"tokens": _distribution(lengths[split])}
    known = {column: language(corpus.splits["train"][column].to_pylist()) for column in columns}
    languages = {column: name for column, name in known.items() if name}
    manifest: dict[str, object] = {
        "source": corpus.source,
        "licence": corpus.licence,
        "revision": corpus.revision,
        "columns": list(columns),
        **({"languages": languages} if languages else {}),
        "labels": list(corpus.labels),
        "facts": corpus.facts,
        "splits": splits,
        "shared": {f"{one}/{other}": len(distinct[one] & distinct[other]) for one, other in combinations(SPLITS, 2)},
        "files": {name: {"sha256": sha256(path := folder / name), "bytes": path.stat().st_size} for name in tables},
        "baselines": baselines(corpus) if corpus.labels else dict(models or {}),
    }
    text = json.dumps(manifest, indent=2, sort_keys=True, ensure_ascii=False, allow_nan=False) + "\n"
    write_text(folder / "manifest.json", text, "data")
    return manifest


def _distribution(lengths: Sequence[int]) -> dict[str, float | int]:
    values = np.asarray(lengths)
    quantiles = {f"q{round(100 * q):02d}": float(np.quantile(values, q)) for q in QUANTILES}
    return {"min": int(values.min()), "mean": round(float(values.mean()), 3), **quantiles, "max": int(values.max())}
