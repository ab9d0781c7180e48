"""The options of a comparison of spaces, in params.yaml."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from isoscope.platform.config.base import Conflicts, Count, Name, Section, Seed
from isoscope.platform.config.comparing import Comparison
from isoscope.platform.config.explain import nearest


class SpaceModel(Section):
    """A model of a comparison of spaces: an arm of a study, with all its seeds."""

    study: Name
    """Study that trained it."""
    arm: str
    """Arm of the study: the values of its axes, joined by -."""


class SpaceText(Section):
    """Sentences whose words are compared: a split of a prepared task."""

    task: Name
    """A task of `tasks`."""
    split: Literal["train", "validation", "test"]
    """Split with the sentences."""
    column: Literal["sentence", "sentence1", "sentence2"]
    """Column with the sentences; `sentence1` is the source of a pair."""


class Spaces(Comparison):
    """How alike are the spaces of several models? Every layer against every layer, on the same words."""

    models: Annotated[dict[Name, SpaceModel], Field(min_length=2)]
    """Name → model. Two models are compared at different seeds (if there are two), and two seeds of each."""
    text: SpaceText
    probe: Literal["words", "sentences"]
    """Items to compare: words, or sentences (the mean of their words)."""
    occurrences: Annotated[int, Field(ge=100)]
    """Words to sample."""
    per_sentence: Annotated[int, Field(ge=2)]
    """Maximum words of a sentence."""
    pooling: Literal["mean", "first", "last"]
    """A word's vector: the mean over its tokens, or that of its first or last token."""
    permutations: Annotated[int, Field(ge=2, le=1000)]
    """Permutations of whole sentences, for the null distribution."""
    items: Annotated[int, Field(ge=20)]
    """Sample of RSA and nearest neighbours: one word from each of as many sentences."""
    neighbours: Count
    """Nearest neighbours that are compared: of words of one half of the sentences, among those of the other."""
    components: Count | None
    """Principal components of each space for CCA; null: all."""
    draws: Annotated[int, Field(ge=20)]
    """Draws of the bootstrap over sentences."""
    histogram: Annotated[int, Field(ge=1000)]
    """Pairs of words of each distribution."""
    over_training: Count | None
    """Compare every n-th snapshot too, always the first and the chosen checkpoint, with the chosen checkpoints of the
    next seed of each model; null: only chosen checkpoints."""
    seed: Seed
    """Seed of these draws."""

    def _conflicts(self) -> Conflicts:
        few = 2 * self.neighbours >= self.items  # half of the items are candidates
        yield few, f"neighbours {self.neighbours} must be less than half of items {self.items}"

    @property
    def compared(self) -> tuple[str, ...]:
        """The studies that it reads."""
        return tuple(dict.fromkeys(model.study for model in self.models.values()))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Tasks whose data it reads beside those of its studies."""
        return (self.text.task,)

    def shows(self, study: str, arm: str) -> bool:
        """Return whether an arm is one of the models."""
        return any((model.study, model.arm) == (study, arm) for model in self.models.values())

    def lacks(self, study: str, arms: Mapping[str, Any]) -> str | None:
        """Return which arm a study lacks, or which arm keeps no snapshots; None if nothing is missing."""
        asked = (model.arm for model in self.models.values() if model.study == study)
        for arm in asked:
            if arm not in arms:
                return f"has no arm {arm!r}{nearest(arm, arms)}"
            kept = arms[arm].training.snapshots
            if self.over_training is not None and kept.steps == "none" and not kept.epochs:
                return f"has arm {arm!r} without snapshots; set its training.snapshots.steps, or over_training: null"
        return None


COMPARISON = Spaces
