"""What the points of a penalty must be."""

from torch import Tensor


def matrix(points: Tensor) -> Tensor:
    """Return `points` `[n, d]`. Raises `ValueError` for another number of dimensions, such as a batch of sentences."""
    if points.ndim != 2:
        raise ValueError(f"points: expected [points, dimensions], got {list(points.shape)}")
    return points
