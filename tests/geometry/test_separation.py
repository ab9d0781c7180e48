"""Known classes, clusters and arches, and the same measures on clouds without them."""

from collections.abc import Callable

import numpy as np
import pytest
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import adjusted_mutual_info_score

from isoscope.geometry import separation
from isoscope.geometry.moments import between_share, spectrum
from isoscope.geometry.separation import (
    PARTS,
    Clusters,
    ami_interval,
    arch_score,
    centroid_distance,
    clusters,
    fisher_ratio,
    linear_separability,
    principal_scores,
    silhouette,
)

PAIRS = np.array([[0.0], [1.0], [10.0], [11.0]])
OF = [0, 0, 1, 1]


def test_silhouette_of_two_pairs_by_hand() -> None:
    """Own distance 1 each; to the other pair 10.5 from without and 9.5 from within."""
    assert silhouette(PAIRS, OF) == pytest.approx(1 - (1 / 10.5 + 1 / 9.5) / 2)
    assert silhouette(PAIRS, [0, 1, 0, 1]) == pytest.approx(-0.45)  # each nearer to the other class than to its own
    assert silhouette(np.repeat(np.eye(3), 4, axis=0), np.repeat([0, 1, 2], 4)) == pytest.approx(1.0)


def test_fisher_ratio_and_centroid_distance_by_hand() -> None:
    """Class means ±5 about their mean, points ±½ about theirs."""
    assert fisher_ratio(PAIRS, OF) == pytest.approx(25 / 0.25)
    assert centroid_distance(PAIRS, OF) == pytest.approx(10 / 0.5)
    corners = np.repeat(np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 4.0]]), 2, axis=0)
    corners[::2] += [0.0, 0.1]
    corners[1::2] -= [0.0, 0.1]
    assert centroid_distance(corners, [0, 0, 1, 1, 2, 2]) == pytest.approx((3 + 4 + 5) / 3 / 0.1)


def test_fisher_ratio_is_the_share_between_classes_over_the_rest(random: np.random.Generator) -> None:
    points, labels = random.standard_normal((50, 4)), random.choice(["a", "b", "c"], 50)
    share = between_share(points, labels)
    assert fisher_ratio(points, labels) == pytest.approx(share / (1 - share))
    peer = LinearDiscriminantAnalysis(solver="svd").fit(points, labels)  # knows the means
    apart = np.linalg.norm(peer.means_[:, None] - peer.means_, axis=-1)[np.triu_indices(3, 1)].mean()
    assert centroid_distance(points, labels) == pytest.approx(
        apart / np.sqrt((1 - share) * spectrum(points).sum() / 50)
    )


@pytest.mark.parametrize("measure", [fisher_ratio, centroid_distance])
def test_classes_of_one_place_each_have_no_ratio(measure: Callable[[object, object], float]) -> None:
    points, one = np.repeat([[0.1, 0.2], [0.3, 0.7]], 3, axis=0), np.full((6, 2), 0.1)
    for cloud, labels in ((points, [0, 0, 0, 1, 1, 1]), (points, ["x"] * 3 + ["y"] * 3), (one, [0, 1] * 3)):
        assert np.isnan(measure(cloud, labels))


@pytest.mark.parametrize("k", [2, 5, 50])
def test_principal_scores_are_the_cloud_turned(k: int) -> None:
    points = np.random.default_rng(0).normal(3.0, 1.0, (30, 8)) * np.arange(1, 9)
    scores = principal_scores(points, k)
    assert scores.shape == (30, min(k, 8))
    gram = scores.T @ scores
    assert np.diag(gram) == pytest.approx(spectrum(points)[:k])
    assert gram - np.diag(np.diag(gram)) == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("d", [10, 600])
def test_a_planted_direction_is_found_and_permuted_labels_are_not(d: int, random: np.random.Generator) -> None:
    """Means 6 sd apart: at best .9987. With more dimensions than points any labels can be learned, on points seen."""
    labels, direction = random.integers(0, 2, 300), random.standard_normal(d)
    points = random.standard_normal((300, d)) + 6 * (labels[:, None] - 0.5) * direction / np.linalg.norm(direction)
    assert linear_separability(points, labels) > (0.99 if d == 10 else 0.9)
    random = np.random.default_rng(1)
    chance = [linear_separability(points, random.permutation(labels), seed=seed) for seed in range(12)]
    assert np.mean(chance) == pytest.approx(0.5, abs=0.04)


def test_chance_is_the_share_of_the_largest_class(random: np.random.Generator) -> None:
    labels = np.arange(400) % 4 == 0
    found = [linear_separability(random.standard_normal((400, 5)), labels, seed=seed) for seed in range(5)]
    assert np.mean(found) == pytest.approx(0.75, abs=0.02)


