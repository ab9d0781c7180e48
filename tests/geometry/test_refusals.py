"""What a measure cannot take is refused in one line, which says what was expected."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from isoscope.geometry.attention import head_agreement, summarise
from isoscope.geometry.contextuality import apart, avg_sim, intra_sim, neighbour_shares, self_sim
from isoscope.geometry.dimension import mle, two_nn
from isoscope.geometry.kernels import frequency_response, kernel_energy
from isoscope.geometry.linear_maps import decodability, procrustes, retrieval
from isoscope.geometry.moments import as_cloud, between_share, covariance_traces, indices
from isoscope.geometry.neighbour_similarity import RSA, Neighbours
from isoscope.geometry.persistence import bottleneck, diagrams, persistent_entropy, wasserstein
from isoscope.geometry.planes import planes
from isoscope.geometry.probes import linear_probe, online_code_length, permuted, ridge_probe
from isoscope.geometry.sentence_permutations import sentence_groups
from isoscope.geometry.separation import (
    ami_interval,
    arch_score,
    centroid_distance,
    clusters,
    fisher_ratio,
    linear_separability,
    silhouette,
)
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, Procrustes
from isoscope.geometry.sts import rank_correlation, spearman_of_cosines
from isoscope.geometry.transforms import all_but_the_top, centred, none, standardised, whitened
from refused import refused

NAN = float("nan")
EYE, ONES = np.eye(7), np.full((7, 7), 1 / 7)
NOISE = np.random.default_rng(0).standard_normal((60, 6))
SENTENCES = np.arange(60) // 4
PAIRS = np.array([[0.0], [1.0], [10.0], [11.0]])
FRAME, HALVES = NOISE[:, :3], np.arange(20) % 2
Case = tuple[str, Callable[..., object], Sequence[Any], str]
CASES: list[Case] = [
    ("one dimension", as_cloud, ([1.0, 2.0],), r"expected \[points, dimensions\], got an array of shape \[2\]"),
    ("a stack", as_cloud, (np.zeros((2, 3, 4)),), r"got an array of shape \[2, 3, 4\]"),
    ("no dimension", as_cloud, (np.zeros((3, 0)),), r"got an array of shape \[3, 0\]"),
    ("no points", as_cloud, (np.zeros((0, 3)),), "points: 0, but this measure needs at least 1"),
    ("NaN", as_cloud, ([[1.0, NAN]],), "NaN or infinity"),
    ("infinity", as_cloud, ([[1.0, float("-inf")]],), "NaN or infinity"),
    ("few points", covariance_traces, (np.eye(3),), "points: 3, but this measure needs at least 4"),
    ("words", indices, (["b", "a"], 3, "words"), "words: 2 for 3 points"),
    ("labels", between_share, (np.eye(3), [0, 1]), "labels: 2 for 3 points"),
    ("unequal numbers", procrustes, (NOISE, NOISE[:-1]), "60 and 59 points"),
    ("one point", procrustes, (np.ones((5, 2)), NOISE[:5, :2]), "all points are one"),
    ("no heads", summarise, (ONES,), r"expected \[..., heads, T, T\] with at least two tokens, got \[7, 7\]"),
    ("one token", summarise, (np.ones((2, 1, 1)),), r"with at least two tokens, got \[2, 1, 1\]"),
    ("oblong", summarise, (np.full((2, 3, 4), 0.25),), r"expected \[..., T, T\], got \[2, 3, 4\]"),
    ("twice", summarise, (2 * ONES[None],), "each row must be non-negative and sum to 1"),
    ("transposed", summarise, (EYE[np.zeros(7, int)].T[None],), "each row must be non-negative and sum to 1"),
    ("NaN", summarise, (np.full((1, 7, 7), NAN),), "each row must be non-negative and sum to 1"),
    ("negative", summarise, (np.array([[[2.0, -1.0], [0.5, 0.5]]]),), "each row must be non-negative and sum to 1"),
    ("other tokens", head_agreement, (ONES, np.full((5, 5), 0.2)), "maps over 7 and 5 tokens cannot be compared"),
    ("NaN", head_agreement, (ONES, np.full((7, 7), NAN)), "each row must be non-negative"),
    ("one group", avg_sim, (np.eye(3), ["a", "a", "a"]), "all points are in one group"),
    ("one point", avg_sim, (np.ones((1, 3)),), "all points are in one group"),
    ("one word", avg_sim, (NOISE, SENTENCES, np.zeros(60)), "in one group or are one word"),
    ("groups", avg_sim, (np.eye(3), ["a", "b"]), "groups: 2 for 3 points"),
    ("words", self_sim, (np.eye(3), ["a", "b"]), "words: 2 for 3 points"),
    ("sentences", intra_sim, (np.eye(3), ["a", "b"]), "sentences: 2 for 3 points"),
    ("fewer slots", lambda: apart(np.zeros(6), np.zeros(6), seed=0), (), "6 points of a group, but fewer slots"),
    *(
        (said, lambda points, words, groups, k=5: neighbour_shares(points, words, groups, k=k), given, said)
        for given, said in (
            ((NOISE, SENTENCES[:-1], SENTENCES), "attribute: 59 for 60 points"),
            ((NOISE, SENTENCES, SENTENCES[:-1]), "groups: 59 for 60 points"),
            ((NOISE, SENTENCES, SENTENCES, 57), "some have fewer than 57 others in other groups"),
            ((NOISE, SENTENCES, np.zeros(60)), "some have fewer than 5 others"),
            ((NOISE, SENTENCES, SENTENCES, 0), "k: 0"),
            ((np.full((60, 6), NAN), SENTENCES, SENTENCES), "contain NaN or infinity"),
            ((np.zeros(60), SENTENCES, SENTENCES), r"expected \[points, dimensions\]"),
        )
    ),
    *(
        (said, lambda one, groups: decodability(NOISE, {"word": one}, groups, seed=0), given, said)
        for given, said in (
            ((NOISE, SENTENCES % 3), "folds: 5 of 3 groups"),
            ((np.ones_like(NOISE), SENTENCES), "word: 1 different"),
            ((NOISE[:5], SENTENCES), "word: 5"),
        )
    ),
    *(
        (
            f"{n} places",
            lambda n: mle(np.repeat(NOISE[:n], 30, axis=0), k=max(n, 2)),
            (n,),
            f"points: {n} distinct points, but {max(n, 2)} neighbours are requested",
        )
        for n in (1, 2, 3)
    ),
    ("two places", two_nn, (np.repeat(NOISE[:2], 30, axis=0),), "but 2 neighbours are requested"),
    ("one neighbour", lambda: mle(NOISE, k=1), (), "k: 1, but a ratio of distances needs 2 neighbours"),
    *(
        (said, function, given, said)
        for function, least in ((all_but_the_top, 0), (whitened, 1))
        for given, said in (
            ((NOISE, least - 1), f"components: {least - 1}; expected {least} to 6"),
            ((NOISE, 7), f"components: 7; expected {least} to 6"),
            ((NOISE[:1], least), "points: 1, but this measure needs at least 2"),
        )
    ),
    *(
        (said, function, (), said)
        for function, said in (
            (lambda: RSA(distance="Euclidean"), "RSA: distance: expected 'cosine', 'euclidean' or 'correlation', got"),
            (lambda: PWCCA(side="two"), "PWCCA: side: expected 'one' or 'other', got 'two'"),
            (lambda: SVCCA(variance=99.0), "SVCCA: variance: expected less than or equal to 1, got 99"),
            (lambda: CCA(components=0), "CCA: components: expected greater than or equal to 1, got 0"),
            (lambda: Neighbours(k=-1), "Neighbours: k: expected greater than or equal to 1, got -1"),
        )
    ),
    *(
        (
            f"fractions {fractions}",
            lambda fractions: online_code_length(NOISE, SENTENCES % 2, SENTENCES, seed=0, fractions=fractions),
            (fractions,),
            "fractions: expected rising shares that end at 1, got",
        )
        for fractions in ((0.1, 0.5), (0.5, 0.25, 1.0), (0.5, 0.5, 1.0), (0.0, 1.0), ())
    ),
    ("flat", whitened, (NOISE * [1, 1, 1, 1, 0, 0], 5), "components: 5, but only 4 directions have variance"),
    *(
        ("width", lambda fit=fit: fit(NOISE)(NOISE[:, :5]), (), "points: 5 dimensions, but fitted on 6")
        for fit in (none, centred, all_but_the_top, whitened, standardised)
    ),
    ("pairs", spearman_of_cosines, (NOISE, NOISE, [1.0, 2.0]), "as many finite numbers as pairs, at least 3"),
    ("no score", rank_correlation, ([1, 2, 3], [1, 2, np.nan]), "as many finite numbers as pairs, at least 3"),
    *(
        (name, measure, (kernel,), said)
        for measure in (kernel_energy, frequency_response)
        for name, kernel, said in (
            ("no sources", np.ones((3, 3)), r"expected \[sources, odd, odd\], got \[3, 3\]"),
            ("even rows", np.ones((1, 2, 3)), r"got \[1, 2, 3\]"),
            ("even columns", np.ones((1, 3, 4)), r"got \[1, 3, 4\]"),
            ("zeros", np.zeros((2, 3, 3)), "all zero, or contains NaN or infinity"),
            ("NaN", np.full((2, 3, 3), NAN), "all zero, or contains NaN or infinity"),
        )
    ),
    *(
        (name, persistent_entropy, (bars,), r"bars: expected finite lengths \[m\], none below 0")
        for name, bars in (("NaN", [1.0, NAN]), ("infinity", [1.0, float("inf")]), ("negative", [1.0, -0.1]),
                           ("a diagram, whose births are no bars", [[0.0, 1.0], [0.0, 2.0]]))
    ),
    ("two points", diagrams, (np.eye(2),), "points: 2, but this measure needs at least 3"),
    *(
        (name, distance, ([[0.0, 1.0]], bad), r"diagrams: expected \[bars, 2\] of finite numbers")
        for distance in (bottleneck, wasserstein)
        for name, bad in (("infinity", [[0.0, float("inf")]]), ("triples", [[0.0, 1.0, 2.0]]), ("flat", [0.0, 1.0]))
    ),
    *(
        (said, lambda frames, how, at: planes(frames, how, reference=at), given, said)
        for given, said in (
            (([FRAME], "axes", -1), "alignment: 'axes' is none of joint, procrustes, sign"),
            (([FRAME], "sign", 1), "reference: 1, but there are 1 frames"),
            (([FRAME], "sign", -2), "reference: -2, but there are 1 frames"),
            ((np.zeros((0, 60, 3)), "sign", -1), "reference: -1, but there are 0 frames"),
            (([FRAME[:2]], "sign", -1), "points: 2, but this measure needs at least 3"),
            (([FRAME[:, :1]], "joint", -1), "points: 1 dimension, a plane needs two"),
            ((FRAME, "joint", -1), r"points: expected \[points, dimensions\]"),
            (([np.full((60, 3), NAN)], "joint", -1), "points: contain NaN or infinity"),
        )
    ),
    *(
        (said, lambda labels, groups: linear_probe(NOISE[:20], labels, groups, seed=0), given, said)
        for given, said in (
            ((np.zeros(20), np.arange(20)), "labels: 20 labels of 1 classes"),
            ((HALVES[:19], np.arange(20)), "labels: 19 labels"),
            ((HALVES, np.arange(20) % 4), "folds: 5 of 4 groups; expected at least 2, and as many groups"),
            ((HALVES, np.arange(19)), "groups: 19 points in 19 groups"),
        )
    ),
    *(
        (f"{folds} folds", lambda measure, folds: measure(folds), (measure, folds), f"folds: {folds} of 15 groups")
        for folds in (-1, 0, 1, 16)
        for measure in (
            lambda folds: linear_probe(NOISE, SENTENCES % 2, SENTENCES, seed=0, folds=folds),
            lambda folds: ridge_probe(NOISE, NOISE[:, 0], SENTENCES, seed=0, folds=folds),
            lambda folds: permuted(SENTENCES % 2, SENTENCES, seed=0, draws=2, folds=folds),
            lambda folds: decodability(NOISE, {"itself": NOISE}, SENTENCES, seed=0, folds=folds),
        )
    ),
    ("strata", lambda: linear_probe(NOISE, SENTENCES % 2, SENTENCES, seed=0, strata=[1, 2]), (), "strata: 2 for 60"),
    ("unlike", lambda: permuted(SENTENCES % 2, SENTENCES[:9], seed=0, draws=2), (), "groups: 9 for 60 points"),
    ("widths", retrieval, (NOISE, NOISE[:, :5]), "6 and 5 dimensions: expected as many in both spaces"),
    ("widths", spearman_of_cosines, (NOISE, NOISE[:, :5], NOISE[:, 0]), "6 and 5 dimensions: expected as many"),
    (
        "equal values", lambda: ridge_probe(NOISE[:20], np.ones(20), np.arange(20), seed=0), (),
        "values: expected 20 finite numbers, not all the same",
    ),
    *(
        (said, measure, given, said)
        for measure in (silhouette, fisher_ratio, centroid_distance, linear_separability)
        for given, said in (
            ((PAIRS, [0, 0, 0, 0]), "labels: 1 classes among 4 points; expected 2 to 3"),
            ((PAIRS, [0, 1, 2, 3]), "labels: 4 classes among 4 points"),
            ((PAIRS, [0, 1, 1]), "labels: 3 for 4 points"),
            ((PAIRS[:2], [0, 1]), "points: 2, but this measure needs at least 3"),
        )
    ),
    ("a class of one", linear_separability, (NOISE[:9], [0] * 8 + [1]), "only one point cannot be split into halves"),
    ("one place", clusters, (np.full((20, 3), 0.1),), "points: all are equal"),
    ("few points", clusters, (np.eye(6),), "points: 6, but this measure needs at least 7"),
    ("few points", arch_score, (np.eye(24),), "points: 24, but this measure needs at least 25"),
    ("lengths", lambda: arch_score(NOISE, along=[1, 2, 3]), (), "along: 3 for"),
    (
        "attributes", lambda: ami_interval(np.arange(40) % 3, np.arange(39), confidence=0.95), (),
        "attribute: 39 for 40 points",
    ),
    *(
        ("unequal items", measure.score, (NOISE, NOISE[:-1]), "expected one point per item")
        for measure in (CKA(), Procrustes(), RSA(), Neighbours())
    ),
    (
        "few items", CCA().score, (np.tile(NOISE, (2, 1))[:99, :5], np.tile(NOISE, (2, 1))[:99, 1:]),
        "99 items for 10 dimensions of both spaces; CCA asks for 10 per dimension",
    ),
    (
        "few sentences", lambda: sentence_groups(np.array([2, 1, 1]), 4, seed=0), (),
        "sentences: 3, for 4 groups",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    "function, given, said",
    [
        pytest.param(function, given, said, id=f"{getattr(function, '__name__', 'score')}-{name}")
        for name, function, given, said in CASES
    ],
)
def test_what_a_measure_cannot_take_is_one_line(
    function: Callable[..., object], given: Sequence[Any], said: str
) -> None:
    with refused(said):
        function(*given)
