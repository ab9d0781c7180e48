"""A fusion kernel over (sequence, hidden) read as a filter: where its energy lies, and which frequencies it passes."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats


class KernelEnergy(NamedTuple):
    """Shares of Σ K² that sum to 1: at the token's own coordinate by source, and on everything around it by source."""

    centre: Floats
    hidden: Floats
    tokens: Floats


def kernel_energy(kernel: npt.ArrayLike) -> KernelEnergy:
    """Where the energy of `kernel` `[sources, kh, kw]` lies, each `[sources]`.

    `centre`: the token itself, the same hidden coordinate; `hidden`: the token itself, neighbouring coordinates;
    `tokens`: neighbouring tokens. Raises `InputError` for another shape, an even size or a kernel of zeros.
    """
    weights = _kernel(kernel)
    power = weights**2 / float((weights**2).sum())
    middle, centre = weights.shape[1] // 2, weights.shape[2] // 2
    own = power[:, middle]
    return KernelEnergy(own[:, centre], own.sum(1) - own[:, centre], power.sum((1, 2)) - own.sum(1))


def frequency_response(kernel: npt.ArrayLike, *, size: int = 64) -> Floats:
    """|F K| of each source at `size` frequencies a side, `[sources, size, size]`, zero frequency in the middle."""
    weights = _kernel(kernel)
    frequency = np.fft.fftshift(np.fft.fftfreq(size))
    # Not by fft2, which cuts off what a kernel larger than `size` has beyond it.
    rows, columns = (np.exp(-2j * np.pi * np.outer(frequency, np.arange(n))) for n in weights.shape[1:])
    response: Floats = np.abs(rows @ weights @ columns.T)
    return response


def _kernel(kernel: npt.ArrayLike) -> Floats:
    weights = np.asarray(kernel, dtype=np.float64)
    if weights.ndim != 3 or weights.shape[1] % 2 == 0 or weights.shape[2] % 2 == 0:
        raise InputError(f"kernel: expected [sources, odd, odd], got {list(weights.shape)}")
    if not np.isfinite(weights).all() or not weights.any():
        raise InputError("kernel: all zero, or NaN or infinity in it")
    return weights
