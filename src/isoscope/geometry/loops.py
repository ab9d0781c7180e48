"""Compiled loops over points and over bars; with whole arrays, each iteration would cost an array operation.

Compiled at the first call in a process, which takes two seconds in all. They are not cached, since numba's cache uses
pickle. Arrays are C-contiguous; nothing is checked here.
"""

import math
from typing import Any

import numba
import numpy as np
import numpy.typing as npt

Places = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Values = npt.NDArray[np.floating[Any]]
EQUAL = 1e-12
"""Totals whose relative difference is smaller differ only by rounding."""
SERIES = 1e-4
"""Where |α − 1| is at most this, `(α − 1 − ln α) / (α − 1)²` is computed from its series."""
_BLOCK = 32
"""Points whose distances to another point are computed together: they fit in a core's cache."""


@numba.njit(fastmath={"reassoc", "contract"})  # the order of summation is free, which allows SIMD
def distances(points: Values) -> Floats:
    """Return Euclidean distances of all pairs of `points` `[n, d]` in the order of `pdist`.

    Sums of squared differences, in the points' own precision.
    """
    n, d = points.shape
    found = np.empty(n * (n - 1) // 2)
    for begin in range(0, n, _BLOCK):
        for second in range(begin + 1, n):
            other = points[second]
            for first in range(begin, min(begin + _BLOCK, second)):
                one = points[first]
                total = points.dtype.type(0)
                for axis in range(d):
                    difference = one[axis] - other[axis]
                    total += difference * difference
                found[first * (2 * n - first - 1) // 2 + second - first - 1] = math.sqrt(total)
    return found


@numba.njit
def joined(distances: Floats, n: int) -> tuple[Places, Floats]:
    """Run Prim's algorithm from point 0: return edges `[n − 1, 2]` and their lengths.

    Each edge goes from a point of the tree to the point that joins it. `distances` in the order of `pdist`; O(n²).
    """
    edges, lengths = np.empty((n - 1, 2), np.int64), np.empty(n - 1)
    nearest, by = np.full(n, np.inf), np.zeros(n, np.int64)
    left = np.arange(1, n)
    at = 0
    for joining in range(n - 1):
        best = 0
        for place in range(n - 1 - joining):
            point = left[place]
            low, high = min(at, point), max(at, point)
            distance = distances[low * (2 * n - low - 1) // 2 + high - low - 1]
            if distance < nearest[point]:
                nearest[point], by[point] = distance, at
            if nearest[point] < nearest[left[best]]:
                best = place
        at = left[best]
        left[best] = left[n - 2 - joining]
        edges[joining, 0], edges[joining, 1], lengths[joining] = by[at], at, nearest[at]
    return edges, lengths


@numba.njit
def spread(points: Values, edges: Places, slopes: Floats, found: Values) -> None:
    """Add `± slope · (x_u − x_v)` of each edge (u, v) with a non-zero slope to `found` `[n, d]`: + at u, − at v.

    A slope is float64: over a short bar it may overflow a lower precision, while the product does not.
    """
    for edge in range(len(edges)):
        if slopes[edge] == 0:  # its points may be NaN
            continue
        one, other = points[edges[edge, 0]], points[edges[edge, 1]]
        to_one, to_other = found[edges[edge, 0]], found[edges[edge, 1]]
        for axis in range(points.shape[1]):
            along = slopes[edge] * (one[axis] - other[axis])
            to_one[axis] += along
            to_other[axis] -= along


@numba.njit
def c_ratio(bars: Floats) -> Places:
    """`barcodes.c_ratio` for barcodes `[b, m]`, each falling: level by level, each until its total grows."""
    found = np.empty(len(bars), np.int64)
    lengths, products = np.zeros(bars.shape[1]), np.zeros(bars.shape[1])  # cumulative sums of the bars, and of ℓ ln ℓ
    for barcode in range(len(bars)):
        row = bars[barcode]
        count = 0
        while count < len(row) and row[count] > 0:
            count += 1
        if count < 4:
            found[barcode] = count
            continue
        for bar in range(1, count):
            lengths[bar] = lengths[bar - 1] + row[bar]
            products[bar] = products[bar - 1] + row[bar] * math.log(row[bar])
        first, last = row[0], row[count - 1]
        both, weighed = first + last, first * math.log(first) + last * math.log(last)
        alpha = last / first
        x = alpha - 1
        log_alpha = math.log1p(x) if alpha > 0.5 else math.log(last) - math.log(first)  # precise for small alpha, too
        slope = (x - log_alpha) / x**2 if abs(x) > SERIES else 0.5 - x / 3 + x**2 / 4
        inner = count - 2
        while True:
            stop, before = max(inner - 1, 0), lengths[inner] + both
            for tried in range(1, inner):
                rest = lengths[inner] - lengths[tried] + both
                total = rest + tried * math.exp((products[inner] - products[tried] + weighed) / rest)
                if before < total * (1 - EQUAL):
                    stop = tried
                    break
                before = total
            if inner == 0 or last == first or np.ceil(alpha * slope * (inner + 2)) >= stop:
                break
            inner = stop
        found[barcode] = 1 + stop
    return found
