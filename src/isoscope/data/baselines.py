"""Baselines of a task with a target: a constant prediction, bags of words, and the words that a pair shares."""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import chain
from typing import Any, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.sparse import hstack
from sklearn.dummy import DummyClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import MultiLabelBinarizer

from isoscope.base.metric import DECIMALS
from isoscope.data.corpus import PAIR, Corpus, target_of, text_columns, texts
from isoscope.data.words import bag
from isoscope.metrics import label_scores, matrix_scores, regression_scores

GRAMS = {"tfidf_unigrams": (1, 1), "tfidf_bigrams": (1, 2)}
CONSTANT = {"label": "majority_class", "score": "mean_score", "labels": "frequent_labels"}
"""Target → the baseline that reads no text."""
SCORED = ("validation", "test")
Numbers = NDArray[Any]
Features = Mapping[str, Any]
"""Split → features of its texts, `[N, F]`."""


def baselines(corpus: Corpus) -> dict[str, dict[str, dict[str, float | int]]]:
    """Compute metrics of models that are fitted on train: `{name: {split: {n, metric: value}}}`; n: number of rows.

    - `majority_class`, `mean_score`, or `frequent_labels` (the label set with the best micro F1), each of train.
    - `tfidf_unigrams`, `tfidf_bigrams`: TF-IDF of words, or of words and pairs of neighbours. The features of a pair
      are those of both sentences and their absolute difference.
    - `word_overlap`, of pairs: shared words over all words of both sentences, and over those of each sentence.

    Words are those of `words.bag`. Classes: logistic regression (L2, C = 1). Scores: ridge regression (α = 1). Labels:
    a logistic regression each, with one threshold of their probabilities, chosen on validation by micro F1.
    """
    splits, target = corpus.splits, target_of(corpus.splits["train"])
    true = {split: _references(table, len(corpus.labels)) for split, table in splits.items()}
    constant = _constant(true["train"], target)
    found = {CONSTANT[str(target)]: {split: np.array([constant] * len(true[split])) for split in SCORED}}
    for name, features in _features(splits).items():
        predict = _fitted(features["train"], true["train"], target)
        found[name] = {split: predict(features[split]) for split in SCORED}
        if target == "labels":
            threshold = label_scores.best_threshold(true["validation"], found[name]["validation"])
            found[name] = {split: predicted > threshold for split, predicted in found[name].items()}
    scores: Mapping[str | None, Callable[..., dict[str, float]]] = {
        "label": partial(matrix_scores.scores, classes=len(corpus.labels)),
        "score": regression_scores.scores,
        "labels": label_scores.scores,
    }
    return {
        name: {split: _scored(true[split], own[split], scores[target]) for split in SCORED}
        for name, own in found.items()
    }


def _scored(true: Numbers, predicted: Numbers, scores: Callable[..., dict[str, float]]) -> dict[str, float | int]:
    """Return n and scores, rounded to `DECIMALS`."""
    return {"n": len(true)} | {name: round(value, DECIMALS) for name, value in scores(true, predicted).items()}


def _references(table: pa.Table, labels: int) -> Numbers:
    """Return classes `[N]`, scores `[N]`, or labels as 0 and 1 `[N, L]`."""
    target = table[target_of(table)]
    if pa.types.is_list(target.type):
        return np.asarray(MultiLabelBinarizer(classes=range(labels)).fit_transform(target.to_pylist()))
    return np.asarray(target.to_numpy())


def _constant(true: Numbers, target: str | None) -> Numbers:
    if target == "labels":
        return label_scores.best_constant(true)
    return np.asarray(true.mean() if target == "score" else np.bincount(true).argmax())


def _fitted(features: Any, true: Numbers, target: str | None) -> Callable[[Any], Numbers]:
    """Return a fitted model's predictions as a function of features; of labels their probabilities."""
    if target == "labels":
        models = [
            (_logistic() if own.any() and not own.all() else DummyClassifier()).fit(features, own) for own in true.T
        ]
        return lambda asked: np.stack([model.predict_proba(asked) @ model.classes_ for model in models], axis=1)
    model = Ridge(alpha=1.0) if target == "score" else _logistic()
    return cast(Callable[[Any], Numbers], model.fit(features, true).predict)


def _logistic() -> LogisticRegression:
    return LogisticRegression(C=1.0, max_iter=1000)


def _features(splits: Mapping[str, pa.Table]) -> dict[str, Features]:
    columns = text_columns(splits["train"])
    train = [splits["train"][column].to_pylist() for column in columns]
    split_text, known = bag(*train).split, [*chain(*train)]
    found: dict[str, Features] = {}
    for name, grams in GRAMS.items() if any(map(split_text, known)) else ():  # emoji are no words
        vectorizer = TfidfVectorizer(ngram_range=grams, tokenizer=split_text, token_pattern=None).fit(known)
        found[name] = {split: _bags(vectorizer, table) for split, table in splits.items()}
    if columns == PAIR:
        found["word_overlap"] = {
            split: np.array([overlap(*(split_text(text.lower()) for text in pair)) for pair in texts(table)])
            for split, table in splits.items()
        }
    return found


def _bags(vectorizer: TfidfVectorizer, table: pa.Table) -> Any:
    parts = [vectorizer.transform(table[column].to_pylist()) for column in text_columns(table)]
    return parts[0] if len(parts) == 1 else hstack([*parts, abs(parts[0] - parts[1])], format="csr")


def overlap(one: list[str], other: list[str]) -> tuple[float, float, float]:
    """Return the number of different words that both texts have, over those of either, of the first, of the second.

    0 without words.
    """
    first, second = {*one}, {*other}
    shared = len(first & second)
    either, left, right = (shared / max(len(words), 1) for words in (first | second, first, second))
    return either, left, right
