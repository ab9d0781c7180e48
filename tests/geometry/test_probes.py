"""Probes find planted signals and nothing else, agree with scikit-learn, and never read a held-out group."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import ortho_group
from sklearn.linear_model import LogisticRegression, Ridge

from isoscope.geometry import probes, regressions
from isoscope.geometry.probes import (
    LinearProbe,
    learning_curve,
    linear_probe,
    linear_probes,
    online_code_length,
    online_code_lengths,
    permuted,
    ridge_probe,
)


def cloud(n: int, d: int, seed: int = 0) -> Any:
    """Correlated Gaussian points, away from the origin, of different spread along each axis."""
    random = np.random.default_rng(seed)
    return random.standard_normal((n, d)) @ random.standard_normal((d, d)) * np.exp(random.standard_normal(d)) + 3.0


def classes(points: Any, k: int, noise: float = 0.5, seed: int = 1) -> Any:
    """k classes of equal size along a direction of the standardised points, blurred by noise."""
    scaled = (points - points.mean(0)) / points.std(0)
    along = scaled @ np.random.default_rng(seed).standard_normal(points.shape[1])
    along = along / along.std() + noise * np.random.default_rng(seed + 1).standard_normal(len(points))
    return np.argsort(np.argsort(along)) * k // len(points)


def alone(points: Any, labels: Any, *, seed: int = 0, **options: Any) -> LinearProbe:
    """Probe points that are a group each."""
    return linear_probe(points, labels, np.arange(len(labels)), seed=seed, **options)


def outer(groups: Any, seed: int, folds: int = 5) -> Any:
    return probes._shuffled_places(np.unique(groups, return_inverse=True)[1], seed, 0) % folds


@pytest.mark.parametrize("k", [2, 4])
def test_a_planted_signal_is_found(k: int) -> None:
    points = cloud(400, 12)
    labels = np.array(["a", "b", "c", "d"])[classes(points, k, noise=0.05)]
    found = alone(points, labels)
    assert found.accuracy > (0.95, 0.85)[k == 4]
    assert (found.chance, found.n, found.d) == (1 / k, 400, 12)


def test_without_a_signal_accuracy_is_chance() -> None:
    """The mean of 40 clouds, n = 120: sd of one is .055 (binomial alone: .046), so 4 sd of the mean are .035."""
    labels = np.arange(120) % 2
    even, uneven = [], []
    for seed in range(40):
        points = np.random.default_rng(seed).standard_normal((120, 12))
        even.append(alone(points, labels, seed=seed, strata=labels).accuracy)
        uneven.append(alone(points, labels, seed=seed).accuracy)
    assert np.mean(even) == pytest.approx(0.5, abs=0.035)
    # Why folds are stratified: otherwise a class with more training points has fewer held-out points.
    assert np.mean(uneven) < 0.48


def test_a_leak_by_group_is_used_only_where_groups_are_ignored(random: np.random.Generator) -> None:
    groups = np.repeat(np.arange(100), 4)
    points = random.standard_normal((100, 150))[groups] + 0.01 * random.standard_normal((400, 150))
    labels = random.permutation(np.arange(100) % 2)[groups]
    assert alone(points, labels).accuracy > 0.95
    assert linear_probe(points, labels, groups, seed=0, strata=labels).accuracy == pytest.approx(0.5, abs=0.2)
    assert ridge_probe(points, labels, np.arange(400), seed=0).r2 > 0.9
    assert ridge_probe(points, labels, groups, seed=0).r2 < 0.1


@pytest.mark.parametrize("k", [2, 3])
def test_accuracy_is_scikit_learns_on_the_same_folds(k: int) -> None:
    points = cloud(150, 30)
    labels, groups = classes(points, k), np.arange(150) // 2
    right = 0
    for fold in range(5):
        test = outer(groups, 3) == fold
        mean, sd = points[~test].mean(0), points[~test].std(0)
        peer = LogisticRegression(C=0.1, tol=1e-8, max_iter=10_000).fit((points[~test] - mean) / sd, labels[~test])
        right += int((peer.predict((points[test] - mean) / sd) == labels[test]).sum())
    found = linear_probe(points, labels, groups, seed=3, penalties=(0.1,))
    assert found.accuracy == right / 150
    assert found.penalty == pytest.approx(0.1)


def test_fits_and_tasks_do_not_touch_each_other() -> None:
    points = cloud(160, 20)
    tasks = {"two": classes(points, 2), "three": classes(points, 3), "other": np.arange(160) % 2}
    together = linear_probes(points, tasks, np.arange(160), seed=0)
    for name, labels in tasks.items():
        assert together[name] == alone(points, labels)
    lengths = online_code_lengths(points, tasks, np.arange(160), seed=0)
    for name, labels in tasks.items():
        assert lengths[name].bits == pytest.approx(online_code_length(points, labels, np.arange(160), seed=0).bits)


def test_permuted_labels_have_the_bias_of_their_folds() -> None:
    """Words of whole sentences, n = 200, labels at random: scores lie below one half, those of permuted labels as far.

    200 clouds: the sd of a difference is about .05, so 2 standard errors of its mean are .007.
    """
    group, scores, guesses = np.arange(200) // 5, [], []
    for seed in range(200):
        random = np.random.default_rng(seed)
        points, labels = random.standard_normal((200, 8)), random.integers(0, 2, 200)
        without = permuted(labels, group, seed=seed, draws=2)
        tasks = {"own": labels, "0": without[0], "1": without[1]}
        found = linear_probes(points, tasks, group, seed=seed, penalties=(1e-4, 1.0))
        chance = found["own"].chance
        scores.append(found["own"].accuracy - chance)
        guesses.append((found["0"].accuracy + found["1"].accuracy) / 2 - chance)
    differences = np.subtract(scores, guesses)
    assert abs(differences.mean()) < 2 * differences.std() / 200**0.5
    assert np.mean(scores) < -0.03, "and the largest class's share is no chance that these folds can reach"


def test_labels_are_permuted_within_folds() -> None:
    group, labels = np.arange(60) // 3, np.arange(60) % 4
    found = permuted(labels, group, seed=1, draws=3)
    fold = outer(group, 1)
    for one in range(5):
        for draw in found:
            assert sorted(draw[fold == one]) == sorted(labels[fold == one])
    assert (found[0] != labels).any()
    assert (found[0] != found[1]).any()


def test_groups_are_whole_and_strata_even() -> None:
    groups = np.repeat(np.arange(30), np.arange(30) % 4 + 1)
    folds = outer(groups, 0)
    assert all(len(set(folds[groups == one])) == 1 for one in range(30))
    assert sorted(np.bincount(outer(np.arange(30), 0))) == [6] * 5
    strata = np.arange(30) % 3
    dealt = probes._shuffled_places(np.arange(30), 0, 0, strata) % 5
    assert all(sorted(np.bincount(dealt[strata == one])) == [2] * 5 for one in range(3))


def test_no_fit_sees_a_held_out_label(monkeypatch: pytest.MonkeyPatch) -> None:
    points, seen, solve = cloud(100, 10), [], probes.logistic_regressions

    def spy(design: Any, energy: Any, labels: Any, *rest: Any, **options: Any) -> Any:
        seen.append((len(design), np.bincount(labels[0])))
        return solve(design, energy, labels, *rest, **options)

    for module in (probes, regressions):
        monkeypatch.setattr(module, "logistic_regressions", spy)
    labels, folds = np.random.default_rng(0).integers(0, 2, 100), outer(np.arange(100), 0)
    alone(points, labels)
    fits = iter(seen)  # for each fold, penalties on each two of three inner folds, then the chosen penalty
    for fold in range(5):
        inside = labels[folds != fold]
        inner = []
        for points_seen, counts in fits:
            if points_seen == len(inside):
                break
            inner.append((points_seen, counts))
        np.testing.assert_array_equal(counts, np.bincount(inside))
        assert len(inner) in range(3, 3 * len(probes.PENALTIES) + 1, 3)
        for at in range(0, len(inner), 3):
            assert sum(points_known for points_known, _ in inner[at : at + 3]) == 2 * len(inside)
            np.testing.assert_array_equal(sum(known for _, known in inner[at : at + 3]), 2 * np.bincount(inside))
    assert next(fits, None) is None


def test_penalties_that_only_fit_noise_are_not_tried_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    points, random = cloud(120, 60), np.random.default_rng(0)
    tasks = {"signal": classes(points, 3), "weak": classes(points, 2, noise=8.0), "noise": random.integers(0, 3, 120)}
    solved: list[float] = []
    solve = probes.logistic_regressions

    def spy(*given: Any, **options: Any) -> Any:
        solved.append(len(given[2]))
        return solve(*given, **options)

    for module in (probes, regressions):
        monkeypatch.setattr(module, "logistic_regressions", spy)
    found, coded = (ask(points, tasks, np.arange(120), seed=0) for ask in (linear_probes, online_code_lengths))
    fewer = sum(solved)
    monkeypatch.setattr(regressions, "HOPELESS", np.inf)
    solved.clear()
    assert linear_probes(points, tasks, np.arange(120), seed=0) == found
    for name, length in online_code_lengths(points, tasks, np.arange(120), seed=0).items():
        assert coded[name].bits == pytest.approx(length.bits, abs=0.01)
    assert fewer < 0.8 * sum(solved)


def test_rotations_and_units_change_nothing_where_they_should_not() -> None:
    points = cloud(120, 15)
    labels = classes(points, 2)
    turned = (points - 3.0) @ ortho_group.rvs(15, random_state=0) * 7.0
    plain = alone(points, labels, standardise=False)
    assert alone(turned, labels, standardise=False) == plain
    scaled = points * np.exp(np.random.default_rng(1).standard_normal(15) * 2) + 5.0
    assert alone(scaled, labels) == alone(points, labels)
    assert alone(scaled, labels, standardise=False) != plain


def test_dimensions_that_hold_rounding_only_are_left_out() -> None:
    points = cloud(100, 5)
    labels, random = classes(points, 2), np.random.default_rng(0)
    rounding = 10.0 + 1e-7 * (labels[:, None] + 0.01 * random.standard_normal((100, 1)))  # a label no reader should see
    dull = alone(np.hstack([random.standard_normal((100, 2)), rounding]), labels)
    assert dull.accuracy < 0.7
    assert alone(np.hstack([points, rounding]), labels)[:3] == alone(points, labels)[:3]


def test_a_rare_class_may_be_absent_from_training() -> None:
    points = cloud(60, 4)
    labels = classes(points, 2)
    labels[7] = 5
    assert 0.5 < alone(points, labels).accuracy <= 59 / 60
    assert np.isfinite(online_code_length(points, labels, np.arange(60), seed=0).bits)
    one = np.arange(60) == 7
    assert alone(points, one).accuracy == pytest.approx(59 / 60)


def test_more_training_points_find_more() -> None:
    points = cloud(400, 40)
    labels = classes(points, 2, noise=0.3)
    found = learning_curve(points, labels, np.arange(400), seed=0, shares=(0.1, 0.4, 1.0))
    accuracies = [found[share].accuracy for share in (0.1, 0.4, 1.0)]
    assert accuracies[0] + 0.05 < accuracies[1] < accuracies[2]
    assert found[1.0] == alone(points, labels)


def test_ridge_is_scikit_learns_and_leaves_groups_out_in_closed_form() -> None:
    points, groups = cloud(90, 12), np.arange(90) // 3
    values = points @ np.random.default_rng(0).standard_normal(12) + 20 * np.random.default_rng(1).standard_normal(90)
    train, _, energy = (part[..., :-1] for part in probes._axes(points, points[:0], True))
    rest = values - values.mean()
    errors = {}
    for ridge in probes.RIDGES:
        errors[ridge] = 0.0
        for one in np.unique(groups):
            out = groups == one
            fit = Ridge(alpha=ridge, tol=1e-12).fit(train[~out], rest[~out])
            errors[ridge] += float(((rest[out] - fit.predict(train[out])) ** 2).sum())
    assert probes._ridges(train, energy, rest[None], groups) == [min(errors, key=lambda ridge: errors[ridge])]

    error = spread = 0.0
    for fold in range(5):
        test = outer(groups, 0) == fold
        scaled = (points - points[~test].mean(0)) / points[~test].std(0)
        inside, _, sums = (part[..., :-1] for part in probes._axes(points[~test], points[:0], True))
        (best,) = probes._ridges(inside, sums, (values[~test] - values[~test].mean())[None], groups[~test])
        fit = Ridge(alpha=best).fit(scaled[~test], values[~test])
        error += float(((values[test] - fit.predict(scaled[test])) ** 2).sum())
        spread += float(((values[test] - values[~test].mean()) ** 2).sum())
    assert ridge_probe(points, values, groups, seed=0).r2 == pytest.approx(1 - error / spread, rel=1e-9)


def test_r2_is_one_for_a_plane_and_none_for_noise() -> None:
    points = np.random.default_rng(0).standard_normal((200, 10))
    assert ridge_probe(points, points @ np.arange(10) + 4.0, np.arange(200), seed=0).r2 > 0.999
    noise = [
        ridge_probe(points, np.random.default_rng(seed).standard_normal(200), np.arange(200), seed=seed).r2
        for seed in range(10)
    ]
    assert -0.1 < np.mean(noise) < 0.02
    wide = ridge_probe(np.tile(points, 30), points[:, 0], np.arange(200), seed=0)  # more dimensions than points
    assert (wide.r2 > 0.99, wide.n, wide.d) == (True, 200, 300)


def test_random_labels_cannot_be_compressed_and_separable_ones_can() -> None:
    random, each = np.random.default_rng(0), np.arange(320)
    points = random.standard_normal((320, 10))
    noise = [online_code_length(points, random.integers(0, 2, 320), each, seed=seed) for seed in range(5)]
    assert all(0.93 < one.compression < 1.02 for one in noise)
    separable = online_code_length(points + 5 * (each % 2)[:, None], each % 2, each, seed=0)
    assert separable.compression > 8
    assert separable.uniform == 320.0
    assert separable.compression == separable.uniform / separable.bits


def test_the_first_block_is_uniform_and_frequencies_bound_the_code() -> None:
    random, each = np.random.default_rng(0), np.arange(160)
    points, labels = random.standard_normal((160, 6)), (random.random(160) < 0.1).astype(int)
    found = online_code_length(points, labels, each, seed=0)
    rank = probes._shuffled_places(each, 0, 2)
    bits, before = 10.0, rank < 10
    for end in (20, 40, 80, 160):
        now = (rank >= before.sum()) & (rank < end)
        counts = np.bincount(labels[before], minlength=2) + 0.5
        bits -= float(np.log2(counts / counts.sum())[labels[now]].sum())
        before |= now
    # A Bayes mixture costs at most the logarithm of its experts more than the best of them.
    assert found.bits <= bits + np.log2(len(probes.PENALTIES) + 1)
    assert found.compression > 1.3
    alone = online_code_length(points, labels, each, seed=0, fractions=(1.0,))
    assert alone.bits == alone.uniform == 160.0


def test_noise_is_penalised_more_than_a_signal() -> None:
    points = cloud(100, 10)
    noise = alone(points, np.random.default_rng(0).permutation(100) % 2)
    assert noise.penalty < 1e-2 < alone(points, classes(points, 2, noise=0.0)).penalty