def test_one_of_many_classes_may_have_one_point() -> None:
    points = np.random.default_rng(0).standard_normal((9, 2))
    assert 0 <= linear_separability(points, [0] * 4 + [1] * 4 + [2]) < 1


def test_halves_of_few_groups_have_both_classes() -> None:
    """Two groups of each class: any seed finds halves. A group of each class: none exists, which is no number."""
    labels, random = np.repeat([0, 0, 1, 1], 10), np.random.default_rng(0)
    points = random.standard_normal((40, 3)) + 9 * labels[:, None]
    groups = np.repeat(range(4), 10)
    assert {linear_separability(points, labels, groups=groups, seed=seed) for seed in range(20)} == {1.0}
    assert np.isnan(linear_separability(points, labels, groups=labels))


def ami(found: Clusters, attribute: np.ndarray) -> float:
    return ami_interval(found.of, attribute, confidence=0.95).value


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("k", [2, 3, 4, 5, 6])
def test_planted_clusters_are_found_and_their_nuisances_are_not(k: int, seed: int) -> None:
    labels = np.arange(180) % k
    points = np.random.default_rng(seed).standard_normal((180, 30)) + 12 * np.eye(30)[labels]
    nuisance = np.random.default_rng(seed + 10).integers(0, 4, len(labels))
    found = clusters(points, seed=seed)
    assert found.k == k
    assert ami(found, labels) == pytest.approx(1.0)
    assert abs(ami(found, nuisance)) < 0.05
    assert ami(found, np.zeros(len(labels))) == 0.0
    assert found.silhouette == pytest.approx(silhouette(principal_scores(points), labels))


def test_a_cloud_without_clusters_has_a_small_silhouette_and_no_attribute() -> None:
    points = np.random.default_rng(0).standard_normal((180, 30))
    found = clusters(points)
    assert found.silhouette < 0.15
    assert abs(ami(found, np.arange(180) % 3)) < 0.05


