"""Similarities of two spaces: closed forms, declared invariances with negative controls, noise, and peers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rsatoolbox
from scipy.linalg import orthogonal_procrustes, subspace_angles
from scipy.stats import ortho_group
from sklearn import cross_decomposition

from isoscope.geometry import cross_products
from isoscope.geometry.cross_products import augmented, by_group, triple, whole_and_without_each
from isoscope.geometry.moments import Floats
from isoscope.geometry.neighbour_similarity import RSA, Neighbours, differ
from isoscope.geometry.sentence_permutations import sentence_groups
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes

N, D = 400, 5
MOTIONS: dict[str, Callable[[Floats], Floats]] = {
    "translation": lambda points: points + np.array([100.0, -20.0, 10.0, 30.0, -4.0]),
    "scaling": lambda points: 2.3 * points,
    "orthogonal": lambda points: points @ ortho_group.rvs(D, random_state=np.random.default_rng(1)),
    "linear": lambda points: points @ np.random.default_rng(2).standard_normal((D, D)),
}
MEASURES: list[Any] = [
    *(CKA(), Procrustes(), CCA(), CCA(components=3), SVCCA(variance=0.9), PWCCA(), PWCCA(side="other"), HeldOutCCA()),
    *(RSA(), RSA(distance="euclidean", ranks=False), RSA(distance="correlation"), Neighbours(k=5)),
]


def names(measure: Any) -> str:
    options = (one for one in vars(measure).values() if one and not isinstance(one, CCA))
    return f"{measure.name}-{'-'.join(map(str, options))}"


def related(n: int = N) -> tuple[Floats, Floats]:
    """Two spaces with a common part, off the origin, with axes of different length."""
    random = np.random.default_rng(0)
    one = random.standard_normal((n, D)) * [3.0, 2.0, 1.0, 0.8, 0.5] + [1.0, 0.5, -0.5, 2.0, 0.3]
    other = np.tanh(one @ random.standard_normal((D, D))) * [1.0, 2.0, 0.5, 1.5, 0.7]
    return one, other + 0.5 * random.standard_normal((n, D)) + 0.4


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("measure", MEASURES, ids=names)
def test_each_measure_ignores_what_it_declares_and_sees_the_rest(measure: Any, motion: str) -> None:
    one, other = related()
    plain, move = measure.score(one, other), MOTIONS[motion]
    assert 0.05 < plain < 0.95
    scores = measure.score(move(one), other), measure.score(one, move(other))
    for invariances, moved in zip(measure.invariances, scores, strict=True):
        if motion in invariances:
            assert moved == pytest.approx(plain, abs=1e-10)
        else:
            assert abs(moved - plain) > 1e-4


@pytest.mark.parametrize("measure", MEASURES, ids=names)
def test_a_space_is_like_its_own_copy_under_all_that_is_ignored(measure: Any) -> None:
    one, _ = related()
    copy = one
    for motion in measure.invariances[1]:
        copy = MOTIONS[motion](copy)
    assert measure.score(one, copy) == pytest.approx(1.0, abs=1e-10)


def test_canonical_correlations_are_the_cosines_of_the_angles_between_both_subspaces() -> None:
    one, other = related()
    angles = subspace_angles(one - one.mean(0), other - other.mean(0))
    found = CCA().canonical(triple(one, other)).correlations
    assert found[0] == pytest.approx(np.sort(np.cos(angles)), abs=1e-12)
    assert CCA().score(one, other) == pytest.approx(np.cos(angles).mean())
    x, y = cross_decomposition.CCA(n_components=1, max_iter=5000, tol=1e-12).fit_transform(one, other)
    assert found[0, -1] == pytest.approx(np.corrcoef(x[:, 0], y[:, 0])[0, 1], abs=1e-6), "the largest is scikit-learn's"


def test_procrustes_is_what_the_best_rotation_of_scipy_reaches() -> None:
    one, other = (points - points.mean(0) for points in related())
    rotation, size = orthogonal_procrustes(one, other)
    norm = np.linalg.norm(one) * np.linalg.norm(other)
    assert Procrustes().score(one, other) == pytest.approx(size / norm, abs=1e-12)
    assert Procrustes().score(one, other) == pytest.approx(float((one @ rotation * other).sum()) / norm, abs=1e-12)


def test_cka_is_the_ratio_of_u_statistics_over_quadruples() -> None:
    """The estimator of Song et al. 2012 from its kernels, in full."""
    one, other = related(30)

    def hsic(first: Floats, second: Floats) -> float:
        k, m = (points @ points.T for points in (first, second))
        np.fill_diagonal(k, 0.0)
        np.fill_diagonal(m, 0.0)
        n, ones = len(k), np.ones(len(k))
        totals = (ones @ k @ ones) * (ones @ m @ ones) / ((n - 1) * (n - 2))
        return float((np.trace(k @ m) + totals - 2 / (n - 2) * (ones @ k @ m @ ones)) / (n * (n - 3)))

    expected = hsic(one, other) / np.sqrt(hsic(one, one) * hsic(other, other))
    assert CKA().score(one, other) == pytest.approx(expected, rel=1e-9)


def plain(one: Floats, other: Floats, variance: float = 1.0) -> dict[str, float]:
    """Procrustes, CCA and PWCCA by decompositions of the points themselves, of the components with this variance."""
    x, y = one - one.mean(0), other - other.mean(0)
    kept = []
    for points in (x, y):
        directions, lengths, _ = np.linalg.svd(points, full_matrices=False)
        shares = np.cumsum(lengths**2) / (lengths**2).sum()
        kept.append(directions[:, lengths**2 > 1e-8 * lengths[0] ** 2][:, : 1 + int((shares < variance - 1e-12).sum())])
    left, correlations, right = np.linalg.svd(kept[0].T @ kept[1], full_matrices=False)
    weights = [np.abs(x.T @ kept[0] @ left).sum(0), np.abs(y.T @ kept[1] @ right.T).sum(0)]
    return {
        "procrustes": np.linalg.svd(x.T @ y, compute_uv=False).sum() / np.linalg.norm(x) / np.linalg.norm(y),
        "cca": correlations.mean(),
        **{
            f"pwcca_{side}": own @ correlations / own.sum() for side, own in zip(("one", "other"), weights, strict=True)
        },
    }


def pairs_of_spaces() -> dict[str, tuple[Floats, Floats]]:
    """Wide and narrow, with copied dimensions, and with nothing in common but two dimensions."""
    random = np.random.default_rng(3)
    one, other = related()
    shared, theirs, rest = (
        random.standard_normal((N, 2)),
        random.standard_normal((N, 7)),
        random.standard_normal((N, 7)),
    )
    apart = np.linalg.qr(np.column_stack([np.ones((N, 1)), shared, theirs, rest]))[0] * np.arange(3, 20)
    return {
        "equal width": (one, other),
        "wider": (np.column_stack([one, other[:, :2] ** 2]), other),
        "narrower": (one[:, :3], other),
        "copied dimensions": (np.column_stack([one, one @ np.ones((D, 2))]), other),
        "two in common": (apart[:, 1:10], np.column_stack([apart[:, 1:3] @ [[1, 2], [0, 3]], apart[:, 10:]])),
    }


@pytest.mark.parametrize("pair", pairs_of_spaces())
def test_measures_from_products_are_those_of_the_plain_formulas(pair: str) -> None:
    one, other = pairs_of_spaces()[pair]
    measure = {"procrustes": Procrustes(), "cca": CCA(), "pwcca_one": PWCCA(), "pwcca_other": PWCCA(side="other")}
    for name, expected in plain(one, other).items():
        if pair != "two in common" or not name.startswith("pwcca"):  # any basis of the rest is right: no weights
            assert measure[name].score(one, other) == pytest.approx(expected, rel=1e-9)
    assert SVCCA(variance=0.8).score(one, other) == pytest.approx(plain(one, other, 0.8)["cca"], rel=1e-9)


def test_values_that_would_be_rounding_are_decomposed_with_care(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without it, the zeros of spaces with two dimensions in common would be roots of rounding."""
    pair = pairs_of_spaces()["two in common"]
    expected = plain(*pair)["cca"]
    monkeypatch.setattr(cross_products, "PRECISE", np.inf)
    assert CCA().score(*pair) != pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("n", [64, 256, 1024])
