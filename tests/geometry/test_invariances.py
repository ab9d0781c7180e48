"""Each measure is invariant under the transformations that it should ignore, and sees the others."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from scipy.stats import ortho_group

from isoscope.geometry import contextuality, dimension, isotropy, kernels, moments, persistence, separation
from isoscope.geometry.moments import Floats
from refused import refused

N, D = 90, 6
LABELS = np.arange(N) % 3
SENTENCES = np.arange(N) // 5
WORDS = np.arange(N) % 7
Measure = Callable[[Any], float]


def cloud() -> Floats:
    """Three classes on a bent, stretched sheet away from the origin: no measure is at an extreme of its scale here."""
    random = np.random.default_rng(5)
    points = random.standard_normal((N, D)) * [3.0, 1.5, 1.0, 0.8, 0.6, 0.3]
    points[:, 1] += 0.2 * points[:, 0] ** 2
    points[:, 2] += 1.2 * LABELS
    points[:, 4] += 0.5 * LABELS
    return points + np.array([1.0, -0.5, 0.3, 0.2, 0.4, 0.1])


MOTIONS: dict[str, Callable[[Floats], Floats]] = {
    "turned": lambda points: points @ ortho_group.rvs(D, random_state=np.random.default_rng(1)),
    "moved": lambda points: points + np.array([0.7, -2.0, 1.0, 3.0, -0.4, 0.9]),
    "scaled": lambda points: 2.3 * points,
    "stretched": lambda points: points * np.array([1.0, 3.0, 0.4, 2.0, 1.5, 0.7]),
    "reordered": lambda points: points[:, [3, 0, 5, 1, 4, 2]],
}

RIGID = {"turned", "moved", "reordered"}
SIMILAR = RIGID | {"scaled"}
LINEAR = {"turned", "reordered", "scaled"}
REFERENCE = persistence.diagrams(cloud()[:40])[0]

GROUPED = {"between_share", "avg_sim", "self_sim", "intra_sim", "intra_sim, left out"} | {
    "silhouette",
    "fisher_ratio",
    "centroid_distance",
}

# The measure and the motions that it is blind to; it has to see all others.
MEASURES: dict[str, tuple[Measure, set[str]]] = {
    "a_1": (lambda x: float(isotropy.anisotropy(x)[0]), LINEAR),
    "a_1 centred": (lambda x: float(isotropy.shares(moments.spectrum(x))[0]), SIMILAR),
    "between_share": (lambda x: moments.between_share(x, LABELS), SIMILAR),
    "tr Σ": (lambda x: moments.covariance_traces(x)[0], RIGID),
    "tr Σ²": (lambda x: moments.covariance_traces(x)[1], RIGID),
    "participation ratio": (lambda x: isotropy.participation_ratio(moments.spectrum(x)), SIMILAR),
    "participation ratio, unbiased": (isotropy.unbiased_participation_ratio, SIMILAR),
    "effective rank": (lambda x: isotropy.effective_rank(moments.spectrum(x)), SIMILAR),
    "partition isotropy": (isotropy.partition_isotropy, {"turned", "reordered"}),
    "avg_sim": (lambda x: contextuality.avg_sim(x, SENTENCES), LINEAR),
    "self_sim": (lambda x: contextuality.self_sim(x, WORDS), LINEAR),
    "intra_sim": (lambda x: contextuality.intra_sim(x, SENTENCES).published, LINEAR),
    "intra_sim, left out": (lambda x: contextuality.intra_sim(x, SENTENCES).leave_one_out, LINEAR),
    "two_nn": (dimension.two_nn, SIMILAR),
    "mle": (dimension.mle, SIMILAR),
    "H0 bars": (lambda x: float(persistence.h0_bars(x).sum()), RIGID),
    "H0 entropy": (lambda x: persistence.persistent_entropy(persistence.h0_bars(x)), SIMILAR),
    "bottleneck": (lambda x: persistence.bottleneck(persistence.diagrams(x, degree=0)[0], REFERENCE), RIGID),
    "silhouette": (lambda x: separation.silhouette(x, LABELS), SIMILAR),
    "fisher_ratio": (lambda x: separation.fisher_ratio(x, LABELS), SIMILAR),
    "centroid_distance": (lambda x: separation.centroid_distance(x, LABELS), SIMILAR),
    "linear_separability": (
        lambda x: separation.linear_separability(x, LABELS),
        {"moved", "scaled", "stretched", "reordered"},  # it divides each axis by its own spread
    ),
    "clusters": (lambda x: separation.clusters(x).silhouette, SIMILAR),
    "arch_score": (lambda x: separation.arch_score(x, draws=1).r2, SIMILAR),
    "flatness": (lambda x: kernels.fourier(x).flatness, {"scaled"}),
}


@pytest.mark.parametrize("motion", MOTIONS)
@pytest.mark.parametrize("name", MEASURES)
def test_a_measure_is_blind_to_what_it_says_and_to_nothing_else(name: str, motion: str) -> None:
    measure, blind = MEASURES[name]
    before, after = measure(cloud()), measure(MOTIONS[motion](cloud()))
    if motion in blind:
        assert after == pytest.approx(before, rel=2e-6 if name == "bottleneck" else 1e-9)  # ripser is single precision
    else:
        assert abs(after - before) > 1e-3 * abs(before)


DRAWS = {"linear_separability", "clusters", "arch_score"}
"""These draw among the points by their order."""


@pytest.mark.parametrize("name", [name for name in MEASURES if name not in DRAWS])
def test_the_order_of_the_points_is_nothing(name: str) -> None:
    """From last to first the points are grouped as before, only by other names; with one exchange they are not."""
    measure, _ = MEASURES[name]
    assert measure(cloud()[::-1]) == pytest.approx(measure(cloud()), rel=2e-6 if name == "bottleneck" else 1e-9)
    exchanged = cloud()
    exchanged[[0, N - 2]] = exchanged[[N - 2, 0]]
    if name in GROUPED:
        assert abs(measure(exchanged) - measure(cloud())) > 1e-6


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("name", MEASURES)
def test_a_cloud_with_a_hole_is_refused_in_one_line(name: str, bad: float) -> None:
    points = cloud()
    points[3, 2] = bad
    with refused("points: contain NaN or infinity"):
        MEASURES[name][0](points)


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("name", MEASURES)
def test_half_and_single_precision_are_measured_in_double(name: str, dtype: type) -> None:
    measure, _ = MEASURES[name]
    small = cloud().astype(dtype)
    assert measure(small) == measure(small.astype(np.float64))


CONE_PROOF = {name for name, (_, blind) in MEASURES.items() if "moved" in blind} - {"linear_separability"}


@pytest.mark.parametrize("name", sorted(CONE_PROOF))
def test_a_narrow_cone_far_from_the_origin_keeps_its_shape(name: str) -> None:
    """Offset 10, spread 1e-3: a move that takes most digits of single precision, where squares expand to nonsense."""
    measure, _ = MEASURES[name]
    spread = 1e-3 * cloud() / cloud().std()
    assert measure(spread + 10.0) == pytest.approx(measure(spread), rel=1e-6)
    single = (spread + 10.0).astype(np.float32)
    lengths, products = (single**2).sum(1), single @ single.T
    expanded = np.sqrt(np.clip(lengths[:, None] + lengths - 2 * products, 0, None))
    apart = cdist(spread, spread)
    assert (np.abs(expanded - apart)[apart > 0] / apart[apart > 0]).max() > 0.5
