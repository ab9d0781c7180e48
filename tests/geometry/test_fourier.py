"""Spectra along the hidden index: Parseval, exponential power laws, and the permuted control."""

import numpy as np
import pytest

from isoscope.geometry.kernels import DEAD, fourier, permuted_axes

D, N = 768, 400


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    one, other = np.random.default_rng(0).standard_normal((2, N, D)) / np.sqrt(D)
    return one, other


def convolved(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.fft.irfft(np.fft.rfft(one) * np.fft.rfft(other), D)


def unitary(points: np.ndarray) -> np.ndarray:
    spectrum = np.fft.rfft(points)
    return np.fft.irfft(spectrum / np.abs(spectrum), D)


def test_normal_entries_and_their_circular_convolution(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Power is exponential: flatness e^−γ, and e^−2γ of a product, each a little above it at 383 frequencies."""
    gamma, m = np.euler_gamma, D // 2 - 1
    word, bound, plain = fourier(pair[0]), fourier(convolved(*pair)), fourier(convolved(pair[0], unitary(pair[1])))
    assert word.flatness == pytest.approx(np.exp(-gamma) * (1 + np.pi**2 / (12 * m)), abs=0.003)
    assert bound.flatness == pytest.approx(np.exp(-2 * gamma) * (1 + np.pi**2 / (6 * m)), abs=0.003)
    assert [word.flatness, bound.flatness] == pytest.approx([0.563, 0.317], abs=0.003)
    assert word.dead == pytest.approx(1 - np.exp(-(DEAD**2)), abs=5e-4)
    assert [word.dead, bound.dead] == pytest.approx([0.010, 0.045], abs=0.001)
    assert [plain.flatness, plain.dead] == pytest.approx([word.flatness, word.dead], rel=1e-9)  # it only turns phases


@pytest.mark.parametrize("width", [9, 8])
def test_magnitudes_keep_the_energy(width: int) -> None:
    """Parseval: d ‖x‖² is the power at 0, twice that at each complex frequency, and that at d/2 for even d."""
    points = np.random.default_rng(0).normal(0.3, 1.0, (5, width))
    found = fourier(points).magnitude
    assert found.shape == ((width - 1) // 2,)
    alternating = (points * (-1.0) ** np.arange(width)).sum(1) ** 2 if width % 2 == 0 else np.zeros(5)
    constant = points.sum(1) ** 2
    energy = width * (points**2).sum(1) - constant - alternating
    assert 2 * (found**2).sum() == pytest.approx(energy.mean())


def test_a_flat_spectrum_and_a_single_frequency() -> None:
    assert fourier(np.eye(16)[:3]).flatness == pytest.approx(1.0)
    assert fourier(np.eye(16)[:3]).dead == 0.0
    wave = np.cos(2 * np.pi * 3 * np.arange(64) / 64)
    found = fourier([wave, 5 * wave])
    assert found.flatness < 1e-6
    assert found.dead == pytest.approx(30 / 31)
    assert found.magnitude.argmax() == 2  # the first is frequency 1


def test_near_dead_counts_against_the_rms_of_its_own_vector() -> None:
    spectrum = np.ones(33, complex)
    spectrum[[5, 9]] = 0.09  # of 31 complex frequencies
    spectrum[[2, 3]] = 0.11
    one = np.fft.irfft(spectrum, 64)
    assert fourier([one]).dead == pytest.approx(2 / 31)
    assert fourier([one, 1000 * one]).dead == pytest.approx(2 / 31)


def test_another_order_of_the_axes_changes_a_smooth_signal_and_not_white_noise(
    pair: tuple[np.ndarray, np.ndarray],
) -> None:
    noise = pair[0]
    smooth = noise.cumsum(1) - noise.cumsum(1).mean(1, keepdims=True)
    assert fourier(permuted_axes(noise, seed=0)).flatness == pytest.approx(fourier(noise).flatness, abs=0.003)
    assert fourier(smooth).flatness < 0.1
    assert fourier(permuted_axes(smooth, seed=0)).flatness > 0.5


def test_the_axes_are_put_in_one_order_for_all_points() -> None:
    points = np.random.default_rng(0).standard_normal((5, 12))
    found = permuted_axes(points, seed=3)
    assert not np.array_equal(found, points)
    assert (found @ found.T) == pytest.approx(points @ points.T)
    assert sorted(map(tuple, found.T)) == sorted(map(tuple, points.T))
    assert np.array_equal(found, permuted_axes(points, seed=3))
    assert not np.array_equal(found, permuted_axes(points, seed=4))


@pytest.mark.parametrize("value", [0.0, 0.1, -1 / 3])
@pytest.mark.parametrize("width", [767, 768])
def test_a_vector_of_equal_entries_counts_for_nothing(value: float, width: int) -> None:
    """Its transform leaves rounding at the other frequencies, which is no spectrum."""
    noise = np.random.default_rng(0).standard_normal((3, width))
    equal = np.full((2, width), value)
    found, alone = fourier(np.concatenate([noise, equal])), fourier(noise)
    assert found[:2] == alone[:2]
    assert np.array_equal(found.magnitude, alone.magnitude)
    assert np.isnan(fourier(equal).flatness)
    assert np.isnan(fourier(equal).magnitude).all()


@pytest.mark.parametrize("width", [1, 2])
def test_without_a_complex_frequency_there_is_nothing_to_say(width: int) -> None:
    found = fourier(np.ones((3, width)))
    assert np.isnan(found[:2]).all()
    assert found.magnitude.shape == (0,)
