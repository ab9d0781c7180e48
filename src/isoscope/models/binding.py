"""Bind word and position by circular convolution (Plate's holographic binding), with its remedies."""

import math
from typing import Any, Literal

import torch
from torch import Tensor, nn

from isoscope.models.sources import Sources, added
from isoscope.platform.config.fusion import Table


class FFT(Sources):
    """Circular convolution of the sources along the hidden axis, `F⁻¹(S)` with `S = Π_c F(source_c)`.

    `(a ⊛ b)_j = Σ_k a_k b_{(j − k) mod D}`; `token_type="add"` then adds t, unless t is a source. Options, with W and P
    the spectra of word and position (Plate 1995; Ganesan et al. 2021 for unit magnitudes; Plate 2003 for `complex`):

    - `start` random: the bound vector alone. residual: `(w + t) + p + g · (…)`, a learned scalar g = 0 at the start.
      delta: P is `1 + F(p)`, so that `p = 0` leaves w as it is.
    - `magnitudes` product: `W · P`. unit: `W · P/|P|`. power: `W · P/|P| · |P|^β`, β learned in [0, 1] from `exponent`.
      phase: every source has magnitude 1. A frequency of magnitude 0 stays 0.
    - `positions` fractional, learned: `isoscope.models.embeddings` in place of the table (the embedding block does it).
    - `output` complex: a learned matrix maps (Re S, Im S) to the hidden size; its entries start with a variance of 1
      over the number of inputs.
    - `scale` variance: the bound vector times `initial_scale`.
    - `normalisation` l2: source vectors of unit length.

    Half-precision sources are transformed in fp32, since not every device and width has a half-precision transform.
    Tokens never mix.
    """

    def __init__(
        self,
        *,
        start: Literal["random", "residual", "delta"],
        magnitudes: Literal["product", "unit", "power", "phase"],
        exponent: float | None,
        positions: Literal["table", "fractional", "learned"],
        output: Literal["real", "complex"],
        scale: Literal["none", "variance"],
        sources: tuple[Table, ...],
        token_type: Literal["add", "ignore"],
        normalisation: Literal["none", "l2"],
        hidden_size: int,
        init_std: float,
    ) -> None:
        super().__init__(sources, token_type, normalisation, start)
        self.magnitudes, self.positions, self.exponent_start = magnitudes, positions, exponent
        self.gate = nn.Parameter(torch.empty(())) if start == "residual" else None
        self.exponent = nn.Parameter(torch.empty(())) if exponent is not None else None
        bins = hidden_size // 2 + 1
        self.projection = nn.Parameter(torch.empty(hidden_size, 2 * bins)) if output == "complex" else None
        self.scale = self.initial_scale(hidden_size * init_std**2) if scale == "variance" else 1.0
        self.reset_parameters()

    @torch.no_grad()
    def reset_parameters(self) -> None:
        """Initialise the parameters as the class says."""
        if self.gate is not None:
            self.gate.zero_()
        if self.exponent is not None and self.exponent_start is not None:
            self.exponent.fill_(self.exponent_start)
        if self.projection is not None:
            self.projection.normal_(std=self.projection.shape[1] ** -0.5)

    def initial_scale(self, power: float) -> float:
        """Return the constant that gives the bound vector the variance σ² of the word table, before training.

        `1 / √(E|P|²)`, the mean over tables of N(0, σ²), with `power = Dσ²` the mean of `|W|²`; for phase, σ√D. Of
        magnitudes power: `E|P|^{2β} = (Dσ²)^β Γ(1 + β)`, exact except for DC and Nyquist, whose spectra are real.
        """
        if self.magnitudes == "phase":
            return power**0.5
        if self.exponent_start is not None:
            return (power**self.exponent_start * math.gamma(1 + self.exponent_start)) ** -0.5
        means = {"word": 1.0, "token_type": power, "position": self._mean_position(power)}
        return math.prod(means[name] for name in self.sources) ** -0.5

    def _mean_position(self, power: float) -> float:
        if self.magnitudes == "unit" or self.positions != "table":
            return 1.0
        return 1 + power if self.start == "delta" else power

    def forward(self, word: Tensor, position: Tensor, token_type: Tensor, mask: Tensor | None = None) -> Tensor:
        spectra = [self._spectrum(name, source) for name, source in self.chosen(word, position, token_type).items()]
        product = math.prod(spectra[1:], start=spectra[0])
        if self.projection is None:
            bound = torch.fft.irfft(product, n=word.shape[-1]).to(word.dtype)
        else:
            parts = torch.cat([product.real, product.imag], dim=-1).to(word.dtype)
            bound = nn.functional.linear(parts, self.projection)
        if self.scale != 1.0:
            bound = bound * self.scale
        if self.gate is not None:
            return torch.addcmul(added(word, position, token_type), self.gate, bound)
        return bound + token_type if self.adds_token_type else bound

    def _spectrum(self, name: Table, source: Tensor) -> Tensor:
        source = source.float() if source.dtype in (torch.float16, torch.bfloat16) else source
        spectrum: Tensor = torch.fft.rfft(self.normalised(source))
        if name == "position" and self.start == "delta":
            spectrum = spectrum + 1
        if self.magnitudes == "phase" or (self.magnitudes == "unit" and name == "position"):
            return spectrum.sgn()
        if self.exponent is not None and name == "position":
            magnitude = spectrum.abs().clamp_min(torch.finfo(source.dtype).tiny)
            return spectrum.sgn() * magnitude ** _Bounded.apply(self.exponent).to(magnitude.dtype)
        return spectrum


class _Bounded(torch.autograd.Function):
    """Clamp a parameter to [0, 1]; beyond a bound, only a gradient that leads back passes, so that none is stuck."""

    @staticmethod
    def forward(ctx: Any, value: Tensor) -> Tensor:
        ctx.save_for_backward(value)
        return value.clamp(0, 1)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> Tensor:
        (value,) = ctx.saved_tensors
        return grad * ((value > 0) | (grad < 0)) * ((value < 1) | (grad > 0))
