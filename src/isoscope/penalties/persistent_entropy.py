"""The persistent-entropy penalty: make the bars of each class more equal in length."""

import math
from numbers import Integral, Real
from typing import Any, NamedTuple, get_args

import torch
from torch import Tensor, nn

from isoscope.geometry.barcodes import Selection, entropy_and_slope, normalised, select
from isoscope.geometry.spanning_trees import minimum_spanning_trees, of_lengths
from isoscope.penalties.shapes import matrix
from isoscope.plugins import penalty


def clouds(
    points: Tensor, labels: Tensor | None, *, per_class: bool, classes: int | None
) -> tuple[Tensor, Tensor | None]:
    """Return `points` `[n, d]` as `[1, n, d]`: one cloud, or one cloud per label 0 … `classes` − 1.

    The mask `[C, n]` tells which points belong to each cloud (None: all). `classes` None: as many as `labels` has.
    Labels below 0, and of `classes` or more, belong to no cloud (a check would wait for a GPU). Raises `ValueError` if
    points are not a matrix, and if labels are missing, differ in number from the points, or are not integers.
    """
    whole = matrix(points)[None]
    if not per_class:
        return whole, None
    if labels is None:
        raise ValueError("labels: needed to tell classes apart (per_class=False takes all points together)")
    if labels.shape != points.shape[:1]:
        raise ValueError(f"labels: {list(labels.shape)} for {len(points)} points")
    if labels.is_floating_point():
        raise ValueError(f"labels: expected integers, got {labels.dtype} (per_class=False takes all points together)")
    count = classes if classes is not None else max(int(labels.max()) + 1, 0) if len(labels) else 0
    return whole, labels == torch.arange(count, device=labels.device)[:, None]


class PersistentEntropyTerms(NamedTuple):
    """The penalty in nats, and diagnostics `[C]` per class (C = 1 if classes are not separated), on the CPU."""

    penalty: Tensor
    """Scalar to add to a loss: `weight · (−Σ H + in_cluster · Σ mean dropped bar)`."""
    entropy: Tensor
    """H of the kept bars, nats; 0 if no bar is kept."""
    normalised: Tensor
    """H / ln k."""
    kept: Tensor
    """k, the number of kept bars."""
    bars: Tensor
    """Number of bars longer than 0."""
    points: Tensor
    """Number of points of the class in this batch."""


class PersistentEntropy(nn.Module):
    """`−weight · Σ_c H(kept H0 bars of class c)`: the more equal the bars' lengths, the smaller.

    H is the persistent entropy (natural log) of the Vietoris–Rips bars that `selection` keeps. It depends on the shares
    of the lengths only, not on their scale. A class with fewer than two distinct points adds 0.

    - `k`: how many bars `top-k`, `shortest-k` and `random-k` keep (None: as many as `c-ratio` would).
    - `in_cluster`: weight of the mean length of the dropped bars longer than 0; it shortens them.
    - `classes`: number of labels. None counts them.

    Costs O(n² d) time and O(n²) memory per class. A GPU computes distances and gradients; the CPU waits once for the
    distances (twice if it counts `classes`). Raises `ValueError` for an unknown selection or invalid numbers.
    Source: "Shrink the Longest", 2025 (arXiv:2501.05502), whose weight is 1.
    """

    compiled: bool | None = None
    """Which code computes distances and gradients (see `geometry.spanning_trees`); None: that of the points' device."""

    def __init__(
        self,
        selection: Selection = "c-ratio",
        *,
        k: int | None = None,
        per_class: bool = True,
        weight: float = 1.0,
        in_cluster: float = 0.0,
        classes: int | None = None,
    ) -> None:
        super().__init__()
        if selection not in get_args(Selection):
            raise ValueError(f"selection: expected one of {', '.join(get_args(Selection))}, got {selection!r}")
        if k is not None and (not selection.endswith("-k") or not isinstance(k, Integral) or k < 1):
            raise ValueError(f"k: expected an integer of at least 1 for top-k, random-k or shortest-k, got {k!r}")
        for name, value in (("weight", weight), ("in_cluster", in_cluster)):
            if not isinstance(value, Real) or not math.isfinite(value):
                raise ValueError(f"{name}: expected a finite number, got {value!r}")
        self.selection, self.k, self.per_class = selection, k, per_class
        self.weight, self.in_cluster, self.classes = weight, in_cluster, classes

    def extra_repr(self) -> str:
        """Return the settings, for a log."""
        shown = ("selection", "k", "per_class", "weight", "in_cluster", "classes")
        return ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)

    def forward(
        self, points: Tensor, labels: Tensor | None = None, generator: torch.Generator | None = None
    ) -> PersistentEntropyTerms:
        """Return the penalty of `points` `[n, d]` with `labels` `[n]`; `generator` draws the bars of `random-k`.

        Raises `ValueError` for other shapes, and for missing labels if classes are separated.
        """
        split, mask = clouds(points, labels if self.per_class else None, per_class=self.per_class, classes=self.classes)
        trees = minimum_spanning_trees(split, mask, compiled=self.compiled)
        lengths = trees.lengths.numpy()
        kept = select(lengths, self.selection, k=self.k, generator=generator)
        entropy, slope = entropy_and_slope(lengths, kept)
        longer = lengths > 0
        value, slope = -entropy.sum(), -slope
        if self.in_cluster:
            dropped = longer & ~kept
            share = dropped / dropped.sum(-1).clip(1)[..., None]
            value, slope = value + self.in_cluster * (share * lengths).sum(), slope + self.in_cluster * share
        count = kept.sum(-1)
        known = torch.as_tensor(self.weight * value), torch.as_tensor(self.weight * slope)
        return PersistentEntropyTerms(
            of_lengths(split, trees, *known, compiled=self.compiled),
            entropy=torch.as_tensor(entropy),
            normalised=torch.as_tensor(normalised(entropy, count)),
            kept=torch.as_tensor(count),
            bars=torch.as_tensor(longer.sum(-1)),
            points=trees.points,
        )


@penalty("persistent_entropy")
def persistent_entropy(classes: int, clouds: str, **options: Any) -> PersistentEntropy:
    """Return the penalty of a section `penalty`; shuffled labels are shuffled by the caller."""
    return PersistentEntropy(per_class=clouds != "batch", classes=classes, **options)
