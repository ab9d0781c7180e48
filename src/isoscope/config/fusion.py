"""The options of `model.fusion`: how word, position and token-type embeddings are fused."""

from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from isoscope.config.base import Count, Section

Table = Literal["word", "position", "token_type"]


class Additive(Section):
    """The sum of word, position and token-type embeddings, as in BERT."""

    kind: Literal["additive"]


class Sources(Section):
    """Options of every fusion of chosen tables."""

    sources: Annotated[tuple[Table, ...], Field(min_length=2, strict=False)]
    """Embedding tables to fuse."""
    token_type: Literal["add", "ignore"]
    """Add or ignore the token-type embedding after the fusion, if it is not in `sources`."""
    normalisation: Literal["none", "l2"]
    """l2: scale each source vector to unit length before the fusion."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError(f"sources {list(self.sources)} names a table twice")
        if not {"word", "position"} <= set(self.sources):
            raise ValueError(f"sources {list(self.sources)} must name word and position")
        if "token_type" in self.sources and self.token_type == "add":
            raise ValueError("token_type 'add' would count the token type twice: it is already in sources")
        return self

    @property
    def drops_token_type(self) -> bool:
        """Whether the model has no token-type embedding."""
        return self.token_type == "ignore" and "token_type" not in self.sources


class Conv2d(Sources):
    """A convolution over (sequence, hidden) whose channels are the sources."""

    kind: Literal["conv2d"]
    start: Literal["random", "identity", "residual"]
    """random: random kernel of Li 2025 (fusion); identity: delta kernel, equal to the sum; residual: w + t + p + g·f
    with g = 0 initially.
    """
    kernel_size: Annotated[tuple[Count, Count], Field(strict=False)]
    """Kernel size over positions and over hidden dimensions; both odd."""
    kernel: Literal["learned", "frozen"]
    """frozen: the kernel keeps its initial values."""
    hidden_axes: Literal["natural", "permuted"]
    """permuted: the kernel sees the hidden dimensions in a fixed random order; the output is in the natural order."""
    activation: Literal["gelu", "none"]
    """Activation after the convolution."""
    bias: bool
    """Add a bias to the convolution."""
    gate: Annotated[float, Field(ge=0, le=1)] | None
    """Initial value of the learned gate r in (1 − r)(w + p) + r·conv; null: no gate."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if any(k % 2 == 0 for k in self.kernel_size):
            raise ValueError(f"kernel_size {list(self.kernel_size)} must be odd in both directions")
        if self.hidden_axes == "permuted" and self.kernel_size[1] == 1:
            raise ValueError("hidden_axes 'permuted' changes nothing for a kernel of width 1 over hidden dimensions")
        if (self.start, self.kernel, self.hidden_axes) == ("identity", "frozen", "permuted"):
            raise ValueError("hidden_axes 'permuted' changes nothing for a frozen delta kernel")
        if self.start == "identity" and (self.activation, self.normalisation) != ("none", "none"):
            raise ValueError("start 'identity' needs activation 'none' and normalisation 'none' to equal adding")
        if self.start == "residual" and self.gate is not None:
            raise ValueError("start 'residual' has its own gate: set gate to null")
        if self.start != "random" and self.drops_token_type:
            raise ValueError(f"start {self.start!r} equals adding, token type included: set token_type to 'add'")
        return self


class Linear(Sources):
    """A weighted sum of the sources, with a weight per source and block of hidden dimensions."""

    kind: Literal["linear"]
    blocks: Count
    """Blocks of neighbouring hidden dimensions; parameters: sources · blocks."""
    activation: Literal["gelu", "none"]
    """Activation after the sum."""


class FFT(Sources):
    """Circular convolution of the sources along the hidden axis: inverse FFT of the product of their spectra."""

    kind: Literal["fft"]
    start: Literal["random", "residual", "delta"]
    """random: product of Li 2025 (fusion); residual: w + t + p + g·f with g = 0 initially; delta: the position vector
    is δ + p, and binding with δ changes nothing.
    """
    magnitudes: Literal["product", "unit", "power", "phase"]
    """Magnitudes of the bound spectrum. product: |W|·|P|; unit: |W|, position scaled to magnitude 1 at each frequency;
    power: |W|·|P|^β with a learned β; phase: 1.
    """
    exponent: Annotated[float, Field(ge=0, le=1)] | None
    """Initial value of the learned β in [0, 1] of magnitudes 'power'; null for the others."""
    positions: Literal["table", "fractional", "learned"]
    """table: the encoder's position table; fractional: F⁻¹(e^{imθ}) with RoPE's θ; learned: the same, θ learned."""
    output: Literal["real", "complex"]
    """real: the inverse FFT; complex: real and imaginary part of the spectrum, mapped to the hidden size by a learned
    matrix.
    """
    scale: Literal["none", "variance"]
    """variance: multiply the bound vector by the constant that gives it the variance of the initial word table."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.start == "residual" and self.drops_token_type:
            raise ValueError("start 'residual' equals adding, token type included: set token_type to 'add'")
        if (self.exponent is not None) != (self.magnitudes == "power"):
            raise ValueError(f"exponent {self.exponent}: set it for magnitudes 'power', and only there")
        if self.normalisation == "l2" and self.magnitudes == "phase":
            raise ValueError("normalisation 'l2' changes nothing under magnitudes 'phase'")
        if self.normalisation == "l2" and self.start == "delta":
            raise ValueError("start 'delta' needs normalisation 'none': a small p would be scaled to the size of δ")
        if self.start == "delta" and (self.magnitudes == "phase" or self.output == "complex"):
            raise ValueError("start 'delta' needs output 'real' and not magnitudes 'phase': δ would change the word")
        if self.positions != "table":
            if self.magnitudes in ("unit", "power"):
                raise ValueError(
                    f"magnitudes {self.magnitudes!r} changes nothing: {self.positions} positions have magnitude 1"
                )
            if self.start == "delta":
                raise ValueError(f"start 'delta' needs positions 'table': {self.positions} positions are not small")
        if self.scale == "variance":
            self._check_scale()
        return self

    def _check_scale(self) -> None:
        if self.drops_token_type:  # no residual start is left here: it needs the token type
            raise ValueError("scale 'variance' changes nothing before LayerNorm if no token type is added")
        if self.output == "complex":
            raise ValueError("scale 'variance' needs output 'real': a matrix has a scale of its own")
        if self.normalisation == "l2":
            raise ValueError("scale 'variance' needs normalisation 'none': l2 sets the variance")
        kept = self.magnitudes == "unit" or (self.magnitudes == "product" and self.positions != "table")
        if (kept or self.exponent == 0) and "token_type" not in self.sources:
            raise ValueError("scale 'variance' changes nothing: positions of magnitude 1 keep the variance")
        if self.magnitudes == "power" and (self.start == "delta" or "token_type" in self.sources):
            raise ValueError("scale 'variance' of magnitudes 'power' needs sources word and position, and no delta")


Fusion = Additive | Conv2d | Linear | FFT
"""Options of a built-in fusion."""
BUILT_IN: dict[str, type[Section]] = {get_args(one.model_fields["kind"].annotation)[0]: one for one in get_args(Fusion)}
"""The options of each kind."""
EARLIER: dict[str, dict[str, Any]] = {
    "conv2d": {"kernel": "learned", "hidden_axes": "natural"},
    "fft": {"magnitudes": "product", "exponent": None, "positions": "table", "output": "real", "scale": "none"},
}
"""Options that the configurations of earlier checkpoints lack, with the values that those encoders had."""
