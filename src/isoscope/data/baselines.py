"""Bag-of-words baselines of a task: the floor for models that read word order."""

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, f1_score, matthews_corrcoef

from isoscope.data.corpus import Corpus, text_columns

GRAMS = {"tfidf_unigrams": (1, 1), "tfidf_bigrams": (1, 2)}


def baselines(corpus: Corpus) -> dict[str, dict[str, dict[str, float | int]]]:
    """Compute metrics of TF-IDF with logistic regression (L2, C = 1), for word unigrams and for uni- and bigrams.

    Fitted on train, evaluated on validation and test: `{name: {split: {n, accuracy, f1, matthews}}}`. n: number of
    rows; f1: of class 1 for two classes, macro for more. The features of a pair are those of both sentences and their
    absolute difference.
    """
    return {name: _figures(corpus, grams) for name, grams in GRAMS.items()}


def _figures(corpus: Corpus, grams: tuple[int, int]) -> dict[str, dict[str, float | int]]:
    train = corpus.splits["train"]
    # Include one-letter words ("I", "a", the "t" of "don't"), which scikit-learn skips by default.
    vectorizer = TfidfVectorizer(ngram_range=grams, token_pattern=r"(?u)\b\w+\b")
    vectorizer.fit([text for column in text_columns(train) for text in train[column].to_pylist()])
    model = LogisticRegression(C=1.0, max_iter=1000)
    model.fit(_features(vectorizer, train), train["label"].to_numpy())
    figures: dict[str, dict[str, float | int]] = {}
    for split in ("validation", "test"):
        table = corpus.splits[split]
        predicted = model.predict(_features(vectorizer, table))
        figures[split] = {"n": table.num_rows, **_scores(table["label"].to_numpy(), predicted, len(corpus.labels))}
    return figures


def _features(vectorizer: TfidfVectorizer, table: pa.Table) -> csr_matrix:
    parts = [vectorizer.transform(table[column].to_pylist()) for column in text_columns(table)]
    return parts[0] if len(parts) == 1 else hstack([*parts, abs(parts[0] - parts[1])], format="csr")


def _scores(labels: npt.NDArray[np.int64], predicted: npt.NDArray[np.int64], classes: int) -> dict[str, float]:
    average = "binary" if classes == 2 else "macro"
    return {
        "accuracy": float(accuracy_score(labels, predicted)),
        "f1": float(f1_score(labels, predicted, average=average, zero_division=0.0)),
        "matthews": float(matthews_corrcoef(labels, predicted)),
    }
