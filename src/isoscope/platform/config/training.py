"""The section `training`: optimisation, monitoring, checkpoints and snapshots."""

import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from isoscope.platform.config.base import Below, Conflicts, Count, Fraction, Probability, Section, Share

_ON_THE_HUB = re.compile(r"[\w.-]+(/[\w.-]+)?")
LearningRate = Annotated[float, Field(ge=1e-12, le=10)]


class Schedule(Section):
    """The learning rate over the steps: linear warm-up, then decay to zero."""

    kind: Literal["linear", "cosine"]
    """Shape of the decay."""
    warmup: Probability
    """Share of the schedule's steps spent on warm-up."""
    epochs: Count | None
    """Length of the schedule in epochs, at least `training.epochs`; null: `training.epochs`."""


class Budget(Section):
    """What a run may spend; it ends with the update that reaches it, also within an epoch."""

    kind: Literal["updates", "tokens", "predictions"]
    """updates; tokens that the model reads; or tokens that it predicts (of a classifier: examples)."""
    number: Annotated[int, Field(ge=0)]
    """How many of them; 0: the model is only evaluated."""


class Snapshots(Section):
    """Weights stored during training, for analyses of training dynamics."""

    steps: Literal["none", "powers"] | Count
    """powers: at steps 0, 1, 2, 4, 8, …; a number n: at step 0 and every n-th step."""
    epochs: bool
    """Store a snapshot after every epoch."""


class Watch(Section):
    """Anisotropy of representations, monitored during training."""

    layer: Annotated[int, Field(ge=-1)]
    """Layer of hidden states, 0 after the embedding block; -1 for the last."""
    vectors: Literal["first", "mean"]
    """first: [CLS]; mean: mean over a sentence's tokens."""
    sample: Annotated[int, Field(ge=4)]
    """Number of validation sentences, the same at every evaluation and in every run."""
    clusters: Annotated[int, Field(ge=2)]
    """Number of k-means clusters; anisotropy within clusters uses points minus their cluster mean."""


class Intervals(Section):
    """How the change of the loss of fixed sentences is integrated over intervals of updates."""

    sentences: Annotated[int, Field(ge=16, le=4096)]
    """Sentences of the train split, and as many of validation (fewer if the split has fewer), the same in every run."""
    estimator: Literal["first_order", "trapezoid", "simpson"]
    """Rule of the path integral: gradient at the start only; at both ends; at both ends and the middle. Under
    `tolerance`, `simpson` leaves the middle out where both ends close within a quarter of it."""
    tolerance: Annotated[float, Field(ge=1e-9, le=10)] | None
    """Split an interval until |ΣA − ΔL| is at most this, in nats; null: no further splits."""
    most_splits: Annotated[int, Field(ge=2, le=64)]
    """Largest number of parts of an interval under `tolerance`."""
    dense: Annotated[int, Field(ge=0)]
    """Every update up to this is an interval of its own."""
    chords: Annotated[int, Field(ge=0)]
    """Log-spaced intervals after `dense`, up to the last planned update."""

    def _conflicts(self) -> Conflicts:
        return (
            (self.dense + self.chords == 0, "dense and chords are both 0: no interval; set chords to 100"),
            (
                self.estimator == "first_order" and self.tolerance is not None,
                "estimator first_order has no splits; set tolerance to null",
            ),
        )


class Allocation(Intervals):
    """Loss change allocation: how much each group of parameters changed the loss of fixed sentences, by interval."""

    folds: Annotated[int, Field(ge=2, le=32)]
    """Parts of each set, for standard errors with folds − 1 degrees of freedom. A copy of the gradient per fold and set
    is kept. Folds are evaluated at the ends of intervals."""
    heads: bool
    """Split attention by head; false makes the tables several times smaller, e.g. for a large `dense`."""
    minibatch: bool
    """Also multiply each update by the gradient of its own batch, as in Vázquez et al. 2022. It needs no pass, but is
    another quantity: it does not sum to a change of loss and is negative nearly by construction. The gradient of a
    penalty is part of it."""
    parts: bool
    """Split intervals of one update into AdamW's new gradient, momentum from earlier updates, and weight decay."""

    def _conflicts(self) -> Conflicts:
        folds = (self.folds > self.sentences, f"folds {self.folds} exceed sentences {self.sentences}")
        return (folds, *super()._conflicts())


class Slices(Intervals):
    """Allocation of the loss of each class of predicted tokens, by frequency and by the context that predicts them."""

    probability: Fraction
    """A unigram or a bigram of the train split predicts a token if its probability is at least this."""


class Freeze(Section):
    """Groups of parameters that do not learn during some updates."""

    after: Annotated[int, Field(ge=0)]
    """The last update before these; 0: from the start."""
    until: Count | None
    """The last of these updates; null: to the end."""
    groups: Annotated[tuple[Annotated[str, Field(min_length=1)], ...], Field(strict=False, min_length=1)]
    """Stack, layer and component of each, such as enc.0.W1; stack and component outside the layers: shared.emb; or a
    whole layer or stack: enc.0, dec."""

    def _conflicts(self) -> Conflicts:
        until = self.until
        yield until is not None and until <= self.after, f"until {until} is not after update {self.after}"


