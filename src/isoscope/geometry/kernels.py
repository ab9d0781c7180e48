"""Read a fusion kernel over (sequence, hidden) as a filter: its energy by position, and its frequency response."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats


class KernelEnergy(NamedTuple):
    """Shares of Σ K² that sum to 1: at the token's own coordinate by source, and around it by source."""

    centre: Floats
    hidden: Floats
    tokens: Floats


def kernel_energy(kernel: npt.ArrayLike) -> KernelEnergy:
    """Return the energy of `kernel` `[sources, kh, kw]` by position, each `[sources]`.

    - `centre`: the token itself, same hidden coordinate.
    - `hidden`: the token itself, neighbouring coordinates.
    - `tokens`: neighbouring tokens.

    Raises `InputError` for another shape, an even size or a kernel of zeros.
    """
    weights = _kernel(kernel)
    power = weights**2 / float((weights**2).sum())
    middle, centre = weights.shape[1] // 2, weights.shape[2] // 2
    own = power[:, middle]
    return KernelEnergy(own[:, centre], own.sum(1) - own[:, centre], power.sum((1, 2)) - own.sum(1))


def frequency_response(kernel: npt.ArrayLike, *, size: int = 64) -> Floats:
    """Return |F K| of each source at `size` frequencies per side, `[sources, size, size]`, zero in the middle."""
    weights = _kernel(kernel)
    frequency = np.fft.fftshift(np.fft.fftfreq(size))
    # fft2 would crop a kernel larger than `size`.
    rows, columns = (np.exp(-2j * np.pi * np.outer(frequency, np.arange(n))) for n in weights.shape[1:])
    response: Floats = np.abs(rows @ weights @ columns.T)
    return response


def _kernel(kernel: npt.ArrayLike) -> Floats:
    weights = np.asarray(kernel, dtype=np.float64)
    if weights.ndim != 3 or weights.shape[1] % 2 == 0 or weights.shape[2] % 2 == 0:
        raise InputError(f"kernel: expected [sources, odd, odd], got {list(weights.shape)}")
    if not np.isfinite(weights).all() or not weights.any():
        raise InputError("kernel: all zero, or contains NaN or infinity")
    return weights
