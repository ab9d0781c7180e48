"""A tensor is measured on its device, with the values of NumPy; single precision would not have them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.spatial.distance import cdist

from isoscope.geometry import (
    array_kinds,
    attention,
    contextuality,
    dimension,
    isotropy,
    kernels,
    moments,
    persistence,
    planes,
    probes,
)
from isoscope.geometry.array_kinds import on_host, placed
from isoscope.geometry.moments import Floats
from isoscope.geometry.neighbour_similarity import RSA, Neighbours, ranks, square
from isoscope.geometry.sentence_permutations import permuted, sentence_groups
from isoscope.geometry.similarity import CCA, CKA, PWCCA, SVCCA, HeldOutCCA, Procrustes
from isoscope.geometry.similarity_grid import PairSide, Side, Values, pair_similarities, similarities

DEVICES = ["cpu:0", *(["cuda"] if torch.cuda.is_available() else [])]
"""`cpu:0` is torch's CPU: `cpu` is NumPy's."""
N, D = 400, 6
WORDS, SENTENCES = np.arange(N) % 9, np.arange(N) // 8
MEASURES = [CKA(), Procrustes(), CCA(), CCA(components=3), SVCCA(variance=0.9), PWCCA(), PWCCA(side="other")]


def spaces() -> tuple[Floats, Floats]:
    random = np.random.default_rng(0)
    one = random.standard_normal((N, D)) * [3.0, 2.0, 1.0, 0.8, 0.5, 0.4] + 1.0
    other = np.tanh(one[:, :5] @ random.standard_normal((5, 4))) + 0.4 * random.standard_normal((N, 4))
    return one, other


def grid(one: Any, other: Any) -> list[Any]:
    """Every measure of a pair of layers: value, without each group, with sentences exchanged."""
    lengths = np.full(N // 8, 8)
    group = sentence_groups(lengths, 10, seed=0)
    groups, halves = np.repeat(group, lengths), group % 2
    places = [permuted(lengths, seed=0, draw=draw, halves=halves) for draw in range(3)]
    asked = [*MEASURES[:3], *MEASURES[4:], HeldOutCCA(components=3)]  # each name once
    found = similarities(Side(one, groups), Side(other, groups), asked, groups=groups, permutations=places)
    sides = (PairSide(points, RSA(), Neighbours(k=5), groups=groups, seed=at) for at, points in enumerate((one, other)))
    pairs = pair_similarities(*sides, groups=groups, permutations=places)
    return [values(of) for of in (found | pairs).values()]  # type: ignore[operator]


def values(found: Values) -> list[Any]:
    assert found.why is None
    return [found.value, found.without, found.null]


FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "distances": lambda x, y: array_kinds.distances(x[:, :4], y),
    "cosines": lambda x, y: array_kinds.pairwise(x, "cosine"),
    "correlations": lambda x, y: array_kinds.pairwise(x, "correlation"),
    "lengths": lambda x, y: array_kinds.pairwise(x, "euclidean"),
    "units": lambda x, y: contextuality.units(x),
    "nearest places": lambda x, y: dimension.places(x, 10).near,
    "two_nn": lambda x, y: dimension.two_nn(x),
    "mle": lambda x, y: dimension.mle(x),
    "spectrum": lambda x, y: moments.spectrum(x),
    "wide spectrum": lambda x, y: moments.spectrum(x[:4], centred=False),
    "within_classes": lambda x, y: moments.within_classes(x, WORDS),
    "between_share": lambda x, y: moments.between_share(x, WORDS),
    "covariance_traces": lambda x, y: moments.covariance_traces(x),
    "anisotropy": lambda x, y: isotropy.anisotropy(x),
    "participation ratio": lambda x, y: isotropy.unbiased_participation_ratio(x),
    **{f"rsa, {name}": lambda x, y, name=name: RSA(distance=name).score(x, y) for name in ("cosine", "correlation")},
    "rsa, euclidean": lambda x, y: RSA(distance="euclidean", ranks=False).score(x, y),
    "rsa, partial": lambda x, y: RSA().left_of(RSA().distances(x), [RSA().distances(placed(on_host(y), "cpu"))]),
    **{f"{one.name}, {one.components if isinstance(one, CCA) else ''}": lambda x, y, one=one: one.score(x, y)
       for one in MEASURES},
    "cca_held_out": lambda x, y: HeldOutCCA().score(x, y),
}  # fmt: skip
COUNTS: dict[str, Callable[[Any, Any], Any]] = {
    "ranks": lambda x, y: ranks(x[:, 0].round()),
    "square": lambda x, y: square(x[:6, 0] * 0 + x[0, 0], 4),
    "neighbours": lambda x, y: Neighbours(k=5).score(x, y),
    "neighbour_shares": lambda x, y: contextuality.neighbour_shares(x, WORDS, SENTENCES).near,
}
"""What single precision need not change."""


def of(function: Callable[[Any, Any], Any], device: str, dtype: type = np.float64) -> Any:
    found = function(*(placed(points.astype(dtype), device) for points in spaces()))
    return np.concatenate([np.ravel(on_host(one)) for one in (found if isinstance(found, tuple) else (found,))])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("name", [*FUNCTIONS, *COUNTS])
def test_a_tensor_has_the_values_of_numpy(name: str, device: str) -> None:
    function = (FUNCTIONS | COUNTS)[name]
    expected = of(function, "cpu")
    np.testing.assert_allclose(of(function, device), expected, rtol=1e-9, atol=1e-12 * np.abs(expected).max())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_single_precision_does_not(name: str) -> None:
    expected = of(FUNCTIONS[name], "cpu")
    assert not np.allclose(of(FUNCTIONS[name], "cpu:0", np.float32), expected, rtol=1e-9, atol=0)


@pytest.mark.parametrize("device", DEVICES)
def test_a_grid_has_the_values_of_numpy(device: str) -> None:
    """The null from products has float32's products: 1e-6."""
    expected, found = (grid(*(placed(points, one) for points in spaces())) for one in ("cpu", device))
    for number, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
        for own, plain, exact in zip(ours, theirs, (True, True, number >= len(MEASURES)), strict=True):
            np.testing.assert_allclose(own, plain, rtol=1e-9 if exact else 1e-5, atol=1e-12 if exact else 1e-6)


