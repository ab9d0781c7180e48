"""The whole of params.yaml, and one cell of a study."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from isoscope.config.base import Below, Fraction, Name, Positive, Section, Seed
from isoscope.config.data import Data
from isoscope.config.inspection import Extraction, Measures
from isoscope.config.model import Model
from isoscope.config.penalty import Built
from isoscope.config.search import Search
from isoscope.config.training import Training


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

    @model_validator(mode="after")
    def _once(self) -> Self:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} name one twice")
        for axis, values in self.axes.items():
            if self.seeds and not values:
                raise ValueError(f"axes.{axis} has no values, but the study has seeds")
        return self


class Analysis(Section):
    """How runs are compared."""

    confidence: Fraction
    """Coverage of intervals."""
    power: Fraction
    """Power at which the minimum detectable effect is stated."""
    margin: Annotated[float, Field(gt=0, lt=1)]
    """Smallest difference between two arms that counts, in the metric's own unit; used by verdicts."""


class Reproduction(Section):
    """How a study's end of training is held against published figures."""

    last: Annotated[float, Field(gt=0, le=1)]
    """Share of a run's updates and evaluations that its averages are over, the last ones."""
    tolerance: Positive
    """Largest difference from a published share that is taken for agreement, where other arms' are twice as far off."""


class Report(Section):
    """What the report says of itself."""

    title: Annotated[str, Field(min_length=1)]
    """Heading of the page."""


class Root(Section):
    """What stands in params.yaml beside the sections that overlays complete."""

    plugins: Annotated[tuple[Below, ...], Field(strict=False)]
    """Python files below plugins/ that add fusions or data sets of one's own."""
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


class Cell(Section):
    """One arm with one seed, fully resolved."""

    data: Data
    model: Model
    penalty: Annotated[Built, Field(discriminator="kind")]
    training: Training