@pytest.mark.parametrize("d", [5, 60])
def test_cka_of_independent_clouds_is_zero_in_the_mean(n: int, d: int) -> None:
    random = np.random.default_rng(n + d)
    values = [CKA().score(random.standard_normal((n, d)), random.standard_normal((n, d))) for _ in range(50)]
    assert abs(np.mean(values)) < 3 * np.std(values) / np.sqrt(50)


@pytest.mark.parametrize("one, other, n", [(20, 20, 1000), (30, 10, 800)])
def test_cca_of_independent_clouds_has_the_known_bias(
    one: int, other: int, n: int, random: np.random.Generator
) -> None:
    """The mean squared correlation is max(dx, dy)/(n − 1)."""
    squares = []
    for _ in range(20):
        products = triple(random.standard_normal((n, one)), random.standard_normal((n, other)))
        squares.append((CCA().canonical(products).correlations ** 2).mean())
    assert np.mean(squares) == pytest.approx(max(one, other) / (n - 1), rel=0.05)


@pytest.mark.parametrize("shared", [0, 3, 7])
def test_held_out_cca_counts_planted_shared_dimensions(shared: int) -> None:
    random = np.random.default_rng(shared)
    common = random.standard_normal((4000, shared))
    one, other = (
        np.column_stack([common, random.standard_normal((4000, 12 - shared))]) @ random.standard_normal((12, 12))
        for _ in range(2)
    )
    found = HeldOutCCA().correlations(triple(one[::2], other[::2]), triple(one[1::2], other[1::2]))[0]
    assert abs(int((found > 0.5).sum()) - shared) <= 1
    assert np.abs(np.sort(found)[: 12 - shared]).max() < 0.15