BARS = np.array([[0.0, 1.0], [0.25, 2.0], [0.0, 0.5]])
COPIED: dict[str, Callable[[Callable[[np.ndarray], Any]], Any]] = {
    "summarise": lambda on: attention.summarise(on(np.full((2, 4, 4), 0.25))),
    "head_agreement": lambda on: attention.head_agreement(on(np.full((4, 4), 0.25)), on(np.eye(4))),
    "kernel_energy": lambda on: kernels.kernel_energy(on(np.ones((2, 3, 3)))),
    "frequency_response": lambda on: kernels.frequency_response(on(np.ones((1, 3, 3))), size=4),
    "persistent_entropy": lambda on: persistence.persistent_entropy(on(BARS[:, 1])),
    "wasserstein": lambda on: persistence.wasserstein(on(BARS), on(BARS[:2])),
    "planes": lambda on: planes.planes([on(BARS * scale + np.eye(3)[:, :2]) for scale in (1.0, 2.0)], "joint"),
    "ridge_probe": lambda on: probes.ridge_probe(BARS[[0, 1, 2] * 9], on(np.arange(27.0) % 5), range(27), seed=0),
}


@pytest.mark.parametrize("kind", ["parameter", "bfloat16", *DEVICES])
@pytest.mark.parametrize("name", COPIED)
def test_other_functions_copy_a_tensor_to_the_host(name: str, kind: str) -> None:
    """Also a weight of a model, and one that NumPy has no type for; the numbers are exact in bfloat16."""

    def on(array: np.ndarray) -> Any:
        if kind == "parameter":
            return torch.nn.Parameter(torch.from_numpy(array))
        return torch.from_numpy(array).bfloat16() if kind == "bfloat16" else placed(array, kind)

    found, expected = COPIED[name](on), COPIED[name](lambda array: array)
    for own, plain in zip(found, expected, strict=True) if isinstance(found, tuple) else [(found, expected)]:
        np.testing.assert_array_equal(own, plain)


@pytest.mark.parametrize("device", DEVICES)
def test_a_tensor_stays_where_it_is_and_an_array_is_the_same(device: str) -> None:
    points, _ = spaces()
    moved = placed(points, device)
    assert placed(points, "cpu") is points
    for function in (moments.spectrum, moments.centre, contextuality.units, RSA().distances, Neighbours(k=3).nearest):
        assert function(moved).device == moved.device
        assert isinstance(function(points), np.ndarray)
    np.testing.assert_array_equal(moments.as_cloud(moved), points)
    np.testing.assert_array_equal(moments.as_cloud(moved.bfloat16()), moved.bfloat16().double().cpu())
    np.testing.assert_array_equal(array_kinds.distances(points, points), cdist(points, points))