@pytest.mark.parametrize("values", [2, 40])
@pytest.mark.parametrize("alike", [0.0, 0.5])
def test_the_interval_of_an_agreement_holds_what_many_points_have(values: int, alike: float) -> None:
    """At 95 % of 60 samples 57 are expected to, and 50 or fewer have probability .003 (of t over parts that number)."""

    def drawn(random: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        cluster = random.integers(0, 3, n)
        return cluster, np.where(random.random(n) < alike, cluster % values, random.integers(0, values, n))

    truth = ami_interval(*drawn(np.random.default_rng(0), 20000), confidence=0.95).value
    found = [ami_interval(*drawn(np.random.default_rng((1, one)), 300), confidence=0.95) for one in range(60)]
    assert sum(one.low <= truth <= one.high for one in found) > 50
    assert np.mean([one.high - one.low for one in found]) < 0.25
    told = np.mean([one.low > 0 for one in found])
    assert told > 0.9 if alike else told < 0.15


def test_an_agreement_of_few_points_has_no_interval_and_its_value_is_scikit_learns(random: np.random.Generator) -> None:
    cluster, words = random.integers(0, 3, 2 * PARTS), random.choice(["the", "a", "an"], 2 * PARTS)
    found = ami_interval(cluster, words, confidence=0.95)
    assert found.value == pytest.approx(adjusted_mutual_info_score(words, cluster))
    assert found.low < found.value < found.high
    narrow = ami_interval(cluster, words, confidence=0.5)
    assert found.low < narrow.low < narrow.high < found.high
    assert np.isnan(ami_interval(cluster[1:], words[1:], confidence=0.95)[1:]).all()


@pytest.mark.parametrize("places", [2, 3, 5])
def test_points_that_coincide_are_as_many_clusters_as_places(places: int) -> None:
    of = np.arange(40) % places
    found = clusters(0.1 * np.random.default_rng(0).standard_normal((places, 6))[of] + 10)
    assert found.k == places
    assert found.silhouette == pytest.approx(1.0)
    assert ami(found, of) == pytest.approx(1.0)


def arc(sweep: float, *, n: int = 150, noise: float = 0.1, seed: int = 0) -> np.ndarray:
    """Points along an arc of this angle, turned into forty dimensions, with noise in all of them."""
    random = np.random.default_rng(seed)
    angles = sweep * (random.random(n) - 0.5)
    points = np.zeros((n, 40))
    points[:, :2] = np.stack([np.sin(angles), np.cos(angles)], 1)
    turn, _ = np.linalg.qr(random.standard_normal((40, 40)))
    return (points + noise * random.standard_normal(points.shape)) @ turn + 5.0


def test_a_semicircle_is_an_arch_and_a_full_circle_is_none() -> None:
    """cos θ on sin²θ over a semicircle: R² = (2/3π)² / ½ / (½ − 4/π²) = .951."""
    closed_form = (2 / (3 * np.pi)) ** 2 / 0.5 / (0.5 - 4 / np.pi**2)
    assert arch_score(arc(np.pi, noise=0.0, n=2000)).r2 == pytest.approx(closed_form, abs=0.01)
    found = arch_score(arc(np.pi))
    assert 0.6 < found.r2 < closed_form
    assert found.p == 1 / 40
    assert found.null < 0.05
    round_about = arch_score(arc(2 * np.pi))
    assert round_about.r2 < 0.1
    assert round_about.p > 0.05


def test_the_score_is_out_of_sample(random: np.random.Generator) -> None:
    """A parabola fitted to noise does worse than the mean, in the mean over clouds."""
    found = [arch_score(random.standard_normal((30, 10)), draws=1, seed=seed).r2 for seed in range(20)]
    assert np.mean(found) < 0


@pytest.mark.parametrize("spread", [np.ones(30), 0.8 ** np.arange(30.0)], ids=["isotropic", "falling"])
def test_gaussian_clouds_are_no_arches(spread: np.ndarray, random: np.random.Generator) -> None:
    """At 5 % of 40 clouds, 2 false positives are expected; 7 have probability .001."""
    p = [arch_score(random.standard_normal((80, 30)) * spread, draws=19, seed=seed).p for seed in range(40)]
    assert sum(one <= 0.05 for one in p) < 7
    assert 0.35 < np.mean(p) < 0.65


def test_an_arch_along_a_nuisance_is_the_nuisances() -> None:
    """A semicircle that is run through by length is told from noise, not from what length does; one across it is."""
    points = arc(np.pi)
    length = np.round(10 * principal_scores(points)[:, 0])
    assert arch_score(points).p == 1 / 40
    assert arch_score(points, along=length).p > 0.05
    other = np.random.default_rng(0).permutation(length)
    assert arch_score(points, along=other).p == 1 / 40
    assert arch_score(points, along=np.ones(len(points))) == arch_score(points)


def test_gaussian_clouds_that_bend_with_length_are_no_arches_beyond_it() -> None:
    """At 5 % of 40 clouds, 2 false positives are expected; P(7) = .001. Without the nuisance all are found."""
    random, beyond, bare = np.random.default_rng(1), 0, 0
    for seed in range(40):
        length = random.integers(5, 30, 120)
        at = (length - length.mean()) / length.std()
        cloud = random.standard_normal((120, 10)) * 0.8 ** np.arange(10)
        cloud[:, 0] += 3 * at
        cloud[:, 1] += 1.5 * (at**2 - 1)
        beyond += arch_score(cloud, along=length, draws=19, seed=seed).p <= 0.05
        bare += arch_score(cloud, draws=19, seed=seed).p <= 0.05
    assert beyond < 7
    assert bare > 35


def test_long_tails_are_no_arches() -> None:
    """Of 60 elliptical clouds whose points differ in size (t of 3 degrees), 3 are expected; 9 have probability .003."""
    random = np.random.default_rng(2)
    sizes = np.sqrt(3 / random.chisquare(3, (60, 100, 1)))
    clouds = random.standard_normal((60, 100, 10)) * 0.8 ** np.arange(10) * sizes
    assert sum(arch_score(cloud, draws=19, seed=seed).p <= 0.05 for seed, cloud in enumerate(clouds)) < 9


def test_a_score_can_be_had_of_two_values_but_not_of_a_line() -> None:
    """Corners of a rectangle: PC1 has two values, so its square is constant and the parabola is not determined."""
    found = arch_score(np.array([[2.0, 1.0], [2.0, -1.0], [-2.0, 1.0], [-2.0, -1.0]] * 10))
    assert -0.1 < found.r2 < 0
    assert found.p > 0.05
    line = arch_score(np.outer(np.arange(30.0), [3.0, 4.0]))
    assert np.isnan(line).all()


def test_agreement_counted_from_a_table_is_scikit_learns(random: np.random.Generator) -> None:
    """Also if a class or a cluster has no points, and if there is only one class or cluster."""
    shapes = [(2, 2), (40, 5), (5, 40), (300, 3), (1, 1), (1, 4), (4, 1)]
    for classes, parts in shapes:
        for signal in (0.0, 0.5, 1.0):
            of = random.integers(0, classes, 200)
            found = np.where(random.random(200) < signal, of % parts, random.integers(0, parts, 200))
            counts = np.zeros((classes + 1, parts + 2), int)
            np.add.at(counts, (of, found), 1)
            assert separation._ami(counts) == pytest.approx(adjusted_mutual_info_score(of, found), abs=1e-12)
