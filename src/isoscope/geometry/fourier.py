"""The spectrum of vectors along the hidden index, where a circular convolution multiplies frequency by frequency."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.geometry.moments import Floats, as_cloud

DEAD = 0.1
"""A frequency counts as near-dead below this share of a vector's root mean squared magnitude."""


class Fourier(NamedTuple):
    """Means over vectors: flatness in (0, 1], share of near-dead frequencies, and rms magnitude by frequency
    `[⌈D/2⌉−1]`.
    """

    flatness: float
    dead: float
    magnitude: Floats


def fourier(points: npt.ArrayLike) -> Fourier:
    """Spectral flatness and near-dead share of vectors `[n, d]`, over the frequencies that are truly complex.

    Flatness is the geometric over the arithmetic mean of the power |F x|² of a vector. Independent normal entries give
    e^−γ = .561, their circular convolution e^−2γ = .315, and 1.0 and 4.5 % near-dead frequencies. The constant and, for
    even d, the alternating component are left out, for they follow another law. A vector of equal entries counts for
    nothing.
    """
    cloud = as_cloud(points)
    power = np.abs(np.fft.rfft(cloud, axis=1)[:, 1 : (cloud.shape[1] + 1) // 2]) ** 2
    power = power[power.sum(1) > 1e-24 * cloud.shape[1] * (cloud**2).sum(1)]  # less is what rounding left
    if not power.size:
        return Fourier(float("nan"), float("nan"), np.full(power.shape[1], np.nan))
    mean = power.mean(1, keepdims=True)
    flatness = np.exp(np.log(np.clip(power, 1e-300, None)).mean(1)) / mean[:, 0]
    dead = (power < DEAD**2 * mean).mean(1)
    return Fourier(float(flatness.mean()), float(dead.mean()), np.sqrt(power.mean(0)))


def permuted_axes(points: npt.ArrayLike, *, seed: int) -> Floats:
    """The cloud with its hidden axes in another order, the same for all points: what the spectrum must not survive.

    A spectrum along the hidden index means something only where this control changes it.
    """
    cloud = as_cloud(points)
    return cloud[:, np.random.default_rng(seed).permutation(cloud.shape[1])]