def test_pwcca_weighs_by_the_side_it_is_given_and_not_by_the_mean(random: np.random.Generator) -> None:
    """A canonical pair that accounts for most of one space counts most."""
    shared, rest, noise = random.standard_normal((3, 5000, 1))
    one, other = np.column_stack([10 * shared, rest]), np.column_stack([shared, 10 * noise])
    assert CCA().score(one, other) == pytest.approx(0.5, abs=0.02)
    assert PWCCA().score(one, other) > 0.85
    assert PWCCA(side="other").score(one, other) < 0.15
    assert PWCCA().score(one + 100.0, other) == pytest.approx(PWCCA().score(one, other), abs=1e-10)


def test_cca_takes_few_items_if_told(random: np.random.Generator) -> None:
    one, other = random.standard_normal((2, 99, 5))
    assert CCA(few=True).score(one, other) < 0.5
    assert CCA(components=4).score(one, other) < 0.5


def test_directions_without_variance_and_single_points_have_a_defined_answer() -> None:
    one, other = related()
    flat = np.column_stack([one, one @ np.ones((D, 2)), np.full(N, 7.0)])
    for measure in (CCA(), CKA()):
        assert np.isfinite(measure.score(flat, other))
    assert CCA().score(flat, other) == pytest.approx(CCA().score(one, other), abs=1e-9)
    for measure in (CCA(), CKA(), Procrustes()):
        assert np.isnan(measure.score(np.ones((N, 3)), other))


