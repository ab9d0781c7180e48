"""Read fusions as filters: a kernel over (sequence, hidden), and spectra along the hidden index.

A circular convolution multiplies each frequency along the hidden index separately.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from isoscope.base.errors import InputError
from isoscope.geometry.array_kinds import on_host
from isoscope.geometry.moments import Floats, as_cloud

DEAD = 0.1
"""A frequency is near-dead below this share of a vector's root mean squared magnitude."""


class Fourier(NamedTuple):
    """Means over vectors: flatness in (0, 1], near-dead share of frequencies, rms by frequency `[⌈D/2⌉−1]`."""

    flatness: float
    dead: float
    magnitude: Floats


def fourier(points: ArrayLike) -> Fourier:
    """Return spectral flatness and near-dead share of vectors `[n, d]`, over the complex-valued frequencies.

    Flatness is the geometric over the arithmetic mean of the power |F x|² of a vector. Independent normal entries give
    e^−γ = .561 and 1.0 % near-dead frequencies; their circular convolution gives e^−2γ = .315 and 4.5 %. The constant
    and, for even d, the alternating component are left out, since they follow another law. A vector of equal entries is
    skipped.
    """
    cloud = as_cloud(points)
    power = np.abs(np.fft.rfft(cloud, axis=1)[:, 1 : (cloud.shape[1] + 1) // 2]) ** 2
    power = power[power.sum(1) > 1e-24 * cloud.shape[1] * (cloud**2).sum(1)]  # power below this is rounding error
    if not power.size:
        return Fourier(float("nan"), float("nan"), np.full(power.shape[1], np.nan))
    mean = power.mean(1, keepdims=True)
    flatness = np.exp(np.log(np.clip(power, 1e-300, None)).mean(1)) / mean[:, 0]
    dead = (power < DEAD**2 * mean).mean(1)
    return Fourier(float(flatness.mean()), float(dead.mean()), np.sqrt(power.mean(0)))


def permuted_axes(points: ArrayLike, *, seed: int) -> Floats:
    """Return the cloud with its hidden axes permuted, the same way for all points: a control.

    A spectrum along the hidden index is meaningful only if this control changes it.
    """
    cloud = as_cloud(points)
    return cloud[:, np.random.default_rng(seed).permutation(cloud.shape[1])]


class KernelEnergy(NamedTuple):
    """Shares of Σ K² that sum to 1: at the token's own coordinate by source, and around it by source."""

    centre: Floats
    hidden: Floats
    tokens: Floats


def kernel_energy(kernel: ArrayLike) -> KernelEnergy:
    """Return the energy of `kernel` `[sources, kh, kw]` by position, each `[sources]`.

    - `centre`: the token itself, same hidden coordinate.
    - `hidden`: the token itself, neighbouring coordinates.
    - `tokens`: neighbouring tokens.

    Raises `InputError` for another shape, an even size or a kernel of zeros.
    """
    power = _kernel(kernel) ** 2
    power /= float(power.sum())
    own = power[:, power.shape[1] // 2]
    centre = own[:, own.shape[1] // 2]
    return KernelEnergy(centre, own.sum(1) - centre, power.sum((1, 2)) - own.sum(1))


def frequency_response(kernel: ArrayLike, *, size: int = 64) -> Floats:
    """Return |F K| of each source at `size` frequencies per side, `[sources, size, size]`, zero in the middle."""
    weights = _kernel(kernel)
    frequency = np.fft.fftshift(np.fft.fftfreq(size))
    # fft2 would crop a kernel larger than `size`.
    rows, columns = (np.exp(-2j * np.pi * np.outer(frequency, np.arange(n))) for n in weights.shape[1:])
    return np.abs(rows @ weights @ columns.T)


def _kernel(kernel: ArrayLike) -> Floats:
    weights = np.asarray(on_host(kernel), dtype=np.float64)
    if weights.ndim != 3 or weights.shape[1] % 2 == 0 or weights.shape[2] % 2 == 0:
        raise InputError(f"kernel: expected [sources, odd, odd], got {list(weights.shape)}")
    if not np.isfinite(weights).all() or not weights.any():
        raise InputError("kernel: all zero, or contains NaN or infinity")
    return weights
