"""Spectrum control: pull the singular values of a batch towards a slowly falling prior."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from isoscope.penalties.shapes import matrix
from isoscope.plugins import penalty


class SpectrumTerms(NamedTuple):
    """The penalty and the spectrum's distance from its prior."""

    penalty: Tensor
    """Scalar to add to a loss."""
    distance: Tensor
    """Mean squared difference of σ_k / σ_1 and the prior; 0 for a cloud without variance."""


@penalty("spectrum")
class SpectrumControl(nn.Module):
    """`weight · mean_k (σ_k / σ_1 − p_k)²` over the singular values of the centred batch, k = 1 … min(n − 1, d).

    The prior falls slowly from p_1 = 1: `exponential` is `exp(−rate · (k − 1)^power)`, `polynomial` is `k^(−power)`.
    Wang et al. 2020 tie the output embeddings' singular values to such a prior by re-parameterisation. Representations
    are not parameters, so here it is a penalty. Computed from the eigenvalues of the n × n Gram matrix, O(n² d + n³).
    Squared singular values below 1e-12 of the largest have no gradient. Raises `ValueError` for another prior.
    """

    def __init__(
        self,
        weight: float = 1.0,
        *,
        prior: Literal["exponential", "polynomial"] = "exponential",
        rate: float = 0.05,
        power: float = 1.0,
    ) -> None:
        super().__init__()
        if prior not in ("exponential", "polynomial"):
            raise ValueError(f"prior: expected 'exponential' or 'polynomial', got {prior!r}")
        self.weight, self.prior, self.rate, self.power = weight, prior, rate, power

    def forward(self, points: Tensor, labels: Tensor | None = None) -> SpectrumTerms:
        """Return the penalty of `points` `[n, d]`; `labels` are ignored. Raises `ValueError` for other shapes."""
        cloud = matrix(points).double()
        n, d = cloud.shape
        count = min(n - 1, d)
        if count < 1:
            nothing = (cloud * 0.0).sum()
            return SpectrumTerms(nothing, nothing.detach())
        finite = cloud.isfinite().all()  # a decomposition of NaN raises an error, and synchronises a GPU
        cloud = torch.where(finite, cloud, 0.0)
        cloud = cloud - cloud[0]  # exactly 0 for one point many times: a mean is rounded
        cloud = cloud - cloud.mean(0)
        squared = torch.linalg.eigvalsh(cloud @ cloud.T).flip(0)[:count]
        some = squared > 1e-12 * squared[:1]
        values = torch.where(some, torch.where(some, squared, 1.0).sqrt(), 0.0)
        place = torch.arange(count, device=points.device, dtype=torch.float64)
        wanted = (
            torch.exp(-self.rate * place**self.power) if self.prior == "exponential" else (place + 1) ** -self.power
        )
        spread = squared[0] > 0
        distance = torch.where(spread, (values / torch.where(spread, values[0], 1.0) - wanted).square().mean(), 0.0)
        distance = torch.where(finite, distance, torch.nan)
        return SpectrumTerms(self.weight * distance, distance.detach())