def test_products_of_groups_add_up_and_leave_out_one_group() -> None:
    one, other = related()
    groups = np.repeat(sentence_groups(np.full(N // 8, 8), 5, seed=0), 8)
    x, y = augmented(one), augmented(other)
    products = by_group(x, y, groups)
    np.testing.assert_allclose(products.sum(0), x.T @ y, atol=1e-8)
    kept_of_each = [groups >= 0, *(groups != group for group in range(5))]
    for found, kept in zip(whole_and_without_each(products), kept_of_each, strict=True):
        centred = one[kept] - one[kept].mean(0), other[kept] - other[kept].mean(0)
        np.testing.assert_allclose(found.covariance[0], centred[0].T @ centred[1], atol=1e-8)
        assert found.hsic[0] == pytest.approx(triple(one[kept], other[kept]).both.hsic[0], rel=1e-9)


def test_groups_are_of_equal_size_and_of_sentences_of_like_lengths() -> None:
    lengths = np.arange(40) % 5 + 1
    groups = sentence_groups(lengths, 4, seed=1)
    assert np.bincount(groups).tolist() == [10] * 4
    for length in range(1, 6):
        assert np.bincount(groups[lengths == length]).tolist() == [2] * 4, "groups have like lengths"
    assert (groups != sentence_groups(lengths, 4, seed=2)).any()


def test_partial_rsa_takes_out_what_equal_words_explain(random: np.random.Generator) -> None:
    """Two spaces that share nothing but the word of each item."""
    words = random.integers(0, 20, 300)
    one, other = (random.standard_normal((20, 8))[words] + 0.5 * random.standard_normal((300, 8)) for _ in range(2))
    measure, both = RSA(), 2 * random.standard_normal((300, 8))
    assert measure.score(one, other) > 0.1
    left = [measure.left_of(measure.distances(own), [differ(words)]) for own in (one, other, one + both, other + both)]
    assert abs(left[0] @ left[1]) < 0.05
    assert left[2] @ left[3] > 0.4


def test_neighbours_of_independent_clouds_are_at_chance_and_sentences_are_no_candidates(
    random: np.random.Generator,
) -> None:
    values = [Neighbours(k=10).score(*random.standard_normal((2, 200, 30))) for _ in range(30)]
    assert np.mean(values) == pytest.approx(10 / 199, abs=4 * np.std(values) / np.sqrt(30))
    points, groups = random.standard_normal((200, 30)), np.arange(200) // 10
    near = Neighbours(k=5).nearest(points, groups)
    assert (groups[near] != groups[:, None]).all()


@pytest.mark.parametrize("distance", ["correlation", "euclidean"])
@pytest.mark.parametrize("ranks", [True, False])
def test_rsa_is_that_of_rsatoolbox(distance: str, ranks: bool) -> None:
    one, other = (points[:60] for points in related())
    theirs = [rsatoolbox.rdm.calc_rdm(rsatoolbox.data.Dataset(points), method=distance) for points in (one, other)]
    if distance == "euclidean":  # they square it
        theirs = [rsatoolbox.rdm.RDMs(np.sqrt(found.dissimilarities)) for found in theirs]
    expected = rsatoolbox.rdm.compare(*theirs, method="spearman" if ranks else "corr")[0, 0]
    assert RSA(distance=distance, ranks=ranks).score(one, other) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("ranks", [True, False])
@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [3, 10])
def test_a_rotation_does_not_change_the_order_of_equal_distances(k: int, distance: Any, ranks: bool) -> None:
    """Items at few different places: most distances are equal, and differ by rounding after a rotation."""
    random = np.random.default_rng(k)
    points = np.eye(k)[random.integers(0, k, 200)]
    turned = points @ np.linalg.qr(random.standard_normal((k, k)))[0]
    assert RSA(distance=distance, ranks=ranks).score(points, turned) == pytest.approx(1.0)
    corners, measure = (
        np.eye(20) @ np.linalg.qr(random.standard_normal((20, 20)))[0],
        RSA(distance=distance, ranks=ranks),
    )
    assert np.isnan(measure.score(corners, random.standard_normal((20, 20)))), "all distances are equal"


def test_equally_near_items_are_no_agreement(random: np.random.Generator) -> None:
    """Copies of a few points: which of them are nearest is chance, so two independent spaces share few."""
    one, other = (np.repeat(random.standard_normal((8, 5)), 50, axis=0) for _ in range(2))
    assert Neighbours(k=10).score(one, other) < 0.3