class FrozenHead(Section):
    """A baseline: the encoder as it starts, frozen, with a linear head."""

    most: Annotated[int, Field(ge=10)]
    """The head is fitted on at most so many rows of the train split."""


class Training(Section):
    """Optimisation, monitoring, checkpoints and snapshots."""

    epochs: Count
    """Maximum passes over the train split."""
    budget: Budget | None
    """Ends the run before `epochs` do; the learning rate then reaches its end with the budget. null: whole epochs."""
    fraction: Share
    """Share of the train split to train on, stratified by class, drawn with the run's seed."""
    batch_size: Count
    """Examples per update over all devices and accumulation steps."""
    accumulation: Count
    """Micro-batches per update."""
    bucket: Count
    """Batches per length-sorted bucket; 1: no sorting. Larger buckets: less padding, less random batches."""
    learning_rate: LearningRate
    """Peak learning rate of AdamW."""
    fusion_lr: LearningRate | None
    """Peak learning rate of the fusion's parameters; null: learning_rate."""
    weight_decay: Annotated[float, Field(ge=0, le=100)]
    """Decoupled weight decay of matrices (not of biases, normalisations and the fusion)."""
    adam_betas: Annotated[tuple[Probability, Probability], Field(strict=False)]
    """Decay rates of AdamW's two moments."""
    adam_epsilon: Annotated[float, Field(ge=1e-30, le=1)]
    """Epsilon in AdamW's denominator."""
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)] | None
    """Maximum L2 norm of the gradient; null: no clipping."""
    schedule: Schedule
    select: Annotated[str, Field(min_length=1)]
    """Validation metric that selects the best epoch (the first on a tie); the objective must declare it."""
    metrics: Annotated[tuple[Below, ...], Field(strict=False)] = ()
    """Further metrics of the library evaluate, of an objective with a target per text: names on the hub, or files such
    as plugins/mine.py. They are computed at each evaluation."""
    patience: Count | None
    """Early stopping after this many epochs without a better `select`; null: no early stopping."""
    determinism: Literal["off", "seeded", "strict"]
    """off: benchmarked kernels, unseeded dropout; seeded: every random draw repeats; strict: also deterministic kernels
    only, an error if an operation has none."""
    precision: Literal["fp32", "bf16"]
    """Precision of the forward pass; weights stay fp32."""
    device: Literal["auto", "cpu", "cuda"]
    """Training device. auto: a GPU where there is one; cuda: an absent GPU is an error, never replaced."""
    threads: Count | None
    """CPU threads per process; null: torch's default."""
    keep: Literal["all", "best", "last"]
    """Epochs whose checkpoints are kept."""
    snapshots: Snapshots
    evaluations: Count
    """Evaluations of the validation split per epoch, evenly spaced, the last at the end of the epoch."""
    watch: Watch | None
    """Anisotropy of the batch at every logged step and of a fixed sample at every evaluation; null: not monitored."""
    allocation: Allocation | None
    """Loss change allocation during training, written to allocation.parquet; null: none."""
    slices: Slices | None
    """The same by classes of predicted tokens, of a language model, written to slices.parquet; null: none."""
    freeze: Freeze | None
    """Groups of parameters that are neither moved nor decayed during some updates; null: none."""
    frozen_head: FrozenHead | None
    """The encoder as it starts, with a linear head, as a baseline of the study; null: none."""
    log_every: Count
    """Steps between logged values of loss, gradient norm, learning rate, penalty and monitored anisotropy."""
    checkpoint_every: Count
    """Steps between resumable states; the end of an epoch always writes a state."""
    keep_state: bool = False
    """Keep the last state of a finished run, so that a run of more epochs can start from it. No part of the run."""

    def _conflicts(self) -> Conflicts:
        length = self.schedule.epochs
        files = [one for one in self.metrics if one.endswith(".py")]
        outside = [one for one in files if Path(one).parts[0] != "plugins"]
        unnamed = [one for one in self.metrics if one not in files and not _ON_THE_HUB.fullmatch(one)]
        return (
            (
                bool(outside),
                f"metrics {outside}: outside plugins/, where DVC does not see changes; put it there",
            ),
            (
                bool(unnamed),
                f"metrics {unnamed}: neither a name on the hub, such as f1, nor a file such as plugins/mine.py",
            ),
            (
                length is not None and self.budget is not None,
                f"schedule.epochs {length} and a budget both set the length of the schedule; set one of them to null",
            ),
            (
                self.accumulation > self.batch_size,
                f"accumulation {self.accumulation} exceeds batch_size {self.batch_size}",
            ),
            (
                length is not None and length < self.epochs,
                f"schedule.epochs {length} is less than epochs {self.epochs}",
            ),
        )
