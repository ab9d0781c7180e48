"""Bind word and position by circular convolution (Plate's holographic binding), with its remedies."""

import math
from typing import Annotated, Any, Literal

from annotated_types import Interval

from isoscope.base.entry import refuse
from isoscope.fusions.tables import Normalisation, Table, Tables, TokenType, check_tables, drops_token_type
from isoscope.plugins import fusion

EARLIER = {"magnitudes": "product", "exponent": None, "positions": "table", "output": "real", "scale": "none"}
"""Options that the configurations of earlier checkpoints lack, with the values that those encoders had."""


def check(o: Any) -> None:
    """Raise `ValueError` if options do not agree."""
    check_tables(o)
    delta, l2 = o.start == "delta", o.normalisation == "l2"
    refuse(
        (
            o.start == "residual" and drops_token_type(o),
            "start 'residual' equals adding, token type included: set token_type to 'add'",
        ),
        (
            (o.exponent is not None) != (o.magnitudes == "power"),
            f"exponent {o.exponent}: set it for magnitudes 'power', and only there",
        ),
        (l2 and o.magnitudes == "phase", "normalisation 'l2' changes nothing under magnitudes 'phase'"),
        (l2 and delta, "start 'delta' needs normalisation 'none': a small p would be scaled to the size of δ"),
        (
            delta and (o.magnitudes == "phase" or o.output == "complex"),
            "start 'delta' needs output 'real' and not magnitudes 'phase': δ would change the word",
        ),
        (
            o.positions != "table" and o.magnitudes in ("unit", "power"),
            f"magnitudes {o.magnitudes!r} changes nothing: {o.positions} positions have magnitude 1",
        ),
        (
            o.positions != "table" and delta,
            f"start 'delta' needs positions 'table': {o.positions} positions are not small",
        ),
    )
    if o.scale == "variance":
        _check_scale(o)


def _check_scale(o: Any) -> None:
    kept = o.magnitudes == "unit" or (o.magnitudes == "product" and o.positions != "table")
    typed = "token_type" in o.sources
    refuse(
        (  # a residual start needs the token type: this is another start
            drops_token_type(o),
            "scale 'variance' changes nothing before LayerNorm if no token type is added",
        ),
        (o.output == "complex", "scale 'variance' needs output 'real': a matrix has a scale of its own"),
        (o.normalisation == "l2", "scale 'variance' needs normalisation 'none': l2 sets the variance"),
        (
            (kept or o.exponent == 0) and not typed,
            "scale 'variance' changes nothing: positions of magnitude 1 keep the variance",
        ),
        (
            o.magnitudes == "power" and (o.start == "delta" or typed),
            "scale 'variance' of magnitudes 'power' needs sources word and position, and no delta",
        ),
    )


@fusion("fft", check=check, earlier=EARLIER)
def fft(
    hidden_size: int,
    init_std: float,
    sources: Tables,
    token_type: TokenType,
    normalisation: Normalisation,
    start: Literal["random", "residual", "delta"],
    magnitudes: Literal["product", "unit", "power", "phase"],
    exponent: Annotated[float, Interval(ge=0, le=1)] | None,
    positions: Literal["table", "fractional", "learned"],
    output: Literal["real", "complex"],
    scale: Literal["none", "variance"],
) -> Any:
    """Circular convolution of the sources along the hidden axis: inverse FFT of the product of their spectra.

    - `start`: random: product of Li 2025 (fusion); residual: w + t + p + g·f with g = 0 initially; delta: the
      position vector is δ + p, and binding with δ changes nothing.
    - `magnitudes`: Magnitudes of the bound spectrum. product: |W|·|P|; unit: |W|, position scaled to magnitude 1 at
      each frequency; power: |W|·|P|^β with a learned β; phase: 1.
    - `exponent`: Initial value of the learned β in [0, 1] of magnitudes 'power'; null for the others.
    - `positions`: table: the encoder's position table; fractional: F⁻¹(e^{imθ}) with RoPE's θ; learned: the same, θ
      learned.
    - `output`: real: the inverse FFT; complex: real and imaginary part of the spectrum, mapped to the hidden size by a
      learned matrix.
    - `scale`: variance: multiply the bound vector by the constant that gives it the variance of the initial word table.
    """
    import torch
    from torch import Tensor, nn

    from isoscope.fusions.sources import Bounded, Sources, added

    class FFT(Sources):
        """`F⁻¹(S)` with `S = Π_c F(source_c)`; `(a ⊛ b)_j = Σ_k a_k b_{(j − k) mod D}`. Then t is added, if asked.

        With W and P the spectra of word and position (Plate 1995; Ganesan et al. 2021 for unit magnitudes; Plate 2003
        for `complex`):

        - `magnitudes` product: `W · P`. unit: `W · P/|P|`. power: `W · P/|P| · |P|^β`. phase: every source has
          magnitude 1. A frequency of magnitude 0 stays 0. `start` delta: P is `1 + F(p)`.
        - `positions` fractional, learned: the embedding block puts `isoscope.models.embeddings` in place of the table.
        - `output` complex: entries of the matrix start with a variance of 1 over the number of inputs.

        Half-precision sources are transformed in fp32, since not every device and width has a half-precision transform.
        Tokens never mix.
        """

        def __init__(self) -> None:
            super().__init__(sources, token_type, normalisation, start)
            self.positions = positions
            self.gate = nn.Parameter(torch.zeros(())) if start == "residual" else None
            self.exponent = None if exponent is None else nn.Parameter(torch.tensor(float(exponent)))
            matrix = torch.empty(hidden_size, 2 * (hidden_size // 2 + 1))
            mapped = output == "complex"
            self.projection = nn.Parameter(matrix.normal_(std=matrix.shape[1] ** -0.5)) if mapped else None
            self.scale = self.initial_scale(hidden_size * init_std**2) if scale == "variance" else 1.0

        def initial_scale(self, power: float) -> float:
            """Return the constant that gives the bound vector the variance σ² of the word table, before training.

            `1 / √(E|P|²)`, the mean over tables of N(0, σ²), with `power = Dσ²` the mean of `|W|²`; for phase, σ√D. Of
            magnitudes power: `E|P|^{2β} = (Dσ²)^β Γ(1 + β)`, exact except for DC and Nyquist, whose spectra are real.
            """
            if magnitudes == "phase":
                return power**0.5
            if exponent is not None:
                return float((power**exponent * math.gamma(1 + exponent)) ** -0.5)
            of_positions = power if start != "delta" else 1 + power
            if magnitudes == "unit" or positions != "table":
                of_positions = 1.0
            means = {"word": 1.0, "token_type": power, "position": of_positions}
            return float(math.prod(means[name] for name in self.sources) ** -0.5)

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
            if name == "position" and start == "delta":
                spectrum = spectrum + 1
            if magnitudes == "phase" or (magnitudes == "unit" and name == "position"):
                return spectrum.sgn()
            if self.exponent is not None and name == "position":
                magnitude = spectrum.abs().clamp_min(torch.finfo(source.dtype).tiny)
                return spectrum.sgn() * magnitude ** Bounded.apply(self.exponent).to(magnitude.dtype)
            return spectrum

    return FFT()
