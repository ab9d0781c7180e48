"""The section `penalty`: a loss term on the geometry of representations."""

from typing import Annotated, Literal, get_args

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Probability, Section


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


Built = NoPenalty | PersistentEntropyPenalty | CosinePenalty | SpectrumPenalty | IsoScorePenalty
BUILT_IN: tuple[type[Section], ...] = get_args(Built)
