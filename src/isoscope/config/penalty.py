"""The section `penalty`: what beside the task's loss is asked of the geometry of representations."""

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from isoscope.config.base import Count, Probability, Section


class Points(Section):
    """Which representations of a batch are looked at."""

    layer: Annotated[int, Field(ge=-1)]
    """Layer of hidden states, 0 after the embedding block; -1 for the last."""
    vectors: Literal["first", "mean", "tokens"]
    """first: [CLS]; mean: over a sentence's tokens, special ones included; tokens: every token, padding left out."""
    most: Count | None
    """Points of an effective batch at most, drawn anew at each update; null for all. Costs may grow as their square."""


class NoPenalty(Section):
    """The task's loss alone."""

    kind: Literal["none"]


class Weighted(Section):
    """What every penalty has."""

    weight: Annotated[float, Field(ge=-1e6, le=1e6)]
    """Times the penalty, added to the mean loss of the batch; 0 computes it and changes nothing."""
    warmup: Probability
    """Share of all updates over which the weight rises from 0, evenly."""
    points: Points


class PersistentEntropyPenalty(Weighted):
    """Minus the persistent entropy of H0 bars, so that they grow alike."""

    kind: Literal["persistent_entropy"]
    clouds: Literal["class", "batch", "shuffled"]
    """class: a barcode per class; batch: one of all points; shuffled: per class, with the batch's labels shuffled."""
    selection: Literal["all", "c-ratio", "relative-entropy", "top-k", "random-k", "shortest-k"]
    """Bars that count: all; those that a published rule takes for features; k of the longest, any, or the shortest."""
    k: Count | None
    """Bars of `top-k`, `random-k` and `shortest-k`; null for as many as `c-ratio` keeps."""
    in_cluster: Annotated[float, Field(ge=0, le=1e6)]
    """Weight, before `weight`, of the mean length of the bars that do not count."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.k is not None and not self.selection.endswith("-k"):
            raise ValueError(f"k {self.k} means nothing to selection {self.selection!r}: set it to null")
        if self.selection == "all" and self.in_cluster:
            raise ValueError("in_cluster needs bars that do not count, and selection 'all' leaves none: set it to 0")
        return self


class CosinePenalty(Weighted):
    """The sum of cosines between all pairs of points, by their number squared."""

    kind: Literal["cosine"]


class SpectrumPenalty(Weighted):
    """The distance of the points' singular values from a slowly falling prior."""

    kind: Literal["spectrum"]
    prior: Literal["exponential", "polynomial"]
    """exponential: exp(-rate · (k - 1)^power); polynomial: k^-power."""
    rate: Annotated[float, Field(ge=1e-6, le=1000)]
    """Rate of the exponential prior."""
    power: Annotated[float, Field(ge=1e-6, le=100)]
    """Power of either prior."""


class IsoScorePenalty(Weighted):
    """One minus IsoScore*; with a negative weight variance gathers in fewer directions (I-STAR)."""

    kind: Literal["isoscore"]
    zeta: Annotated[float, Field(ge=0, le=1)]
    """Share of the reference covariance in the covariance that is scored."""
    reference: Annotated[int, Field(ge=2)] | None
    """Training points, at most, of the reference covariance, estimated anew before each epoch; null for none."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.reference is None) != (self.zeta == 0):
            raise ValueError(f"zeta {self.zeta} and reference {self.reference}: either both, or zeta 0 and null")
        if self.reference is not None and self.points.vectors == "tokens":
            raise ValueError("reference takes a point per sentence: set points.vectors to 'first' or 'mean'")
        return self


Built = NoPenalty | PersistentEntropyPenalty | CosinePenalty | SpectrumPenalty | IsoScorePenalty
PENALTIES: tuple[type[Section], ...] = get_args(Built)
