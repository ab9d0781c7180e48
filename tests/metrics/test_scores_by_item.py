"""Scores of numbers and of label sets: against scipy and scikit-learn, and their shares by item against their laws."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import f1_score, log_loss

from isoscope.metrics import label_scores, regression_scores, token_counts
from isoscope.metrics.item_shares import ItemShares


def numbers(rows: int, seed: int, *, ties: bool) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    true = draw.normal(size=rows)
    predicted = 0.6 * true + draw.normal(size=rows)
    return (np.round(true), np.round(predicted, 1)) if ties else (true, predicted)


def of_numbers(true: np.ndarray, predicted: np.ndarray) -> dict[str, ItemShares]:
    table = pd.DataFrame({"row": np.arange(len(true)), "score": true, "predicted": predicted})
    return regression_scores.by_item(table.sample(frac=1, random_state=0))


def label_sets(rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """True labels and probabilities."""
    draw = np.random.default_rng(seed)
    true = draw.random((rows, 5)) < [0.1, 0.3, 0.5, 0.2, 0.4]
    return true.astype(float), np.clip(0.35 * true + 0.65 * draw.random((rows, 5)), 0, 1)


def of_labels(true: np.ndarray, probability: np.ndarray) -> dict[str, ItemShares]:
    parts = {"label": true, "predicted": probability > 0.5, "probability": probability}
    columns = {f"{name}_{k}": values[:, k] for name, values in parts.items() for k in range(true.shape[1])}
    return label_scores.by_item(pd.DataFrame({"row": np.arange(len(true)), **columns}))


@pytest.mark.parametrize("ties", [False, True])
def test_correlations_and_errors_agree_with_scipy(ties: bool) -> None:
    for seed in range(5):
        true, predicted = numbers(200, seed, ties=ties)
        peers = {
            "spearman": stats.spearmanr(true, predicted)[0],
            "pearson": stats.pearsonr(true, predicted)[0],
            "rmse": np.sqrt(np.mean((true - predicted) ** 2)),
            "mae": np.mean(np.abs(true - predicted)),
        }
        assert regression_scores.scores(true, predicted) == pytest.approx(peers)


def test_scores_of_label_sets_agree_with_scikit_learn() -> None:
    for seed in range(5):
        true, probability = label_sets(150, seed)
        predicted = probability > 0.5
        found = label_scores.scores(true, predicted)
        for average in ("micro", "macro"):
            assert found[f"{average}_f1"] == pytest.approx(f1_score(true, predicted, average=average))
        assert found["subset_accuracy"] == np.mean((true == predicted).all(1))
        assert found["cardinality"] == predicted.sum(1).mean()
        peer = np.mean([log_loss(true[:, k], probability[:, k]) for k in range(5)])
        assert of_labels(true, probability)["loss"].score == pytest.approx(peer)


@pytest.mark.parametrize("ties", [False, True])
def test_shares_of_correlations_are_those_of_leaving_items_out(ties: bool) -> None:
    """The influence function is the jackknife's pseudo-value to first order: they differ by a term of order 1 / n."""
    true, predicted = numbers(400, 1, ties=ties)
    scores = regression_scores.scores
    every = np.arange(400)
    left_out = [scores(true[every != row], predicted[every != row]) for row in every]
    for name, one in of_numbers(true, predicted).items():
        if name == "loss":
            continue
        whole = scores(true, predicted)[name]
        pseudo = 400 * whole - 399 * np.array([found[name] for found in left_out])
        assert one.score == pytest.approx(whole, abs=1e-12)
        assert np.corrcoef(pseudo, one.shares)[0, 1] > 0.9999
        assert one.shares.std() == pytest.approx(pseudo.std(), rel=0.02)


def _draws(kind: str, seed: int) -> dict[str, ItemShares]:
    return of_numbers(*numbers(300, seed, ties=False)) if kind == "numbers" else of_labels(*label_sets(300, seed))


@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_the_spread_of_shares_is_the_spread_over_samples(kind: str) -> None:
    """The standard error from the shares is the standard deviation of the score over fresh samples (within 10 %)."""
    found = [_draws(kind, seed) for seed in range(600)]
    for name in found[0]:
        values = np.array([one[name].score for one in found])
        errors = np.array([one[name].shares.std(ddof=1) / np.sqrt(300) for one in found])
        assert errors.mean() == pytest.approx(values.std(ddof=1), rel=0.1), name


def test_no_constant_prediction_of_numbers_is_better_than_the_constant() -> None:
    true, predicted = numbers(200, 3, ties=False)
    found = of_numbers(true, predicted)
    for value in np.linspace(-2, 2, 41):
        reached = regression_scores.scores(true, np.full(200, value))
        assert reached["rmse"] >= found["rmse"].constant
        assert reached["mae"] >= found["mae"].constant
        assert reached["spearman"] == reached["pearson"] == 0
    assert found["spearman"].above(0.5) == 0.5
    assert found["rmse"].above(found["rmse"].constant - 0.25) == pytest.approx(0.25)


def _every_set() -> list[np.ndarray]:
    return [np.array([number >> bit & 1 for bit in range(5)], float) for number in range(32)]


@pytest.mark.parametrize("name", ["micro_f1", "macro_f1", "subset_accuracy"])
def test_no_label_set_for_every_text_is_better_than_the_constant(name: str) -> None:
    true, probability = label_sets(150, 4)
    best = max(label_scores.scores(true, np.broadcast_to(one, true.shape))[name] for one in _every_set())
    assert of_labels(true, probability)[name].constant == pytest.approx(best)


def test_the_threshold_has_the_best_f1_and_lies_in_the_middle_of_its_equals() -> None:
    true = np.array([[1.0, 0.0]] * 10)
    assert label_scores.best_threshold(true, np.array([[0.8, 0.2]] * 10)) == pytest.approx(0.5, abs=0.01)
    true, probability = label_sets(150, 5)
    chosen = label_scores.best_threshold(true, probability)
    f1: Callable[[float], Any] = lambda threshold: label_scores.scores(true, probability > threshold)["micro_f1"]  # noqa: E731
    assert f1(chosen) == max(map(f1, label_scores.SHARES))


def test_the_loss_of_a_language_model_has_shares_that_average_to_it_and_spread_as_the_jackknife() -> None:
    draw = np.random.default_rng(0)
    tokens = draw.integers(1, 9, 200)
    table = pd.DataFrame({"row": np.arange(200), "loss": draw.gamma(2.0, tokens), "tokens": tokens})
    table["right"] = draw.binomial(tokens, 0.4)
    for metric, part in (("loss", "loss"), ("accuracy", "right")):
        found = token_counts.shares(table.sample(frac=1, random_state=0))[metric]
        assert found.mean() == pytest.approx(table[part].sum() / table["tokens"].sum())
        left_out = np.array(
            [(table[part].sum() - row[part]) / (table["tokens"].sum() - row["tokens"]) for _, row in table.iterrows()]
        )
        assert np.corrcoef(found, -left_out)[0, 1] > 0.999
        assert found.std() == pytest.approx(199 * left_out.std(), rel=0.03)
