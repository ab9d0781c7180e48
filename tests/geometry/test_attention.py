"""Attention maps with sums that can be computed by hand."""

import numpy as np
import pytest

from isoscope.geometry.attention import head_agreement, summarise

T = 7
UNIFORM = np.full((T, T), 1 / T)
ITSELF = np.eye(T)
FIRST = np.eye(T)[np.zeros(T, int)]
LAST = np.eye(T)[np.full(T, T - 1)]
BEFORE = np.eye(T)[[0, *range(T - 1)]]


@pytest.mark.parametrize(
    "head, entropy, distance, first, last, itself",
    [
        (UNIFORM, 1.0, (T**2 - 1) / (3 * T), 1 / T, 1 / T, 1 / T),
        (ITSELF, 0.0, 0.0, 1 / T, 1 / T, 1.0),
        (FIRST, 0.0, (T - 1) / 2, 1.0, 0.0, 1 / T),
        (LAST, 0.0, (T - 1) / 2, 0.0, 1.0, 1 / T),
        (BEFORE, 0.0, (T - 1) / T, 2 / T, 0.0, 1 / T),
        ((FIRST + LAST) / 2, np.log(2) / np.log(T), (T - 1) / 2, 0.5, 0.5, 1 / T),
    ],
    ids=["uniform", "itself", "first", "last", "before", "first and last"],
)
def test_a_head_in_closed_form(
    head: np.ndarray, entropy: float, distance: float, first: float, last: float, itself: float
) -> None:
    found = summarise(np.stack([head, UNIFORM]))
    assert [float(one[0]) for one in found] == pytest.approx([entropy, distance, first, last, itself], abs=1e-12)
    assert float(found.entropy[1]) == pytest.approx(1.0)


def test_each_head_of_each_layer_is_alone(random: np.random.Generator) -> None:
    maps = random.dirichlet(np.full(T, 0.3), size=(3, 4, T))
    found = summarise(maps)
    assert found.entropy.shape == (3, 4)
    for layer in range(3):
        for head in range(4):
            alone = summarise(maps[layer, head : head + 1])
            assert [one[layer, head] for one in found] == pytest.approx([one[0] for one in alone])


def test_half_precision_rounds_rows_and_is_let_pass() -> None:
    maps = np.random.default_rng(0).dirichlet(np.ones(128), size=(2, 128))
    found, expected = summarise(maps.astype(np.float16)), summarise(maps)
    assert found.entropy == pytest.approx(expected.entropy, rel=2e-3)


def test_agreement_in_closed_form() -> None:
    """Attention to one of two tokens against both: the entropy of (¾, ¼) minus half a bit."""
    sharp, both = np.array([[1.0, 0.0], [0.0, 1.0]]), np.full((2, 2), 0.5)
    divergence = -(0.75 * np.log2(0.75) + 0.25 * np.log2(0.25)) - 0.5
    assert float(head_agreement(sharp, both)) == pytest.approx(1 - divergence)
    half = np.array([[1.0, 0.0], [0.5, 0.5]])
    assert float(head_agreement(half, both)) == pytest.approx(1 - divergence / 2)  # the mean over queries
