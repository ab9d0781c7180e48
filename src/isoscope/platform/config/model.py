"""The section `model`: the encoder and how its word and position embeddings are fused."""

from typing import Annotated, Any, Literal

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Name, PlainName, Probability, Section

Deviation = Annotated[float, Field(ge=1e-6, le=100)]
CheckpointName = Annotated[str, Field(pattern=r"^[\w.-]+(/[\w.-]+)?$")]


class Published(Section):
    """A checkpoint on the hub."""

    checkpoint: CheckpointName
    """Name on the hub; folders of ISOSCOPE_HUB are searched first."""
    revision: str
    """Commit, tag or branch on the hub."""


class TaskTokenizer(Section):
    """The WordPiece trained on the task by `prepare`."""

    kind: Literal["task"]


class CheckpointTokenizer(Published):
    """The tokenizer of a published checkpoint, without its weights."""

    kind: Literal["checkpoint"]


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
    activation: Literal["gelu", "relu"]
    """Activation of the feed-forward block."""
    norm: Literal["post", "pre"]
    """LayerNorm after each block and its residual (BERT), or before each block and once after the last layer."""
    positions: Literal["learned", "sinusoidal"]
    """Position table: learned, or fixed sines and cosines of the same root mean square."""
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

    def _conflicts(self) -> Conflicts:
        yield (
            bool(self.hidden_size % self.heads),
            f"hidden_size {self.hidden_size} must be a multiple of heads {self.heads}",
        )


class Pretrained(Published):
    """A published encoder or decoder with its own tokenizer. If it has no position table: fusion native."""

    kind: Literal["pretrained"]


class TrainedModel(Section):
    """The selected checkpoint of a run of a study. The run is trained first if it is not finished."""

    study: Name
    arm: PlainName
    seed: Literal["same", "next"]
    """Its seed: that of the run that starts from it, or the next larger seed of its study (else the smallest)."""


class Continued(TrainedModel):
    """The model of another run, trained on; objective and tokenizer must fit it."""

    kind: Literal["run"]


class HybridEncoder(TrainedModel):
    """The encoder of a run's model; of a translation model, the encoder alone."""

    weights: Literal["trained", "random"]
    """random: the same architecture with new random weights."""


class IdentityMap(Section):
    """No change: the decoder reads the encoder's states as they are; both have one width."""

    kind: Literal["identity"]


class RandomMap(Section):
    """A new linear map, drawn as other matrices are."""

    kind: Literal["random"]


class RotationMap(Section):
    """A rotation by one angle in random orthogonal planes; both have one width."""

    kind: Literal["rotation"]
    degrees: Annotated[float, Field(ge=0, le=180)]
    """The angle."""


class ProcrustesMap(Section):
    """The rotation, scaling and shift that fit best, by least squares on the tokens of the same sentences."""

    kind: Literal["procrustes"]
    sentences: Count
    """Sentences of the train split to fit the map on."""


class RidgeMap(Section):
    """The linear map that fits best, with a penalty on its squared weights."""

    kind: Literal["ridge"]
    sentences: Annotated[int, Field(ge=10)]
    """Sentences of the train split: the first four fifths fit the map, the others choose the strength."""
    strengths: Annotated[tuple[Annotated[float, Field(gt=0)], ...], Field(strict=False, min_length=1)]
    """Strengths of the penalty to choose from, relative to the mean variance of the encoder's dimensions."""


class Hybrid(Section):
    """An encoder, a linear map of its last states, and the decoder of a translation model.

    The map leads to the states that the decoder was trained with: those of its own encoder. The encoder has a word
    table of its own.
    """

    kind: Literal["hybrid"]
    encoder: HybridEncoder
    layer: Count | None
    """Last layer of the encoder, whose states are mapped; null: all layers."""
    decoder: TrainedModel
    """The translation model."""
    map: Annotated[IdentityMap | RandomMap | RotationMap | ProcrustesMap | RidgeMap, Field(discriminator="kind")]


class Model(Section):
    """The encoder and how its embeddings are fused."""

    encoder: Annotated[Scratch | Pretrained | Continued | Hybrid, Field(discriminator="kind")]
    fusion: Any  # a kind of the registry of fusions: `cell_type` gives its type
    max_length: Annotated[int, Field(ge=4)]
    """Maximum input length in tokens; longer text is truncated."""

    @property
    def starts(self) -> dict[str, TrainedModel]:
        """The runs that a run with this model starts from, by their part: `model`, or `encoder` and `decoder`."""
        match self.encoder:
            case Continued():
                return {"model": self.encoder}
            case Hybrid():
                return {"encoder": self.encoder.encoder, "decoder": self.encoder.decoder}
        return {}

    def _conflicts(self) -> Conflicts:
        if isinstance(self.encoder, Scratch):
            most = self.encoder.max_positions
            yield self.max_length > most, f"max_length {self.max_length} exceeds encoder.max_positions {most}"
        elif isinstance(self.encoder, Pretrained):
            yield (
                getattr(self.fusion, "scale", "none") == "variance",
                "fusion.scale 'variance' needs an encoder from scratch, with tables of known variance",
            )
