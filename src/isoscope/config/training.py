"""The section `training`: how a model is optimised, watched and kept."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from isoscope.config.base import Count, Probability, Section, Share

LearningRate = Annotated[float, Field(ge=1e-12, le=10)]


class Schedule(Section):
    """The learning rate over the steps: linear warm-up, then decay to zero."""

    kind: Literal["linear", "cosine"]
    """Shape of the decay."""
    warmup: Probability
    """Share of the schedule's steps that warms up."""
    epochs: Count | None
    """Epochs the schedule is laid out for, at least `training.epochs`; null for as many. The run may end sooner."""


class Freeze(Section):
    """What stays as it is during the first epochs."""

    embeddings: bool
    """Whether the embedding tables are frozen."""
    layers: Annotated[int, Field(ge=0)]
    """How many of the lowest layers are frozen."""
    epochs: Annotated[int, Field(ge=0)]
    """For how many epochs; 0 freezes nothing."""


class Snapshots(Section):
    """Weights kept along the way for the analyses of training dynamics."""

    steps: Literal["none", "powers"] | Count
    """powers: at steps 0, 1, 2, 4, 8, …; a number: at step 0 and every so many."""
    epochs: bool
    """Whether one is kept after every epoch."""


class Watch(Section):
    """Anisotropy of representations while a model is trained."""

    layer: Annotated[int, Field(ge=-1)]
    """Layer of hidden states, 0 after the embedding block; -1 for the last."""
    vectors: Literal["first", "mean"]
    """first: [CLS]; mean: over a sentence's tokens."""
    sample: Annotated[int, Field(ge=4)]
    """Validation sentences, the same at every evaluation and in every run, that figures at a fixed n are of."""
    clusters: Annotated[int, Field(ge=2)]
    """Clusters that k-means finds among them; anisotropy within clusters is of their points about their means."""


class Training(Section):
    """How a model is optimised, watched and kept."""

    epochs: Count
    """Passes over the train split at most."""
    fraction: Share
    """Share of the train split that is trained on, of each class alike, drawn by the run's seed."""
    batch_size: Count
    """Examples per update over all devices and accumulation steps."""
    accumulation: Count
    """Micro-batches an update is split into."""
    bucket: Count
    """Batches that are sorted by length together; 1 shuffles freely."""
    learning_rate: LearningRate
    """Peak learning rate of AdamW."""
    fusion_lr: LearningRate | None
    """Peak learning rate of the fusion's own parameters; null for learning_rate."""
    weight_decay: Annotated[float, Field(ge=0, le=100)]
    """Decoupled weight decay of matrices (not of biases, normalisations and the fusion)."""
    adam_betas: Annotated[tuple[Probability, Probability], Field(strict=False)]
    """Decay rates of AdamW's two moments."""
    adam_epsilon: Annotated[float, Field(ge=1e-30, le=1)]
    """Added to AdamW's denominator."""
    clip_norm: Annotated[float, Field(ge=1e-6, le=1e6)] | None
    """Largest L2 norm of the gradient; null clips nothing."""
    schedule: Schedule
    select: Annotated[str, Field(min_length=1)]
    """Validation metric that chooses the best epoch (the first one, on a tie); one that the objective declares."""
    patience: Count | None
    """Epochs without a better `select` after which training stops; null never stops early."""
    freeze: Freeze
    determinism: Literal["off", "seeded", "strict"]
    """off: fastest kernels by trial, dropout from the system's entropy; seeded: every random draw repeats; strict: and
    only kernels that always give the same bits, an error where there is none."""
    precision: Literal["fp32", "bf16"]
    """Arithmetic of the forward pass; weights stay fp32."""
    device: Literal["cpu", "cuda"]
    """Where to train; an absent device is an error, never replaced."""
    threads: Count | None
    """CPU threads of one process; null leaves torch's own choice."""
    keep: Literal["all", "best", "last"]
    """Which epochs' checkpoints are kept."""
    snapshots: Snapshots
    evaluations: Count
    """Times the validation split is scored in an epoch, evenly spaced, the last time at its end."""
    watch: Watch | None
    """Anisotropy at every logged step, of the batch, and at every evaluation, of a fixed sample; null for neither."""
    log_every: Count
    """Steps between two logged points of loss, gradient norm, learning rate, penalty and watched anisotropy."""
    checkpoint_every: Count
    """Steps between two states one can resume from; the end of an epoch always writes one."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.accumulation > self.batch_size:
            raise ValueError(f"accumulation {self.accumulation} exceeds batch_size {self.batch_size}")
        if self.schedule.epochs is not None and self.schedule.epochs < self.epochs:
            raise ValueError(f"schedule.epochs {self.schedule.epochs} is less than epochs {self.epochs}")
        return self
