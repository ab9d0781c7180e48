"""The whole of params.yaml, and one cell of a study."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from isoscope.config.base import Below, Count, Fraction, Level, Name, Section, Seed, Share
from isoscope.config.data import Data
from isoscope.config.extraction import Extraction, Measures
from isoscope.config.model import Model
from isoscope.config.objective import ClassificationObjective
from isoscope.config.penalty import Built
from isoscope.config.searching import Search
from isoscope.config.training import Training

Look = Literal["inside", "chart"]


class Study(Section):
    """A cross of axes over seeds on one task."""

    task: Name
    """Task, an overlay `variants/task/<task>.yaml`."""
    settings: Annotated[tuple[Name, ...], Field(strict=False)]
    """Overlays `variants/settings/<name>.yaml` laid over params.yaml before the axes' own: what all arms share."""
    axes: Annotated[dict[Name, Annotated[tuple[Name, ...], Field(strict=False)]], Field(min_length=1)]
    """Axis → values; each value is an overlay `variants/<axis>/<value>.yaml`; the first value is the reference. A study
    that is not run may have none.
    """
    seeds: Annotated[tuple[Seed, ...], Field(strict=False)]
    """Seeds of every arm, each once; none means the study is not run."""
    looks: Annotated[tuple[Look, ...], Field(strict=False)]
    """What is shown beside the comparison of its arms: `inside` (hidden states, and what is measured in them), `chart`
    (arms over training, beside published figures).
    """

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} name one twice")
        for axis, values in self.axes.items():
            if self.seeds and not values:
                raise ValueError(f"axes.{axis} has no values, but the study has seeds")
        return self

    def looked_at(self, look: Look) -> Self:
        """The study as a stage for one of its looks has it: without seeds, where it is not asked for."""
        return self if look in self.looks else self.model_copy(update={"seeds": ()})


class Phases(Section):
    """Thresholds that name the phases of a training run, in standard errors of a probe's accuracy."""

    snapshots: Count
    """Snapshots of a run below which no phase is named."""
    chance: Annotated[float, Field(ge=0, le=10)]
    """Separability within so many standard errors of chance is no structure."""
    best: Annotated[float, Field(ge=0, le=10)]
    """Separability within so many standard errors of the run's best is the maximum."""
    fall: Fraction
    """Share of the best separability above chance that has to be lost for late homogenisation."""


class Analysis(Section):
    """How runs are compared."""

    confidence: Level
    """Coverage of intervals."""
    power: Level
    """Power at which the minimum detectable effect is stated."""
    margin: Fraction
    """Smallest difference between two arms that counts, in the metric's own unit; used by verdicts."""
    phases: Phases


class Reproduction(Section):
    """How a study's end of training is held against published figures."""

    last: Share
    """Share of a run's updates and evaluations that its averages are over, the last ones."""
    tolerance: Share
    """Largest difference from a published share that is taken for agreement, where other arms' are twice as far off."""


class Report(Section):
    """What the report says of itself."""

    title: Annotated[str, Field(min_length=1)] | None
    """Heading of the page; null: the studies that it shows."""


class Root(Section):
    """What stands in params.yaml beside the sections that overlays complete."""

    plugins: Annotated[tuple[Below, ...], Field(strict=False)]
    """Python files below plugins/ with fusions, penalties, data sets or measures of your own."""
    tasks: Annotated[tuple[Name, ...], Field(min_length=1, strict=False)]
    """Tasks to prepare; the task of every study that has seeds must be among them."""
    studies: dict[Name, Study]
    search: Search | None
    """What `isoscope search` does; null: nothing is searched."""
    extraction: Extraction
    measures: Measures
    analysis: Analysis
    reproduction: Reproduction
    report: Report


class Kind(Section):
    """A choice that plugins add."""

    kind: str


class Cell(Section):
    """One arm with one seed, fully resolved."""

    data: Data
    model: Model
    objective: ClassificationObjective
    """What the model is trained for."""
    penalty: Annotated[Built, Field(discriminator="kind")]
    observers: Annotated[dict[Name, Kind], Field(max_length=0)]
    """Your own observers (docs/plugins.md), by names of your choice: what looks at a run and changes nothing in it."""
    training: Training
