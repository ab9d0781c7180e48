"""The cosine regulariser: push the directions of a batch apart."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from isoscope.penalties.shapes import matrix
from isoscope.plugins import penalty


class CosineTerms(NamedTuple):
    """The penalty and the mean cosine that it is computed from."""

    penalty: Tensor
    """Scalar to add to a loss."""
    mean_cosine: Tensor
    """Mean over all pairs of different points; 0 for fewer than two points."""


@penalty("cosine")
class CosineRegularization(nn.Module):
    """`weight · (1/n²) Σ_{i≠j} ŵ_iᵀŵ_j`, ŵ = w / ‖w‖: in O(nd), since the sum is `‖Σ ŵ‖² − n`.

    A vector of length 0 has no direction and adds nothing. Source: Gao et al. 2019 (arXiv:1907.12009), who apply it to
    the output embeddings with weight 1; here it applies to any points.
    """

    def __init__(self, weight: float = 1.0) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, points: Tensor, labels: Tensor | None = None) -> CosineTerms:
        """Return the penalty of `points` `[n, d]`; `labels` are ignored. Raises `ValueError` for other shapes."""
        cloud = matrix(points).double()
        square = cloud.square().sum(1, keepdim=True)
        some = ~(square <= 0)  # NaN stays visible
        unit = torch.where(some, cloud / torch.where(some, square, 1.0).sqrt(), 0.0)
        n = len(points)
        pairs = unit.sum(0).square().sum() - unit.square().sum()
        return CosineTerms(self.weight * pairs / max(n, 1) ** 2, (pairs / max(n * (n - 1), 1)).detach())
