"""The sections `objective` and `penalty`: what a model is trained for, and a loss term on its geometry."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Probability, Section, Share


class Language(Section):
    """A language model, trained with cross-entropy; its loss is in nats per predicted token."""

    tied: bool
    """Predict with the word table as the output matrix; false: with a matrix of its own, and a translation model with a
    word table per stack.
    """


class Sided(Language):
    """A language model of one side of a task."""

    side: Literal["source", "target"]
    """Side of a task of pairs: sentence1 or sentence2. A task of single sentences has one side under both names."""


class Masked(Sided):
    """Masked language modelling (MLM): predict chosen tokens, mostly replaced by [MASK], from both sides."""

    kind: Literal["masked"]
    rate: Share
    """Share of a sentence's tokens to predict; at least one token."""
    masked: Annotated[float, Field(ge=0, le=1)]
    """Share of these that are replaced by [MASK]."""
    random: Annotated[float, Field(ge=0, le=1)]
    """Share of these that are replaced by a random token; the others stay as they are."""

    def _conflicts(self) -> Conflicts:
        total = self.masked + self.random
        yield total > 1 + 1e-9, f"masked {self.masked} and random {self.random} add up to more than 1"


class Causal(Sided):
    """Causal language modelling (CLM): predict each token from those before it."""

    kind: Literal["causal"]
    share: Share
    """Share of a sentence's tokens whose prediction counts, drawn at random; 1: all of them."""


class Translation(Language):
    """Translation from the source to the target side of a task of pairs, by an encoder-decoder."""

    kind: Literal["translation"]
    beams: Count
    """Width of the beam search for translations of the test split; 1: greedy."""
    sentences: Count | None
    """Test sentences to translate for BLEU; null: all."""
    tokenize: Literal["13a", "intl", "zh", "ja-mecab", "ko-mecab", "char", "none"] | None = None
    """Words of BLEU, as sacrebleu names them; null: by the script of the task's target side (zh for Chinese, ja-mecab,
    ko-mecab, char for Thai, Lao, Khmer and Burmese, else 13a).
    """


class Alignment(Section):
    """A hybrid's encoder learns to give the states of the decoder's own encoder; needs `encoder.kind: hybrid`."""

    kind: Literal["alignment"]
    anchor: Annotated[float, Field(ge=0, le=1000)]
    """Weight of the squared distance from the states that it started with."""


Objective = Masked | Causal | Translation | Alignment
"""Options of a built-in objective; those of an objective with a target per text are in its module of metrics."""


class Points(Section):
    """Representations of a batch that the penalty uses."""

    layer: Annotated[int, Field(ge=-1)]
    """Layer of hidden states, 0 after the embedding block; -1 for the last."""
    vectors: Literal["first", "mean", "tokens"]
    """first: [CLS]; mean: mean over all tokens, special tokens included; tokens: every token except padding."""
    most: Count | None
    """Maximum points per global batch, drawn at each update; null: all. Cost may grow with their square."""


class NoPenalty(Section):
    """No penalty: the task's loss only."""

    kind: Literal["none"]


class Weighted(Section):
    """Options of every penalty."""

    weight: Annotated[float, Field(ge=-1e6, le=1e6)]
    """Weight of the penalty in the loss; 0: computed, without effect on training."""
    warmup: Probability
    """Share of all updates over which the weight rises linearly from 0."""
    points: Points


class PersistentEntropyPenalty(Weighted):
    """Negative persistent entropy of H0 bars: favours bars of equal length."""

    kind: Literal["persistent_entropy"]
    clouds: Literal["class", "batch", "shuffled"]
    """class: a barcode per class; batch: a barcode of all points; shuffled: per class, with shuffled labels."""
    selection: Literal["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]
    """Bars in the entropy: all; the bars that a published rule selects as features; k longest, random or shortest."""
    k: Count | None
    """Number of bars for `top-k`, `random-k` and `shortest-k`; null: as many as `c-ratio` selects."""
    in_cluster: Annotated[float, Field(ge=0, le=1e6)]
    """Weight of the mean length of unselected bars, relative to `weight`."""

    def _conflicts(self) -> Conflicts:
        return (
            (
                self.k is not None and not self.selection.endswith("-k"),
                f"k {self.k} is not used by selection {self.selection!r}: set it to null",
            ),
            (
                self.selection == "all" and self.in_cluster != 0,
                "in_cluster needs unselected bars, and selection 'all' leaves none: set it to 0",
            ),
        )


class CosinePenalty(Weighted):
    """Sum of cosines between all pairs of points, divided by the squared number of points."""

    kind: Literal["cosine"]


class SpectrumPenalty(Weighted):
    """Distance of the points' singular values from a slowly decaying prior."""

    kind: Literal["spectrum"]
    prior: Literal["exponential", "polynomial"]
    """exponential: exp(-rate · (k - 1)^power); polynomial: k^-power."""
    rate: Annotated[float, Field(ge=1e-6, le=1000)]
    """Rate of the exponential prior."""
    power: Annotated[float, Field(ge=1e-6, le=100)]
    """Power of the exponential or polynomial prior."""


class IsoScorePenalty(Weighted):
    """One minus IsoScore* (I-STAR); a negative weight concentrates variance in fewer directions."""

    kind: Literal["isoscore"]
    zeta: Annotated[float, Field(ge=0, le=1)]
    """Share of the reference covariance in the scored covariance."""
    reference: Annotated[int, Field(ge=2)] | None
    """Maximum training points of the reference covariance, estimated before each epoch; null: no reference."""

    def _conflicts(self) -> Conflicts:
        return (
            (
                (self.reference is None) != (self.zeta == 0),
                f"zeta {self.zeta} and reference {self.reference}: set both, or zeta 0 and reference null",
            ),
            (
                self.reference is not None and self.points.vectors == "tokens",
                "reference needs one point per sentence: set points.vectors to 'first' or 'mean'",
            ),
        )


Penalty = NoPenalty | PersistentEntropyPenalty | CosinePenalty | SpectrumPenalty | IsoScorePenalty
"""Options of a built-in penalty."""
OBJECTIVES: tuple[type[Section], ...] = get_args(Objective)
PENALTIES: tuple[type[Section], ...] = get_args(Penalty)
