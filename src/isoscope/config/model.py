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
    """roberta: a first token's position is the one behind the padding's, and its classifier has no pooler before it."""
    layers: Count
    """Transformer layers."""
    hidden_size: Count
    """Width of a hidden state."""
    heads: Count
    """Attention heads; must divide hidden_size."""
    intermediate_size: Count
    """Width of the feed-forward block."""
    max_positions: Count
    """The longest input in tokens, each with a row of the position table."""
    dropout: Probability
    """Dropout of embeddings, hidden states and classifier."""
    attention_dropout: Probability
    """Dropout of attention probabilities."""
    init_std: Deviation
    """Standard deviation of the word, position and token-type tables at the start."""
    initializer_range: Deviation
    """Standard deviation of all other weight matrices at the start."""
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
    """What the two convolutions share."""

    sources: Annotated[tuple[Table, ...], Field(min_length=2, strict=False)]
    """Tables that are fused."""
    token_type: Literal["add", "ignore"]
    """Whether the token-type embedding is added after the fusion, when it is not a source."""
    normalisation: Literal["none", "l2"]
    """Whether each source vector is scaled to unit length first."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        if len(set(self.sources)) < len(self.sources):
            raise ValueError(f"sources {list(self.sources)} names a table twice")
        if not {"word", "position"} <= set(self.sources):
            raise ValueError(f"sources {list(self.sources)} must name word and position")
        if "token_type" in self.sources and self.token_type == "add":
            raise ValueError("token_type 'add' would count the token type twice: it is one of the sources")
        return self

    @property
    def drops_token_type(self) -> bool:
        """Whether the token-type embedding is left out altogether."""
        return self.token_type == "ignore" and "token_type" not in self.sources


class Conv2d(Sources):
    """A convolution over (sequence, hidden) whose channels are the sources."""

    kind: Literal["conv2d"]
    start: Literal["random", "identity", "residual"]
    """random: the source's kernel; identity: delta kernel, equal to adding; residual: w + t + p + g·f with g = 0."""
    kernel_size: Annotated[tuple[Count, Count], Field(strict=False)]
    """Odd extents over positions and over hidden dimensions."""
    activation: Literal["gelu", "none"]
    """Applied to the convolution's output."""
    bias: bool
    """Whether the convolution has a bias."""
    gate: Annotated[float, Field(ge=0, le=1)] | None
    """Start of the learned gate r in (1 − r)(w + p) + r·conv; null for none."""

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
    """Circular convolution of the sources along the hidden axis: the inverse transform of the product of spectra."""

    kind: Literal["fft"]
    start: Literal["random", "residual"]
    """random: the source's product; residual: w + t + p + g·f with g = 0 at the start."""

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
    """Longest input in tokens; longer text is cut."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if isinstance(self.encoder, Scratch) and self.max_length > self.encoder.max_positions:
            raise ValueError(f"max_length {self.max_length} exceeds encoder.max_positions {self.encoder.max_positions}")
        return self
