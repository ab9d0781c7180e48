"""The section `model`: the encoder and how its word and position embeddings are fused."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from isoscope.config.base import Count, Probability, Section

Table = Literal["word", "position", "token_type"]
Deviation = Annotated[float, Field(ge=1e-6, le=100)]
CheckpointName = Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]


class TaskTokenizer(Section):
    """The WordPiece trained on the task by `prepare`."""

    kind: Literal["task"]


class CheckpointTokenizer(Section):
    """The tokenizer of a published checkpoint, without its weights."""

    kind: Literal["checkpoint"]
    checkpoint: CheckpointName
    """Name on the hub; folders of ISOSCOPE_HUB are searched first."""
    revision: str
    """Commit, tag or branch on the hub."""


class Scratch(Section):
    """An encoder of random weights."""

    kind: Literal["scratch"]
    family: Literal["bert", "roberta"]
    """roberta: positions start after the padding position, and the classifier has no separate pooler."""
    layers: Count
    """Transformer layers."""
    hidden_size: Count
    """Width of a hidden state."""
    heads: Count
    """Attention heads; must divide hidden_size."""
    intermediate_size: Count
    """Width of the feed-forward block."""
    max_positions: Count
    """Rows of the position table: the longest input in tokens."""
    dropout: Probability
    """Dropout of embeddings, hidden states and classifier."""
    attention_dropout: Probability
    """Dropout of attention probabilities."""
    init_std: Deviation
    """Initial standard deviation of the word, position and token-type tables."""
    initializer_range: Deviation
    """Initial standard deviation of all other weight matrices."""
    tokenizer: Annotated[TaskTokenizer | CheckpointTokenizer, Field(discriminator="kind")]

    @model_validator(mode="after")
    def _heads_divide(self) -> Self:
        if self.hidden_size % self.heads:
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}")
        return self


class Pretrained(Section):
    """A published BERT or RoBERTa checkpoint with its own tokenizer."""

    kind: Literal["pretrained"]
    checkpoint: CheckpointName
    """Name on the hub; folders of ISOSCOPE_HUB are searched first."""
    revision: str
    """Commit, tag or branch on the hub."""


class Additive(Section):
    """The sum of word, position and token-type embeddings, as in BERT."""

    kind: Literal["additive"]


class Sources(Section):
    """Options of both convolutions."""

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
        if self.start == "identity" and (self.activation, self.normalisation) != ("none", "none"):
            raise ValueError("start 'identity' needs activation 'none' and normalisation 'none' to equal adding")
        if self.start == "residual" and self.gate is not None:
            raise ValueError("start 'residual' has its own gate: set gate to null")
        if self.start != "random" and self.drops_token_type:
            raise ValueError(f"start {self.start!r} equals adding, token type included: set token_type to 'add'")
        return self


class FFT(Sources):
    """Circular convolution of the sources along the hidden axis: inverse FFT of the product of their spectra."""

    kind: Literal["fft"]
    start: Literal["random", "residual"]
    """random: product of Li 2025 (fusion); residual: w + t + p + g·f with g = 0 initially."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.start == "residual" and self.drops_token_type:
            raise ValueError("start 'residual' equals adding, token type included: set token_type to 'add'")
        return self


class Model(Section):
    """The encoder and how its embeddings are fused."""

    encoder: Annotated[Scratch | Pretrained, Field(discriminator="kind")]
    fusion: Annotated[Additive | Conv2d | FFT, Field(discriminator="kind")]
    max_length: Annotated[int, Field(ge=4)]
    """Maximum input length in tokens; longer text is truncated."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.encoder, Scratch) and self.max_length > self.encoder.max_positions:
            raise ValueError(f"max_length {self.max_length} exceeds encoder.max_positions {self.encoder.max_positions}")
        return self
