"""Spectrum control: singular values of a batch pulled towards a slowly falling prior."""

from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn


class SpectrumTerms(NamedTuple):
    """The penalty and how far the spectrum is from its prior."""

    penalty: Tensor
    """Scalar to add to a loss."""
    distance: Tensor
    """Mean squared difference of σ_k / σ_1 and the prior; 0 for a cloud of one place."""


class SpectrumControl(nn.Module):
    """`weight · mean_k (σ_k / σ_1 − p_k)²` over the singular values of the centred batch, k = 1 … min(n − 1, d).

    The prior falls slowly from p_1 = 1: `exponential` as `exp(−rate · (k − 1)^power)`, `polynomial` as `k^(−power)`.
    Wang et al. 2020 tie the output embeddings' singular values to such a prior by re-parameterising them; on
    representations, which are not parameters, it is a penalty. From eigenvalues of the n × n Gram matrix, O(n² d + n³);
    values below a millionth of the largest have no gradient.
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
        self.weight, self.prior, self.rate, self.power = weight, prior, rate, power

    def forward(self, points: Tensor, labels: Tensor | None = None) -> SpectrumTerms:
        """The penalty of `points` `[n, d]`; `labels` are not looked at."""
        cloud = points.double()
        n, d = cloud.shape
        count = min(n - 1, d)
        if count < 1:
            nothing = (cloud * 0.0).sum()
            return SpectrumTerms(nothing, nothing.detach())
        finite = cloud.isfinite().all()  # a decomposition of NaN is an error, and on a GPU a wait
        cloud = torch.where(finite, cloud, 0.0)
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
