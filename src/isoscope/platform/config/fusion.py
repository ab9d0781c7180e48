"""The options of `model.fusion`: how word, position and token-type embeddings are fused."""

from typing import Annotated, Any, Literal, get_args

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Section

Table = Literal["word", "position", "token_type"]


class Additive(Section):
    """The sum of word, position and token-type embeddings, as in BERT."""

    kind: Literal["additive"]


class Scaled(Section):
    """The same sum with word embeddings times the square root of the hidden size, as in translation models."""

    kind: Literal["scaled"]


class Sources(Section):
    """Options of every fusion of chosen tables."""

    sources: Annotated[tuple[Table, ...], Field(min_length=2, strict=False)]
    """Embedding tables to fuse."""
    token_type: Literal["add", "ignore"]
    """Add or ignore the token-type embedding after the fusion, if it is not in `sources`."""
    normalisation: Literal["none", "l2"]
    """l2: scale each source vector to unit length before the fusion."""

    def _conflicts(self) -> Conflicts:
        distinct = set(self.sources)
        return (
            (len(distinct) < len(self.sources), f"sources {list(self.sources)} names a table twice"),
            (not {"word", "position"} <= distinct, f"sources {list(self.sources)} must name word and position"),
            (
                "token_type" in distinct and self.token_type == "add",
                "token_type 'add' would count the token type twice: it is already in sources",
            ),
        )

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

    def _conflicts(self) -> Conflicts:
        permuted, identity = self.hidden_axes == "permuted", self.start == "identity"
        return (
            *super()._conflicts(),
            (
                any(k % 2 == 0 for k in self.kernel_size),
                f"kernel_size {list(self.kernel_size)} must be odd in both directions",
            ),
            (
                permuted and self.kernel_size[1] == 1,
                "hidden_axes 'permuted' changes nothing for a kernel of width 1 over hidden dimensions",
            ),
            (
                permuted and identity and self.kernel == "frozen",
                "hidden_axes 'permuted' changes nothing for a frozen delta kernel",
            ),
            (
                identity and (self.activation, self.normalisation) != ("none", "none"),
                "start 'identity' needs activation 'none' and normalisation 'none' to equal adding",
            ),
            (
                self.start == "residual" and self.gate is not None,
                "start 'residual' has its own gate: set gate to null",
            ),
            (
                self.start != "random" and self.drops_token_type,
                f"start {self.start!r} equals adding, token type included: set token_type to 'add'",
            ),
        )


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

    def _conflicts(self) -> Conflicts:
        delta, l2 = self.start == "delta", self.normalisation == "l2"
        return (
            *super()._conflicts(),
            (
                self.start == "residual" and self.drops_token_type,
                "start 'residual' equals adding, token type included: set token_type to 'add'",
            ),
            (
                (self.exponent is not None) != (self.magnitudes == "power"),
                f"exponent {self.exponent}: set it for magnitudes 'power', and only there",
            ),
            (l2 and self.magnitudes == "phase", "normalisation 'l2' changes nothing under magnitudes 'phase'"),
            (l2 and delta, "start 'delta' needs normalisation 'none': a small p would be scaled to the size of δ"),
            (
                delta and (self.magnitudes == "phase" or self.output == "complex"),
                "start 'delta' needs output 'real' and not magnitudes 'phase': δ would change the word",
            ),
            (
                self.positions != "table" and self.magnitudes in ("unit", "power"),
                f"magnitudes {self.magnitudes!r} changes nothing: {self.positions} positions have magnitude 1",
            ),
            (
                self.positions != "table" and delta,
                f"start 'delta' needs positions 'table': {self.positions} positions are not small",
            ),
            *(self._scale_conflicts() if self.scale == "variance" else ()),
        )

    def _scale_conflicts(self) -> Conflicts:
        kept = self.magnitudes == "unit" or (self.magnitudes == "product" and self.positions != "table")
        typed = "token_type" in self.sources
        return (
            (  # a residual start needs the token type: this is another start
                self.drops_token_type,
                "scale 'variance' changes nothing before LayerNorm if no token type is added",
            ),
            (self.output == "complex", "scale 'variance' needs output 'real': a matrix has a scale of its own"),
            (self.normalisation == "l2", "scale 'variance' needs normalisation 'none': l2 sets the variance"),
            (
                (kept or self.exponent == 0) and not typed,
                "scale 'variance' changes nothing: positions of magnitude 1 keep the variance",
            ),
            (
                self.magnitudes == "power" and (self.start == "delta" or typed),
                "scale 'variance' of magnitudes 'power' needs sources word and position, and no delta",
            ),
        )


Fusion = Additive | Scaled | Conv2d | Linear | FFT
"""Options of a built-in fusion."""
BUILT_IN: dict[str, type[Section]] = {get_args(one.model_fields["kind"].annotation)[0]: one for one in get_args(Fusion)}
"""The options of each kind."""
EARLIER: dict[str, dict[str, Any]] = {
    "conv2d": {"kernel": "learned", "hidden_axes": "natural"},
    "fft": {"magnitudes": "product", "exponent": None, "positions": "table", "output": "real", "scale": "none"},
}
"""Options that the configurations of earlier checkpoints lack, with the values that those encoders had."""
