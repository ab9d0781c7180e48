"""Where a set of series changes its course: segments of straight lines, as few as a calibrated test allows.

A trend by itself is no change, nor is a wandering of autocorrelated noise. So each further boundary has to lower the
residual more than it would in series made of the segments found so far with noise of the same autocorrelation and
correlation between series (parametric bootstrap).
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from isoscope.errors import InputError
from isoscope.geometry.moments import Floats

SHORTEST = 3
"""Points of a segment at least: two lie on any line."""
LARGEST_PHI = 0.9


class Segmentation(NamedTuple):
    """`boundaries`: index of the first point of each segment but the first; `p`: that of each test, boundary after
    boundary, the last one being the first that failed (unless `most` were found)."""

    boundaries: tuple[int, ...]
    p: tuple[float, ...]


def segment(
    series: npt.ArrayLike, *, most: int = 4, level: float = 0.05, draws: int = 199, seed: int = 0
) -> Segmentation:
    """Boundaries common to all `series` `[T, m]`, at most `most`.

    Each series is divided by the sd of its residual about one straight line. The j-th test compares the best j
    boundaries with the best j − 1 at `level`. Raises `InputError` for fewer than 2·SHORTEST points, or NaN.
    """
    values = np.asarray(series, dtype=np.float64)
    values = values[:, None] if values.ndim == 1 else values
    if values.ndim != 2 or len(values) < 2 * SHORTEST or not np.isfinite(values).all():
        raise InputError(
            f"series: expected [points, series] without NaN, {2 * SHORTEST} points or more, got {list(values.shape)}"
        )
    scale = _residual(values, ()).std(0)
    values = values[:, scale > 1e-12 * (np.abs(values).max(0) + 1e-300)]
    if not values.shape[1]:
        return Segmentation((), (1.0,))
    values = values / _residual(values, ()).std(0)
    random = np.random.default_rng(seed)
    boundaries: tuple[int, ...] = ()
    tests: list[float] = []
    while len(boundaries) < min(most, len(values) // SHORTEST - 1):
        further = len(boundaries) + 1
        error, best = _best(_costs(values[None]), further)
        before = float((_residual(values, boundaries) ** 2).sum())
        gain = _gain(before, float(error[0]))
        made = _simulated(values, boundaries, draws, random)
        null = _null_gains(made, further)
        tests.append((1 + int((null >= gain).sum())) / (1 + draws))
        if tests[-1] > level:
            break
        boundaries = best
    return Segmentation(boundaries, tuple(tests))


def _gain(before: float, after: float) -> float:
    return float(np.log(max(before, 1e-12) / max(after, 1e-12)))


def _null_gains(made: Floats, further: int) -> Floats:
    costs = _costs(made)
    before, _ = _best(costs, further - 1)
    after, _ = _best(costs, further)
    found: Floats = np.log(np.maximum(before, 1e-12) / np.maximum(after, 1e-12))
    return found


def _line(length: int) -> Floats:
    """Projection off the straight lines over `length` points."""
    design = np.stack([np.ones(length), np.arange(length)], 1)
    found: Floats = np.eye(length) - design @ np.linalg.pinv(design)
    return found


def _residual(values: Floats, boundaries: tuple[int, ...]) -> Floats:
    edges = (0, *boundaries, len(values))
    parts = [_line(end - start) @ values[start:end] for start, end in zip(edges, edges[1:], strict=False)]
    return np.concatenate(parts)


def _costs(values: Floats) -> Floats:
    """Squared residual about a line of each stretch i … j−1 of each draw `[B, T, m]`, infinite for short ones; `[B, T, T+1]`."""
    draws, points, _ = values.shape
    costs = np.full((draws, points, points + 1), np.inf)
    for length in range(SHORTEST, points + 1):
        off = _line(length)
        for start in range(points - length + 1):
            part = values[:, start : start + length]
            costs[:, start, start + length] = np.einsum("btm,bsm,ts->b", part, part, off, optimize=True)
    return costs


def _best(costs: Floats, boundaries: int) -> tuple[Floats, tuple[int, ...]]:
    """Least cost with so many boundaries for each draw, and where they are in the first draw."""
    points = costs.shape[1]
    least, choice = costs[:, 0, :], []
    for _ in range(boundaries):
        total = least[:, :points, None] + costs  # [B, last start, end]
        choice.append(total[0].argmin(0))
        least = total.min(1)
    found: list[int] = []
    end = points
    for starts in reversed(choice):
        end = int(starts[end])
        found.append(end)
    return least[:, points], tuple(reversed(found))


def _simulated(values: Floats, boundaries: tuple[int, ...], draws: int, random: np.random.Generator) -> Floats:
    """Series of the fitted segments with AR(1) noise like the residual's, correlated between series as it is."""
    residual = _residual(values, boundaries)
    fitted = values - residual
    points, count = values.shape
    lost = 2 * (len(boundaries) + 1)
    phi = np.array([_phi(residual[:, one], lost) for one in range(count)])
    innovation = residual[1:] - phi * residual[:-1]
    covariance = np.atleast_2d(innovation.T @ innovation) / max(1, points - 1 - lost)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(count) * np.trace(covariance))
    noise = np.empty((draws, points, count))
    noise[:, 0] = random.standard_normal((draws, count)) @ root.T / np.sqrt(1 - phi**2)
    for t in range(1, points):
        noise[:, t] = phi * noise[:, t - 1] + random.standard_normal((draws, count)) @ root.T
    return fitted + noise


def _phi(residual: Floats, lost: int) -> float:
    """Lag-one autocorrelation, corrected for the degrees of freedom that the fitted lines took, within [0, .9].

    A residual about fitted lines looks less correlated than the noise was: about (1 + 3φ + lost…)/T less.
    """
    square = float(residual @ residual)
    if square == 0:
        return 0.0
    raw = float(residual[1:] @ residual[:-1]) / square
    points = len(residual)
    corrected = (points * raw + lost) / max(1, points - lost - 1)
    return float(np.clip(corrected, 0.0, LARGEST_PHI))
