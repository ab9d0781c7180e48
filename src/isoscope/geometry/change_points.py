"""Where a set of series changes its course: segments of straight lines, as few as a calibrated test allows.

A trend by itself is no change, nor is a wandering of autocorrelated noise. Few points cannot tell a wandering from a
change by its size alone, so noise that wanders is offered to both sides as an explanation: the criterion is a
likelihood ratio, each side at its own autocorrelation. And each further boundary has to improve it more than it would
in series made of the segments found so far with noise of the strongest autocorrelation reckoned with (parametric
bootstrap).

Measured at 25 points, 200 to 600 draws of series with a random slope each: a false boundary in 0, .5 and 3.3 % of
single series with noise of φ = 0, .5 and .8; in 0, 0 and .8 % of three together, in .5, 1 and 3.2 % where their noise
correlates by .9 (one series of φ = .8: 2 % at 40 points, 5 % at 12). A shift by 8 sd of the noise in one series, or by
5 sd in three at once, is found within a point in 94 % or more, whatever φ of these; by 7 and 4 sd in 80 and 67 % at
φ = 0; all of two or four shifts to and fro, by 12 sd in one series or 8 in three, in 97 % and more. A bend of a smooth
curve is a change, too.
"""

from functools import cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view
from scipy.signal import lfilter

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats

SHORTEST = 3
"""Points of a segment at least: two lie on any line."""
PHIS = (0.0, 0.3, 0.6, 0.9)
"""Autocorrelations (lag one) that either side may explain the series by."""
STRONGEST = 0.95
"""Autocorrelation of the noise that a boundary is tested against. Estimated from 25 points it would be far too low as
often as not; under a stronger one improvements by chance are larger, so up to here no series is worse off."""


class Segmentation(NamedTuple):
    """`boundaries`: index of the first point of each segment but the first; `p[j]`: that of the test whether j
    boundaries are enough, the last one being the first to say so (unless `most` were found).
    """

    boundaries: tuple[int, ...]
    p: tuple[float, ...]


