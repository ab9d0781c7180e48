"""Positions as powers of one vector under circular convolution, in place of an encoder's position table."""

import torch
from torch import Tensor, nn


def rope_angles(width: int) -> Tensor:
    """Return RoPE's angles per position, `10000^(−2k/D)` for k = 0, 1, …: one per frequency between DC and Nyquist.

    Source: Su et al. 2021 (https://arxiv.org/abs/2104.09864), section 3.2.2. Shape `[(D − 1) // 2]`, radians, fp32.
    """
    return 10000.0 ** (-2.0 * torch.arange((width - 1) // 2, device="cpu", dtype=torch.float32) / width)


class FractionalPositions(nn.Module):
    """Rows `p_m = F⁻¹(e^{imθ})`, the m-th power of one unitary vector; a drop-in for a position table.

    θ is `rope_angles`, learned or fixed. DC and, at an even width, Nyquist have angle 0, so that rows are real. Rows
    have unit magnitude at each frequency and length 1, and ⟨w ⊛ p_m, v ⊛ p_n⟩ depends on m − n only.
    """

    def __init__(self, table: nn.Embedding, *, learned: bool) -> None:
        """Take the place of `table`, with as many rows."""
        super().__init__()
        self.num_embeddings, self.embedding_dim = table.num_embeddings, table.embedding_dim
        self.padding_idx = table.padding_idx
        angles = rope_angles(self.embedding_dim).to(table.weight.device)
        if learned:
            self.angles = nn.Parameter(angles)
        else:
            self.register_buffer("angles", angles)

    @property
    def weight(self) -> Tensor:
        """All rows, `[positions, D]`."""
        return self(torch.arange(self.num_embeddings, device=self.angles.device))

    def forward(self, rows: Tensor) -> Tensor:
        """Return the vectors of `rows` `[…]`: `[…, D]`. Half-precision angles are used in fp32."""
        exact = self.angles.float() if self.angles.dtype in (torch.float16, torch.bfloat16) else self.angles
        turns = nn.functional.pad(rows[..., None] * exact, (1, 1 - self.embedding_dim % 2))
        spectrum = torch.polar(torch.ones_like(turns), turns)
        return torch.fft.irfft(spectrum, n=self.embedding_dim).to(self.angles.dtype)
