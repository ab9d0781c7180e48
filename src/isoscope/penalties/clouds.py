"""Split a batch into the clouds that a penalty uses: the whole batch, or one cloud per class."""

from typing import NamedTuple

import torch
from torch import Tensor


class Clouds(NamedTuple):
    """The batch once per cloud `[C, n, d]` (a view), and which points belong to each cloud, `[C, n]` (None: all)."""

    points: Tensor
    mask: Tensor | None


def clouds(points: Tensor, labels: Tensor | None, *, per_class: bool, classes: int | None) -> Clouds:
    """Return `points` `[n, d]` as one cloud, or as one cloud per label 0 … `classes` − 1.

    `classes` None: as many as `labels` has. Labels below 0 belong to no cloud. Raises `ValueError` if points are not a
    matrix, and if labels are missing, differ in number from the points, or are not integers.
    """
    if points.ndim != 2:
        raise ValueError(f"points: expected [points, dimensions], got {list(points.shape)}")
    if not per_class:
        return Clouds(points[None], None)
    if labels is None:
        raise ValueError("labels: needed to tell classes apart (per_class=False takes all points together)")
    if labels.shape != points.shape[:1]:
        raise ValueError(f"labels: {list(labels.shape)} for {len(points)} points")
    if labels.is_floating_point():
        raise ValueError(f"labels: expected integers, got {labels.dtype} (per_class=False takes all points together)")
    count = classes if classes is not None else max(int(labels.max()) + 1, 0) if len(labels) else 0
    mask = labels == torch.arange(count, device=labels.device)[:, None]
    # The backward pass of `expand` is a sum, even for one cloud; a new axis costs nothing.
    return Clouds(points[None] if count == 1 else points.expand(count, *points.shape), mask)
