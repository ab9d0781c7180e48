"""IsoScore* as a penalty (I-STAR): make the variances of a batch more equal, or less with a negative weight."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from isoscope.penalties.shapes import matrix
from isoscope.plugins import penalty


class IsoScoreTerms(NamedTuple):
    """The penalty and the IsoScore* that it is computed from."""

    penalty: Tensor
    """Scalar to add to a loss."""
    isoscore: Tensor
    """ι*, 0 for a line, 1 for equal variances; 0 for a cloud without variance."""


class IsoScoreStar(nn.Module):
    """`weight · (1 − ι*)`, ι* = (PR − 1) / (d − 1), PR = (tr Σ)² / tr Σ² of `Σ = (1 − ζ) Σ_batch + ζ Σ_0`.

    Σ_0, `reference` `[d, d]`, is the covariance of many more points than a batch has; without a reference, Σ is the
    batch's covariance. No decomposition is needed: tr Σ² is a sum over the batch's Gram matrix and over xᵀΣ_0x, O(n² d
    + n d²). A single point has no covariance; its penalty is 0. Source: Rudman and Eickhoff 2024 (arXiv:2305.19358),
    whose weight is negative and whose ζ is 0.2.
    """

    def __init__(self, weight: float = 1.0, *, zeta: float = 0.2) -> None:
        super().__init__()
        self.weight, self.zeta = weight, zeta
        self.reference: Tensor | None
        self.register_buffer("reference", None)

    def forward(self, points: Tensor, labels: Tensor | None = None) -> IsoScoreTerms:
        """Return the penalty of `points` `[n, d]`; `labels` are ignored. Raises `ValueError` for other shapes."""
        cloud = matrix(points).double()
        n, d = cloud.shape
        if n < 2 or d < 2:
            nothing = (cloud * 0.0).sum()
            return IsoScoreTerms(nothing, nothing.detach())
        cloud = (cloud - cloud.mean(0)) / (n - 1) ** 0.5
        first, second = cloud.square().sum(), (cloud @ cloud.T).square().sum()
        if self.reference is not None:
            known, zeta = self.reference.to(cloud), self.zeta
            cross = ((cloud @ known) * cloud).sum()
            second = (1 - zeta) ** 2 * second + 2 * zeta * (1 - zeta) * cross + zeta**2 * known.square().sum()
            first = (1 - zeta) * first + zeta * known.trace()
        some = ~(second <= 0)  # NaN stays visible
        ratio = torch.where(some, first.square() / torch.where(some, second, 1.0), 1.0)
        isoscore = (ratio - 1.0) / (d - 1)
        return IsoScoreTerms(self.weight * (1.0 - isoscore), isoscore.detach())


@penalty("isoscore")
def isoscore(zeta: float, reference: int | None) -> IsoScoreStar:
    """Return the penalty of a section `penalty`; the caller estimates the reference from that many points."""
    return IsoScoreStar(zeta=zeta)
