"""Kernels whose energy and frequencies are known; spectra along the hidden index.

Parseval, exponential power laws, and the permuted control.
"""

import numpy as np
import pytest
from scipy.signal import correlate2d

from isoscope.geometry.kernels import DEAD, fourier, frequency_response, kernel_energy, permuted_axes


def delta(h: int = 3, w: int = 3, at: tuple[int, int] | None = None) -> np.ndarray:
    kernel = np.zeros((1, h, w))
    kernel[(0, *(at or (h // 2, w // 2)))] = 2.0
    return kernel


@pytest.mark.parametrize(
    "at, expected", [((1, 1), [1, 0, 0]), ((1, 0), [0, 1, 0]), ((0, 1), [0, 0, 1]), ((2, 2), [0, 0, 1])]
)
def test_the_energy_of_a_delta_is_at_the_token_itself(at: tuple[int, int], expected: list[int]) -> None:
    assert [float(part[0]) for part in kernel_energy(delta(at=at))] == expected


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


def test_the_response_keeps_the_energy_and_a_delta_passes_all_frequencies_alike() -> None:
    for at in ((0, 0), (1, 1), (2, 0)):
        assert frequency_response(delta(at=at), size=8) == pytest.approx(np.full((1, 8, 8), 2.0))
    kernel = np.random.default_rng(0).standard_normal((2, 3, 5))
    found = (frequency_response(kernel, size=32) ** 2).mean((1, 2))
    assert found == pytest.approx((kernel**2).sum((1, 2)))


D, N = 768, 400


@pytest.fixture(scope="module")
def pair() -> tuple[np.ndarray, np.ndarray]:
    one, other = np.random.default_rng(0).standard_normal((2, N, D)) / np.sqrt(D)
    return one, other


def convolved(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.fft.irfft(np.fft.rfft(one) * np.fft.rfft(other), D)


def test_normal_entries_and_their_circular_convolution(pair: tuple[np.ndarray, np.ndarray]) -> None:
    """Power is exponential: flatness e^−γ, and e^−2γ of a product, each a little above it at 383 frequencies."""
    gamma, m = np.euler_gamma, D // 2 - 1
    spectrum = np.fft.rfft(pair[1])
    unitary = np.fft.irfft(spectrum / np.abs(spectrum), D)
    word, bound, plain = fourier(pair[0]), fourier(convolved(*pair)), fourier(convolved(pair[0], unitary))
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