def segment(
    series: npt.ArrayLike, *, most: int = 4, level: float = 0.05, draws: int = 199, seed: int = 0
) -> Segmentation:
    """Boundaries common to all `series` `[T, m]`, at most `most`.

    The fewest that a test at `level` finds enough, against any larger number: two that undo each other show together
    only. Series that keep to a straight line count for nothing. Raises `InputError` for fewer than 2·SHORTEST points,
    or NaN.
    """
    values = np.asarray(series, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) < 2 * SHORTEST or not np.isfinite(values).all():
        raise InputError(
            f"series: expected [points, series] without NaN, {2 * SHORTEST} points or more, got {list(values.shape)}"
        )
    values = values[:, _residual(values, ()).std(0) > 1e-12 * np.abs(values).max(0, initial=0)]
    if not values.shape[1]:
        return Segmentation((), (1.0,))
    values = _standard(values)
    random = np.random.default_rng(seed)
    most = min(most, len(values) // SHORTEST - 1)
    found, places = _criteria(values[None], most)
    tests: list[float] = []
    for enough in range(most):
        null, _ = _criteria(_simulated(values, places[enough], places[most], draws, random), most)
        gain, chance = found[enough] - found[enough + 1 :], null[enough] - null[enough + 1 :]
        mean, spread = chance.mean(1, keepdims=True), np.maximum(chance.std(1, keepdims=True), 1e-9)
        largest = ((chance - mean) / spread).max(0)  # the gain that stands out most, each as its own chance goes
        tests.append((1 + int((largest >= ((gain - mean) / spread).max()).sum())) / (1 + draws))
        if tests[-1] > level:
            return Segmentation(places[enough], tuple(tests))
    return Segmentation(places[most], tuple(tests))


def _residual(values: Floats, boundaries: tuple[int, ...]) -> Floats:
    """What straight lines leave of `values` `[..., T, m]`, a line to each segment."""
    edges = (0, *boundaries, values.shape[-2])
    parts = [_off_line(end - start) @ values[..., start:end, :] for start, end in pairwise(edges)]
    return np.concatenate(parts, -2)


def _standard(values: Floats) -> Floats:
    """Each series divided by the sd of its residual about one straight line."""
    found: Floats = values / np.maximum(_residual(values, ()).std(-2, keepdims=True), 1e-300)
    return found


@cache
def _off_line(length: int, phi: float = 0.0) -> Floats:
    """The form `[length, length]` of the squared residual about the likeliest straight line under AR(1) noise.

    In units of the innovation's variance; for φ = 0 it is the projection off the lines.
    """
    whiten = np.eye(length) - phi * np.eye(length, k=-1)
    whiten[0, 0] = np.sqrt(1 - phi**2)
    design = whiten @ np.stack([np.ones(length), np.arange(length)], 1)
    found: Floats = whiten.T @ (whiten - design @ (np.linalg.pinv(design) @ whiten))
    return found


def _costs(values: Floats, phi: float) -> Floats:
    """Squared residual of each stretch i … j−1 of each draw `[B, T, m]`, infinite for short ones; `[B, T, T+1]`."""
    draws, points, _ = values.shape
    costs = np.full((draws, points, points + 1), np.inf)
    for length in range(SHORTEST, points + 1):
        stretches = sliding_window_view(values, length, axis=1)  # [B, start, m, length]
        start = np.arange(points - length + 1)
        costs[:, start, start + length] = ((stretches @ _off_line(length, phi)) * stretches).sum((2, 3))
    return costs


def _best(costs: Floats, most: int) -> tuple[Floats, list[tuple[int, ...]]]:
    """Least cost with 0, 1, … `most` boundaries for each draw, `[most + 1, B]`, and where they lie in draw 0."""
    points = costs.shape[1]
    least, choice, found = costs[:, 0, :], [], [costs[:, 0, points]]
    places: list[tuple[int, ...]] = [()]
    for _ in range(most):
        total = least[:, :points, None] + costs  # [B, last start, end]
        choice.append(total[0].argmin(0))
        least = total.min(1)
        found.append(least[:, points])
        where = [points]
        for starts in reversed(choice):
            where.insert(0, int(starts[where[0]]))
        places.append(tuple(where[:-1]))
    return np.stack(found), places


def _criteria(values: Floats, most: int) -> tuple[Floats, list[tuple[int, ...]]]:
    """−2 log likelihood with 0, 1, … `most` boundaries, `[most + 1, B]`, and where they lie in draw 0.

    Each at the φ, common to the series, that suits it best. Noise starts afresh with each segment.
    """
    values = _standard(values)
    _, points, count = values.shape
    segments = np.arange(1, most + 2)[:, None]
    found, where = [], []
    for phi in PHIS:
        costs, places = _best(_costs(values, phi), most)
        logs = np.log(np.maximum(costs, 1e-12 * points * count))
        found.append(points * count * logs - count * segments * np.log1p(-(phi**2)))
        where.append(places)
    suits = np.stack(found)[:, :, 0].argmin(0)
    return np.min(found, 0), [where[phi][boundaries] for boundaries, phi in enumerate(suits)]


def _simulated(
    values: Floats, boundaries: tuple[int, ...], fullest: tuple[int, ...], draws: int, random: np.random.Generator
) -> Floats:
    """Series of the segments fitted so far and AR(1) noise that leaves as much about them as the series do.

    The correlation between series is that of their steps within the `fullest` segments, for a change common to all is
    no correlation; and a standard error larger, for with one thought too small chance would look poorer than it is.
    """
    residual = _residual(values, boundaries)
    points, count = values.shape
    left = np.delete(np.diff(_residual(values, fullest), axis=0), np.array(fullest) - 1, axis=0)
    left = left / np.maximum(np.linalg.norm(left, axis=0), 1e-300)
    seen = np.clip(left.T @ left, -0.999, 0.999)
    correlation = np.tanh(np.arctanh(seen) + np.sign(seen) / np.sqrt(len(left)))
    np.fill_diagonal(correlation, 1.0)
    latent, directions = np.linalg.eigh(correlation)
    shock = random.standard_normal((draws, points, count)) @ (
        directions * np.sqrt(np.clip(latent, 0, None)) @ directions.T
    )
    shock[:, 0] /= np.sqrt(1 - STRONGEST**2)
    noise = lfilter([1.0], [1.0, -STRONGEST], shock, axis=1)
    scale = np.sqrt((residual**2).sum(0) / (_residual(noise, boundaries) ** 2).sum(1).mean(0))
    found: Floats = values - residual + noise * scale
    return found
