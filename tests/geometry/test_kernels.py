"""Kernels whose energy and frequencies are known."""

import numpy as np
import pytest
from scipy.signal import correlate2d

from isoscope.geometry.kernels import frequency_response, kernel_energy


def delta(h: int = 3, w: int = 3, at: tuple[int, int] | None = None) -> np.ndarray:
    kernel = np.zeros((1, h, w))
    kernel[(0, *(at or (h // 2, w // 2)))] = 2.0
    return kernel


def test_the_energy_of_a_delta_is_at_the_token_itself() -> None:
    assert [float(part[0]) for part in kernel_energy(delta())] == [1, 0, 0]
    assert [float(part[0]) for part in kernel_energy(delta(at=(1, 0)))] == [0, 1, 0]
    assert [float(part[0]) for part in kernel_energy(delta(at=(0, 1)))] == [0, 0, 1]
    assert [float(part[0]) for part in kernel_energy(delta(at=(2, 2)))] == [0, 0, 1]


@pytest.mark.parametrize("h, w", [(3, 3), (1, 5), (9, 101), (1, 1)])
def test_the_energy_of_a_box_is_its_counts(h: int, w: int) -> None:
    """Energy depends on positions, not on signs."""
    box = np.random.default_rng(0).choice([-1.0, 1.0], (1, h, w))
    found = [float(part[0]) for part in kernel_energy(box)]
    assert found == pytest.approx([1 / (h * w), (w - 1) / (h * w), (h - 1) * w / (h * w)])


def test_the_energy_of_all_sources_is_one() -> None:
    kernel = np.concatenate([delta(), 0.5 * delta(at=(1, 2)), np.random.default_rng(0).standard_normal((1, 3, 3))])
    found = np.array(kernel_energy(kernel))
    assert found.shape == (3, 3)
    assert found.sum() == pytest.approx(1.0)
    assert found[:, 0].sum() / found[:, 1].sum() == pytest.approx(4.0)
    assert np.array(kernel_energy(-7 * kernel)) == pytest.approx(found)


@pytest.mark.parametrize("at", [(0, 0), (1, 1), (2, 0)])
def test_a_delta_passes_all_frequencies_alike_wherever_it_stands(at: tuple[int, int]) -> None:
    assert frequency_response(delta(at=at), size=8) == pytest.approx(np.full((1, 8, 8), 2.0))


@pytest.mark.parametrize("h, w, size", [(3, 3, 64), (3, 5, 16), (9, 101, 64), (9, 101, 15)])
def test_a_box_passes_the_kernel_of_dirichlet(h: int, w: int, size: int) -> None:
    """|sin(πfh)/sin(πf)| along each axis; also of a kernel with more entries than frequencies are asked for."""
    frequency = np.fft.fftshift(np.fft.fftfreq(size))

    def dirichlet(n: int) -> np.ndarray:
        below = np.sin(np.pi * frequency)
        return np.abs(np.divide(np.sin(np.pi * frequency * n), below, out=np.full(size, float(n)), where=below != 0))

    expected = dirichlet(h)[:, None] * dirichlet(w)
    found = frequency_response(np.ones((1, h, w)), size=size)[0]
    assert found == pytest.approx(expected, abs=1e-9)
    assert np.unravel_index(found.argmax(), found.shape) == (size // 2, size // 2)  # zero frequency in the middle


def test_the_response_is_what_a_wave_is_multiplied_by() -> None:
    kernel = np.random.default_rng(0).standard_normal((1, 3, 3))
    size, (u, v) = 16, (3, -5)
    rows, columns = np.meshgrid(np.arange(size), np.arange(size), indexing="ij")
    wave = np.exp(2j * np.pi * (u * rows + v * columns) / size)
    passed = correlate2d(wave, kernel[0].astype(complex), mode="same", boundary="wrap")
    response = frequency_response(kernel, size=size)[0]
    assert np.abs(passed) == pytest.approx(np.full((size, size), response[size // 2 + u, size // 2 + v]))


def test_the_response_keeps_the_energy() -> None:
    kernel = np.random.default_rng(0).standard_normal((2, 3, 5))
    found = (frequency_response(kernel, size=32) ** 2).mean((1, 2))
    assert found == pytest.approx((kernel**2).sum((1, 2)))
